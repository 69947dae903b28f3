/** Two groups with budgets, pauses and canaries of their own beside those of the fleet. */
import { jest } from '@jest/globals';
import { setNodeBooted } from '../../framework/control-plane/nodes.ts';
import { eventually } from '../../framework/eventually.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { applyGroup, groupStatus, setPool } from '../../framework/fleet/pools.ts';
import { configStatus } from '../../framework/fleet/reports.ts';
import { type FleetContext, NEW, OLD, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(900_000);

const LEDGER = ['node-1', 'node-2', 'node-3'];
const GPU = ['node-4', 'node-5', 'node-6'];
const OTHERS = ['node-7', 'node-8', 'node-9'];
const CONFIG = {
  concurrency: { maxUpdating: 3 },
  monitoring: { healthyFor: '5s', timeout: '1m' },
  rollout: { failureBudget: 2, canary: { nodes: 1 } },
};

const running = ({ fleet }: FleetContext, nodes: readonly string[], version: string): string[] =>
  nodes.filter((name) => fleet.node(name).host.version === version);

/** The condition of a group when it is True. */
async function untilGroupIs(context: FleetContext, group: string, wanted: string): Promise<{ message?: string }> {
  return await eventually(
    async () => {
      const found = (await groupStatus(context, group)).conditions?.find(({ type }) => type === wanted);
      if (found?.status !== 'True') throw new Error(`${group}: expected ${wanted}, found ${JSON.stringify(found)}`);
      return found;
    },
    { limitMs: 300_000, pauseMs: 250 },
  );
}

/** Waits until all of these nodes have updated. Until one has, no other may reboot. */
async function untilUpdatedAfterCanary({ fleet }: FleetContext, nodes: readonly string[]): Promise<void> {
  const isUpdated = (name: string): boolean => {
    const { status, spec } = fleet.shadow(name) ?? {};
    return status?.current_version === NEW && spec?.state === 'Idle';
  };
  let most = 0;
  await eventually(
    () => {
      const rebooted = nodes.filter((name) => fleet.node(name).host.reboots > 0);
      const updated = nodes.filter(isUpdated);
      if (updated.length === 0) most = Math.max(most, rebooted.length);
      expect(updated).toEqual(nodes);
    },
    { limitMs: 300_000, pauseMs: 20 },
  );
  expect(most).toBe(1);
}

async function createGroups(context: FleetContext): Promise<void> {
  for (const name of LEDGER) {
    await setPool(context, name, 'ledger');
    context.fleet.node(name).neverReadyOn = NEW;
  }
  for (const name of GPU) await setPool(context, name, 'gpu');
}

async function repair({ fleet, cluster }: FleetContext, name: string): Promise<void> {
  const node = fleet.node(name);
  node.neverReadyOn = undefined;
  if (node.host.version === NEW) await setNodeBooted(cluster, name, node.host.bootID);
}

it('a group is frozen by its own budget and another is paused, while the other nodes go on after a canary of theirs', async () => {
  const options = {
    nodes: fleetNodes(9),
    config: { ...CONFIG, paused: true },
    maxUnavailable: 3,
    before: createGroups,
  };
  await withFleet(options, async (context) => {
    const { fleet } = context;
    await applyGroup(context, 'ledger', { rollout: { failureBudget: 0, canary: { nodes: 1 } } });
    await applyGroup(context, 'gpu', {
      paused: true,
      pauseReason: 'end of quarter',
      rollout: { failureBudget: 0, canary: { nodes: 1 }, approval: 'Required' },
    });
    await untilGroupIs(context, 'gpu', 'Paused');
    await fleet.configure(CONFIG);

    await untilUpdatedAfterCanary(context, OTHERS);
    expect((await untilGroupIs(context, 'ledger', 'Frozen')).message).toContain(NEW);
    const failed = running(context, LEDGER, NEW);
    expect(failed).toHaveLength(1);
    expect(running(context, GPU, OLD)).toEqual(GPU);
    expect((await untilGroupIs(context, 'gpu', 'Paused')).message).toContain('end of quarter');
    expect((await groupStatus(context, 'ledger')).frozenVersions).toMatchObject([{ version: NEW }]);
    expect((await configStatus(context)).frozenVersions ?? []).toEqual([]);

    // Its canary goes without an approval, the other nodes of the group after it.
    await applyGroup(context, 'gpu', { rollout: { failureBudget: 0, canary: { nodes: 1 }, approval: 'Required' } });
    const waiting = (): (string | undefined)[] => GPU.map((name) => fleet.shadow(name)?.status?.waitingFor);
    await eventually(
      () => {
        expect(running(context, GPU, NEW)).toHaveLength(1);
        expect(waiting().filter((reason) => reason === 'WaitingForApproval')).toHaveLength(2);
      },
      { limitMs: 120_000 },
    );
    await applyGroup(context, 'gpu', { rollout: { failureBudget: 0, approvedVersion: NEW, approval: 'Required' } });
    await eventually(() => expect(running(context, GPU, NEW)).toEqual(GPU), { limitMs: 120_000 });
    expect(running(context, LEDGER, NEW)).toEqual(failed);

    for (const name of LEDGER) await repair(context, name);
    const resume = new Date().toISOString().replace(/\.\d+/u, '');
    await applyGroup(context, 'ledger', { rollout: { failureBudget: 0, canary: { nodes: 1 }, resume } });
    await fleet.untilAllRun(NEW, 300_000);
  });
});
