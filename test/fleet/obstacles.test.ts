import { jest } from '@jest/globals';

import { eventually } from '../support/eventually.ts';
import { fleetNodes } from '../support/fleet/fleet.ts';
import { NEW, OLD, withFleet } from '../support/fleet/with-fleet.ts';
import type { Scene } from '../support/fleet/with-fleet.ts';
import { allowUnavailable } from '../support/fleet/workloads.ts';

jest.setTimeout(360_000);

describe('a rollout that meets an obstacle', () => {
  it('begins no node with a pod whose disruption budget allows nothing, says so, and goes on when it allows again', async () => {
    const strict = async (scene: Scene): Promise<void> => await allowUnavailable(scene, 0);
    await withFleet({ nodes: fleetNodes(3), before: strict }, async (scene) => {
      const { fleet, namespace } = scene;
      const held = new Set(
        fleet.observer.pods
          .list()
          .filter(({ metadata }) => metadata.namespace === namespace && metadata.name.startsWith('web-'))
          .map(({ spec }) => spec?.nodeName ?? ''),
      );
      await eventually(
        () => {
          const said = [...fleet.nodes.keys()].map((name) => {
            const { reason = '', message = '' } = fleet.shadow(name)?.status?.conditions?.[0] ?? {};
            return [name, reason, /shop-\w+\/web-.* its disruption budget web allows/u.test(message)];
          });
          const expected = [...fleet.nodes.keys()].map((name) =>
            held.has(name) ? [name, 'DrainBlocked', true] : [name, 'UpToDate', false],
          );
          expect(said).toEqual(expected);
        },
        { limitMs: 30_000 },
      );
      expect(fleet.observer.leastReady.get(`${namespace}/web`)).toBe(3);
      await allowUnavailable(scene, 1);
      await fleet.untilAllRun(NEW);
    });
  });

  it('leaves a node whose new version does not boot on the old one, says so, does not try again, and updates the others', async () => {
    const broken = 'node-2';
    const breakBoot = async ({ fleet }: Scene): Promise<void> => {
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
