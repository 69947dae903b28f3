import { jest } from '@jest/globals';
import { GROUP, MANAGED_LABEL, MANAGED_LABEL_VALUE } from '../../../packages/shared/src/api/names.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { eventually } from '../../framework/eventually.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { holdAllDrains, releaseDrains } from '../../framework/fleet/held-drains.ts';
import { untilSomeNodeIsBlocked, untilSomeNodeIsToldTo } from '../../framework/fleet/steps.ts';
import { NEW, OLD, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

describe('a rollout whose fleet changes meanwhile', () => {
  it('continues without a node that is deleted while it updates', async () => {
    await withFleet({ nodes: fleetNodes(4), durations: { prepareMs: 500 } }, async ({ fleet }) => {
      const gone = await untilSomeNodeIsToldTo(fleet, 'StagedAndPerformedUpdate');
      await fleet.removeNode(gone);
      await fleet.untilAllRun(NEW);
      await eventually(() => expect(fleet.shadow(gone)).toBeUndefined());
    });
  });

  it('updates a host that comes back under another name while it is drained, and leaves nothing of the old name', async () => {
    await withFleet({ nodes: fleetNodes(3), before: holdAllDrains }, async (context) => {
      const { fleet } = context;
      const old = await untilSomeNodeIsBlocked(fleet);
      const { host } = fleet.node(old);
      await fleet.renameNode(old, 'renamed');
      await releaseDrains(context);
      await fleet.untilAllRun(NEW);
      await eventually(() => expect(fleet.shadow(old)).toBeUndefined());
      expect(host.reboots).toBe(1);
    });
  });

  it('updates a node that joins', async () => {
    await withFleet({ nodes: fleetNodes(3), durations: { prepareMs: 300 } }, async ({ fleet }) => {
      await untilSomeNodeIsToldTo(fleet, 'RebootedIntoUpdate');
      await fleet.addNode({ name: 'late-1', zone: 'zone-a' });
      await fleet.untilAllRun(NEW);
      expect(fleet.nodes.size).toBe(4);
    });
  });

  it('stops managing a node that loses its label, and manages it again when it has it', async () => {
    await withFleet({ nodes: fleetNodes(3), durations: { prepareMs: 1_500 } }, async ({ fleet }) => {
      const name = await untilSomeNodeIsToldTo(fleet, 'StagedAndPerformedUpdate');
      await fleet.node(name).setManaged(false);
      await eventually(() => expect(fleet.shadow(name)).toBeUndefined(), { limitMs: 30_000 });
      await eventually(() => expect(fleet.kubelet.pids('brupop-agent', name)).toEqual([]));
      expect(fleet.node(name).host.reboots).toBe(0);
      await fleet.node(name).setManaged(true);
      await fleet.untilAllRun(NEW);
    });
  });

  it('releases the version lock of a pinned node that loses its label, before its shadow goes', async () => {
    const config = { versions: { pin: OLD } };
    await withFleet({ nodes: fleetNodes(3), config }, async ({ cluster, fleet }) => {
      const locks = (): unknown[] =>
        ['node-1', 'node-2', 'node-3'].map((name) =>
          fleet.node(name).host.settings.live.get('settings.updates.version-lock'),
        );
      await eventually(() => expect(locks()).toEqual([OLD, OLD, OLD]), { limitMs: 60_000 });
      await fleet.node('node-2').setManaged(false);
      await eventually(() => expect(fleet.shadow('node-2')).toBeUndefined(), { limitMs: 60_000 });
      expect(locks()).toEqual([OLD, 'latest', OLD]);
      await cluster.api.patch(`/apis/${GROUP}/v1alpha1/brupopconfigs/cluster`, { spec: { versions: { pin: null } } });
      await fleet.node('node-2').setManaged(true);
      await fleet.untilAllRun(NEW);
    });
  });

  it('lists a node whose agent cannot start, and updates the other nodes', async () => {
    await withFleet({ nodes: fleetNodes(3) }, async ({ cluster, fleet }) => {
      await createNode(cluster, { name: 'agentless', labels: { [MANAGED_LABEL]: MANAGED_LABEL_VALUE } });
      // No pod of the fleet could run there.
      const taints = [{ key: 'example.com/broken', effect: 'NoSchedule' }];
      await cluster.api.patch('/api/v1/nodes/agentless', { spec: { taints } });
      await eventually(() => {
        const conditions = fleet.shadow('agentless')?.status?.conditions ?? [];
        expect(conditions[0]?.reason).toBe('AgentNotConnected');
      });
      await fleet.untilAllRun(NEW);
      await cluster.api.delete('/api/v1/nodes/agentless');
      await eventually(() => expect(fleet.shadow('agentless')).toBeUndefined());
    });
  });

  it('is not disturbed by a helm upgrade that replaces every pod of the operator', async () => {
    await withFleet({ nodes: fleetNodes(4), durations: { prepareMs: 300, bootMs: 300 } }, async ({ fleet }) => {
      await untilSomeNodeIsToldTo(fleet, 'RebootedIntoUpdate');
      await fleet.operator.upgrade({ 'agent.updateCheckIntervalSeconds': 60, logLevel: 'debug' });
      await fleet.untilAllRun(NEW);
      await eventually(
        () => {
          const levels = fleet.observer.pods
            .list()
            .filter(({ metadata }) => metadata.namespace === fleet.operator.namespace)
            .flatMap(
              ({ spec }) =>
                spec?.containers.flatMap(({ env = [] }) => env.filter((one) => one.name === 'LOG_LEVEL')) ?? [],
            );
          expect(new Set(levels.map(({ value }) => value))).toEqual(new Set(['debug']));
        },
        { limitMs: 60_000 },
      );
      expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([1, 1, 1, 1]);
    });
  });
});
