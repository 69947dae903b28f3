import { jest } from '@jest/globals';
import { CORDONED_ANNOTATION } from '../../packages/shared/src/api/names.ts';
import { eventually } from '../framework/eventually.ts';
import { allowEvictions, forbidEvictions } from '../framework/faults/evictions.ts';
import { fleetNodes } from '../framework/fleet/fleet.ts';
import { holdAllDrains, releaseDrains } from '../framework/fleet/held-drains.ts';
import { untilSomeNodeIsAt, untilSomeNodeIsBlocked } from '../framework/fleet/steps.ts';
import { NEW, OLD, withFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

describe('a drain', () => {
  it('is cancelled when the managed label is removed while it is blocked', async () => {
    await withFleet({ nodes: fleetNodes(3), before: holdAllDrains }, async (context) => {
      const { fleet } = context;
      const name = await untilSomeNodeIsBlocked(fleet);
      expect(fleet.observer.nodes.get(name)?.spec?.unschedulable).toBe(true);
      await fleet.node(name).setManaged(false);
      await eventually(() => {
        const { metadata, spec } = fleet.observer.nodes.get(name) ?? {};
        expect(spec?.unschedulable).toBeUndefined();
        expect(metadata?.annotations).not.toHaveProperty([CORDONED_ANNOTATION]);
      });
      await releaseDrains(context);
      const others = [...fleet.nodes.keys()].filter((other) => other !== name);
      await eventually(() => others.forEach((other) => fleet.assertRuns(other, NEW)), { limitMs: 60_000 });
      expect(fleet.node(name).host.version).toBe(OLD);
      expect(fleet.node(name).host.reboots).toBe(0);
      await fleet.node(name).setManaged(true);
      await fleet.untilAllRun(NEW);
    });
  });

  it('whose evictions are rejected with 403 never ends in a reboot, shows why, and continues when allowed', async () => {
    await withFleet(
      { nodes: fleetNodes(3), before: async ({ cluster }) => await forbidEvictions(cluster) },
      async ({ fleet, cluster }) => {
        const name = await untilSomeNodeIsAt(fleet, 'Drain');
        await eventually(() => {
          const [block] = fleet.shadow(name)?.status?.drain?.blockedBy ?? [];
          expect(block?.reason).toBe('Forbidden');
          expect(block?.message).toContain('evictions are forbidden');
        });
        const reboots = [...fleet.nodes.values()].map(({ host }) => host.reboots);
        expect(reboots).toEqual([0, 0, 0]);
        await allowEvictions(cluster);
        await fleet.untilAllRun(NEW);
      },
    );
  });
});
