import { jest } from '@jest/globals';

import { eventually } from '../support/eventually.ts';
import { fleetNodes } from '../support/fleet/fleet.ts';
import { Evictions } from '../support/fleet/evictions.ts';
import { NEW, OLD, withFleet } from '../support/fleet/with-fleet.ts';
import type { Scene } from '../support/fleet/with-fleet.ts';

jest.setTimeout(360_000);

/** Long enough that two nodes that may overlap do. */
const UNHURRIED = { prepareMs: 200, bootMs: 600 };

describe('a rollout', () => {
  it('takes every node to the new version, one at a time, each rebooted once', async () => {
    const evictions = new Evictions();
    const follow = async ({ fleet }: Scene): Promise<void> => evictions.follow(fleet);
    await withFleet({ nodes: fleetNodes(6), before: follow }, async ({ fleet }) => {
      await fleet.untilAllRun(NEW);
      expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([1, 1, 1, 1, 1, 1]);
      expect(fleet.observer.mostUnavailable).toBe(1);
      // A replica on the drained node would hold up its own eviction.
      expect(await evictions.fromOwnNode(fleet)).toEqual([]);
      expect(evictions.count).toBeGreaterThan(6);
    });
  });

  it('finishes on two nodes, although all API servers come to run on the one that is left', async () => {
    await withFleet({ nodes: fleetNodes(2) }, async ({ fleet }) => {
      await fleet.untilAllRun(NEW);
      expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([1, 1]);
    });
  });

  it('takes two nodes at a time when the configuration says so, never more', async () => {
    await withFleet(
      { nodes: fleetNodes(6), maxUnavailable: 2, durations: UNHURRIED, values: {} },
      async ({ fleet }) => {
        await fleet.configure({ concurrency: { maxUpdating: 2 } });
        await fleet.untilAllRun(NEW);
        expect(fleet.observer.mostUnavailable).toBe(2);
      },
    );
  });

  it('stops before the next node when it is paused in the middle, and goes on when it is resumed', async () => {
    await withFleet({ nodes: fleetNodes(4), durations: UNHURRIED }, async ({ fleet, cluster }) => {
      const updated = (): number => [...fleet.nodes.values()].filter(({ host }) => host.version === NEW).length;
      await eventually(() => expect(updated()).toBeGreaterThan(0), { limitMs: 60_000 });
      await fleet.configure({ paused: true, pauseReason: 'the quarter ends' });
      await eventually(() => expect(fleet.observer.leftovers()).toEqual([]));
      const before = updated();
      expect(before).toBeLessThan(4);
      await eventually(async () => {
        const { status } = await cluster.api.get<{
          status?: { conditions?: { type: string; status: string; message: string }[] };
        }>('/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs/cluster');
        const paused = status?.conditions?.find(({ type }) => type === 'Paused');
        expect(paused).toMatchObject({
          status: 'True',
          message: expect.stringContaining('the quarter ends') as string,
        });
      });
      const waiting = [...fleet.nodes.keys()].filter((name) => fleet.node(name).host.version === OLD);
      await eventually(() => {
        const reasons = waiting.map((name) => fleet.shadow(name)?.status?.conditions?.map(({ reason }) => reason));
        expect(reasons).toEqual(waiting.map(() => ['Paused']));
      });
      expect(updated()).toBe(before);
      await fleet.configure({ paused: false });
      await fleet.untilAllRun(NEW);
    });
  });
});
