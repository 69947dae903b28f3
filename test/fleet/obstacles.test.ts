import { jest } from '@jest/globals';

import { eventually } from '../support/eventually.ts';
import { fleetNodes } from '../support/fleet/fleet.ts';
import { untilSomeNodeIsHeldUp } from '../support/fleet/steps.ts';
import { NEW, OLD, withFleet } from '../support/fleet/with-fleet.ts';

jest.setTimeout(360_000);

describe('a rollout that meets an obstacle', () => {
  it('waits for a disruption budget that allows nothing, with the node up, and goes on when it allows again', async () => {
    const budget = (namespace: string): string => `/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets/web`;
    const strict = async ({ cluster, namespace }: Parameters<Parameters<typeof withFleet>[1]>[0]): Promise<void> => {
      await cluster.api.patch(budget(namespace), { spec: { maxUnavailable: 0 } });
    };
    await withFleet({ nodes: fleetNodes(3), before: strict }, async ({ fleet, cluster, namespace }) => {
      const heldUp = await untilSomeNodeIsHeldUp(fleet);
      expect(fleet.node(heldUp).host.reboots).toBe(0);
      expect(fleet.observer.leastReady.get(`${namespace}/web`)).toBe(3);
      await cluster.api.patch(budget(namespace), { spec: { maxUnavailable: 1 } });
      await fleet.untilAllRun(NEW);
    });
  });

  it('leaves a node whose new version does not boot on the old one, says so, does not try again, and updates the others', async () => {
    const broken = 'node-2';
    const breakBoot = async ({ fleet }: Parameters<Parameters<typeof withFleet>[1]>[0]): Promise<void> => {
      await fleet.node(broken).host.faults.set({ boot: { rollsBack: true } });
    };
    await withFleet({ nodes: fleetNodes(4), before: breakBoot }, async ({ fleet }) => {
      await eventually(
        () => {
          for (const name of fleet.nodes.keys()) fleet.assertRuns(name, name === broken ? OLD : NEW);
          const status = fleet.shadow(broken)?.status;
          expect(status?.crash_count).toBe(1);
          expect(status?.lastOperation).toMatchObject({ state: 'Failed', errorCode: 'RolledBack', version: NEW });
          expect(status?.conditions).toMatchObject([{ type: 'Progressing', status: 'False', reason: 'NotRetried' }]);
        },
        { limitMs: 90_000 },
      );
      expect(fleet.node(broken).host.reboots).toBe(1);
    });
  });
});
