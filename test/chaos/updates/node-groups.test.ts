/** Two pools with rules of their own, on a whole fleet. */
import { jest } from '@jest/globals';
import { eventually } from '../../framework/eventually.ts';
import { type Fleet, fleetNodes } from '../../framework/fleet/fleet.ts';
import { applyGroup, groupStatus, setPool } from '../../framework/fleet/pools.ts';
import { type FleetContext, NEW, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(600_000);

const WEB = ['node-1', 'node-2', 'node-3'];
const GPU = ['node-4', 'node-5', 'node-6'];

const updating = (fleet: Fleet, nodes: readonly string[]): string[] =>
  nodes.filter((name) => {
    const state = fleet.shadow(name)?.spec.state ?? 'Idle';
    return state !== 'Idle' && state !== 'ErrorReset';
  });

async function createPools(context: FleetContext): Promise<void> {
  for (const name of WEB) await setPool(context, name, 'web');
  for (const name of GPU) await setPool(context, name, 'gpu');
}

/** Fails when a node of gpu updates while one of web has not, or when two of them update at once. */
async function watchOrder({ fleet }: FleetContext, version: string): Promise<void> {
  let most = 0;
  await eventually(
    () => {
      const begun = GPU.filter((name) => fleet.node(name).host.version === version);
      const busy = updating(fleet, GPU);
      most = Math.max(most, busy.length);
      if (begun.length + busy.length > 0) for (const name of WEB) fleet.assertRuns(name, version);
      for (const name of GPU) fleet.assertRuns(name, version);
    },
    { limitMs: 240_000, pauseMs: 20 },
  );
  expect(most).toBe(1);
}

it('a pool updates one by one, after another, and under rules of its own', async () => {
  const config = { concurrency: { maxUpdating: 3 } };
  await withFleet({ nodes: fleetNodes(6), config, maxUnavailable: 3, before: createPools }, async (context) => {
    const { fleet } = context;
    const gpu = { after: ['web'], soak: '5s', concurrency: { maxUpdating: 1 } };
    await applyGroup(context, 'gpu', gpu);
    await eventually(async () =>
      expect((await groupStatus(context, 'gpu')).conditions?.[0]?.reason).toBe('InvalidConfiguration'),
    );
    expect((await groupStatus(context, 'gpu')).conditions?.[0]?.message).toContain('found "web"');
    expect(updating(fleet, GPU)).toEqual([]);

    await applyGroup(context, 'web', { concurrency: { maxUpdating: 2 } });
    await watchOrder(context, NEW);
    await eventually(async () => {
      expect((await groupStatus(context, 'gpu')).nodes).toMatchObject({ managed: 3, upToDate: 3 });
      expect([...WEB, ...GPU].map((name) => fleet.shadow(name)?.status?.group)).toEqual([
        ...WEB.map(() => 'web'),
        ...GPU.map(() => 'gpu'),
      ]);
    });
  });
});

it('a node that changes its pool in mid-update finishes under the rules that it began with', async () => {
  await withFleet({ nodes: fleetNodes(6), config: { paused: true }, before: createPools }, async (context) => {
    const { fleet } = context;
    await applyGroup(context, 'web', { monitoring: { healthyFor: '20s' } });
    await applyGroup(context, 'gpu', {});
    await fleet.configure({});
    const [node = ''] = WEB;
    const stateOf = (): string | undefined => fleet.shadow(node)?.spec.state;
    await eventually(() => expect(stateOf()).toBe('MonitoringUpdate'), { limitMs: 180_000 });
    const since = Date.now();
    const groups = new Set<string | undefined>();
    await setPool(context, node, 'gpu');
    await eventually(
      () => {
        if (stateOf() === 'MonitoringUpdate') groups.add(fleet.shadow(node)?.status?.group);
        expect(stateOf()).toBe('Idle');
      },
      { limitMs: 60_000, pauseMs: 20 },
    );
    expect([...groups]).toEqual(['web']);
    expect(Date.now() - since).toBeGreaterThan(15_000);
    await eventually(() => expect(fleet.shadow(node)?.status?.group).toBe('gpu'));
    await fleet.untilAllRun(NEW, 300_000);
  });
});
