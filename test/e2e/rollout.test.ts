import { jest } from '@jest/globals';
import type { BrupopConfig } from '../../packages/shared/src/api/brupop-config.ts';
import { eventually } from '../framework/eventually.ts';
import { Evictions } from '../framework/fleet/evictions.ts';
import { fleetNodes } from '../framework/fleet/fleet.ts';
import { NEW, OLD, type FleetContext, withFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

/** Long enough for two updates to overlap if they may. */
const UNHURRIED = { prepareMs: 200, bootMs: 600 };

describe('a rollout', () => {
  it('updates every node with one reboot, one at a time or as many as the configuration allows', async () => {
    const evictions = new Evictions();
    const follow = async ({ fleet }: FleetContext): Promise<void> => evictions.follow(fleet);
    const values = { 'agent.updateCheckIntervalSeconds': 1 };
    const options = { nodes: fleetNodes(4), before: follow, maxUnavailable: 2, durations: UNHURRIED, values };
    await withFleet(options, async ({ fleet }) => {
      const reboots = (): number[] => [...fleet.nodes.values()].map(({ host }) => host.reboots);
      await fleet.untilAllRun(NEW);
      expect(reboots()).toEqual([1, 1, 1, 1]);
      expect(fleet.observer.mostUnavailable).toBe(1);
      expect((await evictions.all(fleet)).length).toBeGreaterThan(4);

      await fleet.configure({ concurrency: { maxUpdating: 2 } });
      await fleet.untilAllRun(fleet.publishNext());
      expect(reboots()).toEqual([2, 2, 2, 2]);
      expect(fleet.observer.mostUnavailable).toBe(2);
    });
  });

  it('pauses before the next node, and finishes although all API servers run on one node', async () => {
    await withFleet({ nodes: fleetNodes(2), durations: UNHURRIED }, async ({ fleet, cluster }) => {
      const updated = (): string[] => [...fleet.nodes.keys()].filter((name) => fleet.node(name).host.version === NEW);
      await eventually(() => expect(updated()).toHaveLength(1), { limitMs: 60_000 });
      await fleet.configure({ paused: true, pauseReason: 'quarter-end freeze' });
      await eventually(() => expect(fleet.observer.leftovers()).toEqual([]));
      expect(updated()).toHaveLength(1);
      await eventually(async () => {
        const { status } = await cluster.api.get<BrupopConfig>(
          '/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs/cluster',
        );
        const message = expect.stringContaining('quarter-end freeze') as string;
        expect(status?.conditions?.find(({ type }) => type === 'Paused')).toMatchObject({ status: 'True', message });
      });
      const waiting = [...fleet.nodes.keys()].filter((name) => fleet.node(name).host.version === OLD);
      await eventually(() => {
        const conditions = waiting.map((name) => fleet.shadow(name)?.status?.conditions ?? []);
        const reasons = conditions.map((all) => all.find(({ type }) => type === 'Progressing')?.reason);
        expect(reasons).toEqual(['Paused']);
      });
      expect(updated()).toHaveLength(1);
      await fleet.configure({ paused: false });
      await fleet.untilAllRun(NEW);
      expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([1, 1]);
    });
  });
});
