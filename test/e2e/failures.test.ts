import { jest } from '@jest/globals';
import { eventually } from '../framework/eventually.ts';
import { fleetNodes } from '../framework/fleet/fleet.ts';
import { NEW, OLD, type FleetContext, withFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

describe('a rollout with a version that does not boot on one node', () => {
  it('keeps a node on its old version when the new one does not boot, and retries only on request', async () => {
    const broken = 'node-2';
    const breakBoot = async ({ fleet }: FleetContext): Promise<void> => {
      await fleet.node(broken).host.faults.set({ boot: { rollsBack: true } });
    };
    await withFleet({ nodes: fleetNodes(3), before: breakBoot }, async ({ fleet, cluster }) => {
      await eventually(
        () => {
          for (const name of fleet.nodes.keys()) fleet.assertRuns(name, name === broken ? OLD : NEW);
          const status = fleet.shadow(broken)?.status;
          expect(status?.crash_count).toBe(1);
          expect(status?.lastOperation).toMatchObject({ state: 'Failed', errorCode: 'RolledBack', version: NEW });
          expect(status?.conditions?.map(({ type, status: is, reason }) => [type, is, reason])).toEqual([
            ['Progressing', 'False', 'ManualRetryRequired'],
            ['Ready', 'False', 'ManualRetryRequired'],
            ['Stalled', 'True', 'ManualRetryRequired'],
          ]);
        },
        { limitMs: 90_000 },
      );
      expect(fleet.node(broken).host.reboots).toBe(1);

      const known = fleet.shadow(broken)?.metadata.uid;
      await cluster.api.delete(fleet.shadowPath(broken));
      await eventually(
        () => {
          const { metadata, status } = fleet.shadow(broken) ?? {};
          expect(metadata?.uid).not.toBe(known);
          expect(status?.lastOperation).toMatchObject({ state: 'Failed', errorCode: 'RolledBack', version: NEW });
          expect(status?.conditions?.[0]).toMatchObject({ reason: 'ManualRetryRequired' });
        },
        { limitMs: 90_000 },
      );
      expect(fleet.node(broken).host.reboots).toBe(2);
      await fleet.node(broken).host.faults.set({ boot: { rollsBack: false } });
      await fleet.askForRetry(broken, NEW);
      await fleet.untilAllRun(NEW);
      expect(fleet.node(broken).host.reboots).toBe(3);
    });
  });
});
