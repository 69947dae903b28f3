/** What changes without a drain, on a whole fleet while it is updated. */
import { jest } from '@jest/globals';
import { auditPosition, countRequests, operatorRequests } from '../../framework/audit.ts';
import { eventually } from '../../framework/eventually.ts';
import { type Fleet, fleetNodes } from '../../framework/fleet/fleet.ts';
import { holdAllDrains, releaseDrains } from '../../framework/fleet/held-drains.ts';
import { applyGroup, groupStatus, setPool } from '../../framework/fleet/pools.ts';
import { untilSomeNodeIsBlocked } from '../../framework/fleet/steps.ts';
import { type FleetContext, NEW, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(600_000);

const TEAM = 'example.com/team';
const TAINT = { key: 'example.com/dedicated', value: 'gpu', effect: 'NoSchedule' } as const;
const METADATA = { labels: { [TEAM]: 'ml' }, taints: [TAINT], domains: ['example.com'] };
const VALUES = { 'nodeMetadata.domains[0]': 'example.com' };

/** Boot IDs and cordons. */
const disruptions = (fleet: Fleet): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    fleet.observer.nodes.list().map(({ metadata, spec }) => {
      return [metadata.name, [fleet.node(metadata.name).host.bootID, spec?.unschedulable === true]];
    }),
  );

const marked = (fleet: Fleet): string[] =>
  fleet.observer.nodes
    .list()
    .filter(
      ({ metadata, spec }) => metadata.labels?.[TEAM] === 'ml' && spec?.taints?.some(({ key }) => key === TAINT.key),
    )
    .map(({ metadata }) => metadata.name)
    .toSorted();

/** As TAINT_PROVING_MS of the plan, less what a write takes to arrive at the observer. */
const PROVING_MS = 59_000;
const EVICTING = {
  nodeMetadata: {
    taints: [{ ...TAINT, effect: 'NoExecute' as const }],
    confirmNoExecute: true,
    domains: ['example.com'],
  },
};

/** When each node was first seen with the taint that evicts pods, in that order, epoch milliseconds. */
function taintTimes(fleet: Fleet): ReadonlyMap<string, number> {
  const times = new Map<string, number>();
  fleet.observer.nodes.subscribe(({ object: { metadata, spec } }) => {
    const isTainted = spec?.taints?.some(({ key, effect }) => key === TAINT.key && effect === 'NoExecute') === true;
    if (isTainted && !times.has(metadata.name)) times.set(metadata.name, Date.now());
  });
  return times;
}

async function createPool(context: FleetContext): Promise<void> {
  for (const name of context.fleet.nodes.keys()) await setPool(context, name, 'gpu');
}

it('labels and taints reach a fleet at rest without a cordon, an eviction or a reboot, and end with their group', async () => {
  await withFleet({ nodes: fleetNodes(3), values: VALUES, before: createPool }, async (context) => {
    const { fleet, cluster } = context;
    await fleet.untilAllRun(NEW);
    await applyGroup(context, 'gpu', {});
    await eventually(async () => expect((await groupStatus(context, 'gpu')).nodes?.upToDate).toBe(3));
    const before = disruptions(fleet);
    const position = await auditPosition(cluster.auditLogPath);
    await applyGroup(context, 'gpu', { nodeMetadata: METADATA });
    await eventually(() => expect(marked(fleet)).toEqual([...fleet.nodes.keys()].toSorted()));
    await cluster.api.delete('/apis/brupop.bottlerocket.aws/v1alpha1/bottlerocketnodegroups/gpu');
    await eventually(async () => await expect(groupStatus(context, 'gpu')).rejects.toMatchObject({ status: 404 }));
    await eventually(() => expect(marked(fleet)).toEqual([]));
    expect(disruptions(fleet)).toEqual(before);
    const writes = countRequests(await operatorRequests(cluster.auditLogPath, fleet.operator.namespace, position));
    const kinds = [...writes.keys()].filter(
      (kind) => /evict|pods|nodes$|shadows$/u.test(kind) && !/ (?:get|list|watch) /u.test(kind),
    );
    expect(kinds).toEqual(['brupop-controller patch nodes']);
  });
});

it('a drain follows the settings of its group from its next pass, while its Nodes get labels and taints', async () => {
  const before = async (context: FleetContext): Promise<void> => {
    await createPool(context);
    await holdAllDrains(context);
  };
  await withFleet({ nodes: fleetNodes(3), values: VALUES, config: { paused: true }, before }, async (context) => {
    const { fleet } = context;
    await applyGroup(context, 'gpu', {});
    await fleet.configure({});
    const name = await untilSomeNodeIsBlocked(fleet);
    const drainOf = () => fleet.shadow(name)?.status?.drain;
    const [startTime, disrupted] = [drainOf()?.startTime, disruptions(fleet)];
    await applyGroup(context, 'gpu', { drain: { unmanagedPods: 'Block' }, nodeMetadata: METADATA });
    await eventually(() => {
      expect(drainOf()?.blockedBy?.map(({ reason }) => reason)).toContain('BlockedByPolicy');
      expect(marked(fleet)).toEqual([...fleet.nodes.keys()].toSorted());
    });
    expect(drainOf()?.startTime).toBe(startTime);
    expect(disruptions(fleet)).toEqual(disrupted);

    await applyGroup(context, 'gpu', { drain: { timeout: '1m' }, nodeMetadata: METADATA });
    const codeOf = (): string | undefined => fleet.shadow(name)?.status?.lastOperation?.errorCode;
    await eventually(() => expect(codeOf()).toBe('DrainTimedOut'), { limitMs: 120_000 });
    await releaseDrains(context);
    await applyGroup(context, 'gpu', { retry: { backoff: '10s' } });
    await fleet.untilAllRun(NEW, 300_000);
    await eventually(() => expect(marked(fleet)).toEqual([]));
  });
});

it('a taint that evicts pods reaches no node of a paused fleet, then one, and then no more than the limit', async () => {
  const [nodes, maxUpdating] = [fleetNodes(5), 2];
  await withFleet({ nodes, values: VALUES, before: createPool }, async (context) => {
    const { fleet } = context;
    await fleet.untilAllRun(NEW);
    await applyGroup(context, 'gpu', {});
    await eventually(async () => expect((await groupStatus(context, 'gpu')).nodes?.upToDate).toBe(5));
    await fleet.configure({ paused: true });
    const times = taintTimes(fleet);
    await applyGroup(context, 'gpu', EVICTING);
    await eventually(async () => {
      const { conditions = [] } = await groupStatus(context, 'gpu');
      expect(conditions.find(({ type }) => type === 'MetadataApplied')?.message).toMatch(
        /Waiting: .* pauses all updates/u,
      );
    });
    expect(times.size).toBe(0);

    await fleet.configure({ concurrency: { maxUpdating } });
    await eventually(() => expect(times.size).toBe(5), { limitMs: 400_000 });
    const [first = 0, ...others] = [...times.values()];
    expect(others.map((at) => at - first >= PROVING_MS)).toEqual([true, true, true, true]);
    // Each node holds its slot for as long as it proves the taint.
    const together = others.map((at) => others.filter((one) => one <= at && at - one < PROVING_MS).length);
    expect(Math.max(...together)).toBeLessThanOrEqual(maxUpdating);
    // The taint manager of Kubernetes ignores disruption budgets.
    const violations = fleet.observer.violations.splice(0);
    expect(violations.filter((one) => !one.startsWith('disruption budget '))).toEqual([]);
  });
});
