/** A version that boots on no host. */
import { jest } from '@jest/globals';
import { eventually } from '../framework/eventually.ts';
import { inject } from '../framework/faults/inject.ts';
import { type Fleet, fleetNodes } from '../framework/fleet/fleet.ts';
import { configStatus, eventReasons } from '../framework/fleet/reports.ts';
import { type FleetContext, NEW, OLD, oneFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

async function setBoots(fleet: Fleet, rollsBack: boolean): Promise<void> {
  for (const { host } of fleet.nodes.values()) await host.faults.set({ boot: { rollsBack } });
}

const onFleet = oneFleet({
  nodes: fleetNodes(6),
  values: { 'agent.updateCheckIntervalSeconds': 1 },
  before: async ({ fleet }) => await setBoots(fleet, true),
});

const rebootsOf = (fleet: Fleet): number[] => [...fleet.nodes.values()].map(({ host }) => host.reboots);

/** How many nodes have been rebooted since their hosts had these counts. */
const touched = (fleet: Fleet, before: readonly number[]): number =>
  rebootsOf(fleet).filter((reboots, index) => reboots > (before[index] ?? 0)).length;

/** Waits until `failed` nodes have failed with the version, nothing is under way, and the others say why they wait. */
async function untilFrozen(context: FleetContext, version: string, failed: number): Promise<void> {
  const { fleet } = context;
  await eventually(
    async () => {
      const status = await configStatus(context);
      expect(status.conditions?.find(({ type }) => type === 'Frozen')).toMatchObject({
        reason: 'FailureBudgetExceeded',
      });
      expect(status.frozenVersions).toMatchObject([{ version }]);
      expect(status.nodes).toMatchObject({ updating: 0, failed });
      const waiting = [...fleet.nodes.keys()].map((name) => fleet.shadow(name)?.status?.waitingFor);
      expect(waiting.filter((reason) => reason === 'ManualRetryRequired')).toHaveLength(failed);
      expect(waiting.filter((reason) => reason === 'Frozen')).toHaveLength(fleet.nodes.size - failed);
      expect(fleet.observer.leftovers()).toEqual([]);
    },
    { limitMs: 120_000, pauseMs: 200 },
  );
}

function assertAllRun(fleet: Fleet, version: string): void {
  for (const name of fleet.nodes.keys()) fleet.assertRuns(name, version);
}

describe('a version that boots on no host', () => {
  it('is tried on two nodes by default, and again only when a user accepts that', async () => {
    await onFleet(async (context) => {
      const { fleet } = context;
      await untilFrozen(context, NEW, 2);
      assertAllRun(fleet, OLD);
      expect(touched(fleet, [])).toBe(2);
      await eventually(async () =>
        expect(await eventReasons(context, { kind: 'BrupopConfig', name: 'cluster' })).toContain('Frozen'),
      );

      await inject(context, { kind: 'killed', who: { program: 'controller', which: 'leader' }, forMs: 0 });
      await eventually(() => expect(fleet.observer.leader()).toBeDefined(), { limitMs: 60_000 });
      await untilFrozen(context, NEW, 2);

      await fleet.configure({ rollout: { resume: new Date().toISOString() } });
      await untilFrozen(context, NEW, 4);
      assertAllRun(fleet, OLD);
      expect(touched(fleet, [])).toBe(4);
      expect(Math.max(...rebootsOf(fleet))).toBe(1);

      await setBoots(fleet, false);
      await fleet.untilAllRun(fleet.publishNext());
    });
  });

  it('is tried on no more nodes than the budget and the slots together', async () => {
    await onFleet(async (context) => {
      const { fleet } = context;
      await setBoots(fleet, true);
      const [before, good] = [rebootsOf(fleet), fleet.node('node-1').host.version];
      fleet.maxUnavailable = 3;
      const version = await fleet.startUpdate({ concurrency: { maxUpdating: 3 } });
      await eventually(async () => expect((await configStatus(context)).frozenVersions).toMatchObject([{ version }]), {
        limitMs: 120_000,
      });
      await eventually(async () => expect((await configStatus(context)).nodes?.updating).toBe(0), { limitMs: 60_000 });
      const failed = touched(fleet, before);
      expect(failed).toBeGreaterThanOrEqual(2);
      expect(failed).toBeLessThanOrEqual(4);
      await untilFrozen(context, version, failed);
      assertAllRun(fleet, good);
      expect((await configStatus(context)).failedNodes?.map(({ code }) => code)).toEqual(
        Array.from({ length: failed }, () => 'RolledBack'),
      );
      await new Promise((done) => setTimeout(done, 10_000));
      expect(touched(fleet, before)).toBe(failed);

      await setBoots(fleet, false);
      await fleet.configure({ concurrency: { maxUpdating: 3 }, rollout: { resume: new Date().toISOString() } });
      await eventually(() => expect(touched(fleet, before)).toBe(fleet.nodes.size), { limitMs: 120_000 });
      await eventually(() => expect(fleet.problems()).toEqual([]), { limitMs: 60_000 });
    });
  });
});
