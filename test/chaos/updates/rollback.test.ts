/** A version on which a DaemonSet does not work, and nodes that go back from it. */
import { jest } from '@jest/globals';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { eventually } from '../../framework/eventually.ts';
import { daemonPods, setReady } from '../../framework/fleet/daemon-pods.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { configStatus, eventReasons } from '../../framework/fleet/reports.ts';
import { type FleetContext, NEW, OLD, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(600_000);

const config: BrupopConfigSpec = {
  monitoring: { healthyFor: '15s', timeout: '1m' },
  rollout: { rollback: 'Automatic' },
};

/** The DaemonSet works where the host runs OLD, and only there. */
async function breakOnNew(context: FleetContext): Promise<void> {
  for (const pod of await daemonPods(context)) {
    const version = context.fleet.nodes.get(pod.spec?.nodeName ?? '')?.host.version;
    const isReady = pod.status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True';
    if (version !== undefined && isReady !== (version === OLD)) await setReady(context, pod, !isReady);
  }
}

describe('a version on which a DaemonSet does not work', () => {
  it('goes back to its previous version on the nodes that tried it, and is frozen', async () => {
    await withFleet({ nodes: fleetNodes(4), config, trustsWorkloads: true }, async (context) => {
      const { fleet } = context;
      await eventually(
        async () => {
          await breakOnNew(context);
          const waiting = [...fleet.nodes.keys()].map((name) => fleet.shadow(name)?.status?.waitingFor);
          expect(waiting.filter((reason) => reason === 'Frozen')).toHaveLength(2);
          expect(waiting.filter((reason) => reason === 'Reverted')).toHaveLength(2);
        },
        { limitMs: 400_000, pauseMs: 200 },
      );
      for (const name of fleet.nodes.keys()) fleet.assertRuns(name, OLD);
      expect([...fleet.nodes.values()].map(({ host }) => host.reboots).toSorted((a, b) => a - b)).toEqual([0, 0, 2, 2]);
      const { failedNodes = [], frozenVersions } = await configStatus(context);
      expect(frozenVersions).toMatchObject([{ version: NEW }]);
      expect(failedNodes).toMatchObject([{ code: 'NotHealthy' }, { code: 'NotHealthy' }]);
      const events = await eventReasons(context, { kind: 'Node', name: failedNodes[0]?.name ?? '' });
      expect(events).toEqual(expect.arrayContaining(['UpdateFailed', 'Reverted']));

      await fleet.untilAllRun(fleet.publishNext());
    });
  });
});

it('a DaemonSet of a namespace that is not trusted, never Ready, fails no node and freezes no version', async () => {
  const monitoring = { healthyFor: '5s', timeout: '1m' };
  await withFleet({ nodes: fleetNodes(3), config: { monitoring } }, async (context) => {
    const { fleet } = context;
    await eventually(
      async () => {
        for (const pod of await daemonPods(context)) await setReady(context, pod, false);
        for (const name of fleet.nodes.keys()) fleet.assertRuns(name, NEW);
        const { failedNodes = [], frozenVersions = [], nodes } = await configStatus(context);
        expect({ failedNodes, frozenVersions, upToDate: nodes?.upToDate }).toEqual({
          failedNodes: [],
          frozenVersions: [],
          upToDate: 3,
        });
      },
      { limitMs: 240_000, pauseMs: 500 },
    );
    expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([1, 1, 1]);
  });
});
