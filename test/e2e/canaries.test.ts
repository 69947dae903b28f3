/** A version that few nodes try before all others. */
import { jest } from '@jest/globals';
import type { BrupopConfigSpec } from '../../packages/shared/src/api/config-spec.ts';
import { eventually } from '../framework/eventually.ts';
import { type Fleet, fleetNodes } from '../framework/fleet/fleet.ts';
import { configStatus, eventReasons } from '../framework/fleet/reports.ts';
import { NEW, withFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

const rollout = { canary: { nodes: 1 }, soak: '10s', approval: 'Required' } as const;
const config: BrupopConfigSpec = { concurrency: { maxUpdating: 2 }, rollout };

const CONFIG = { kind: 'BrupopConfig', name: 'cluster' } as const;

const rebooted = (fleet: Fleet): string[] =>
  [...fleet.nodes].filter(([, { host }]) => host.reboots > 0).map(([name]) => name);
const waitingFor = (fleet: Fleet): (string | undefined)[] =>
  [...fleet.nodes.keys()].map((name) => fleet.shadow(name)?.status?.waitingFor);

describe('canaries', () => {
  it('update first, then soak, and the others start when a user has approved the version', async () => {
    await withFleet({ nodes: fleetNodes(4), config, maxUnavailable: 2 }, async (context) => {
      const { fleet } = context;
      await eventually(() => expect(waitingFor(fleet)).toContain('WaitingForCanary'), { limitMs: 60_000 });
      await eventually(() => expect(waitingFor(fleet).join(' ')).toMatch(/Soaking until 20/u), { limitMs: 120_000 });
      expect(rebooted(fleet)).toHaveLength(1);
      await eventually(async () => expect(await eventReasons(context, CONFIG)).toContain('CanariesSucceeded'));

      await eventually(
        () => expect(waitingFor(fleet).filter((reason) => reason === 'WaitingForApproval')).toHaveLength(3),
        { limitMs: 60_000 },
      );
      await eventually(async () => {
        const { canaries, conditions, progress } = await configStatus(context);
        expect(canaries).toMatchObject([{ version: NEW }]);
        expect(progress).toEqual({
          lastProgressTime: progress?.lastProgressTime,
          countedSeconds: progress?.countedSeconds,
        });
        expect(conditions?.find(({ type }) => type === 'Progressing')).toMatchObject({ reason: 'WaitingForApproval' });
      });
      await eventually(async () => expect(await eventReasons(context, CONFIG)).toContain('WaitingForApproval'));
      expect(rebooted(fleet)).toHaveLength(1);

      await fleet.configure({ ...config, rollout: { ...rollout, approvedVersion: NEW } });
      await fleet.untilAllRun(NEW);
      await eventually(async () => expect((await configStatus(context)).progress).toBeUndefined());
    });
  });
});
