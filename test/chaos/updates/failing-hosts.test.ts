import { jest } from '@jest/globals';
import { eventually } from '../../framework/eventually.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { holdAllDrains, releaseDrains } from '../../framework/fleet/held-drains.ts';
import { untilSomeNodeIsAt, untilSomeNodeIsBlocked } from '../../framework/fleet/steps.ts';
import { NEW, type FleetContext, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(900_000);

describe('a rollout whose hosts fail', () => {
  it('continues when the API of a host does not answer for a while during its drain', async () => {
    await withFleet({ nodes: fleetNodes(3), before: holdAllDrains }, async (context) => {
      const { fleet } = context;
      const name = await untilSomeNodeIsBlocked(fleet);
      const { faults } = fleet.node(name).host;
      await faults.set({ api: { answer: 'hang' } });
      await releaseDrains(context);
      await eventually(async () => {
        const pod = fleet.observer.pods
          .list()
          .find(({ metadata, spec }) => metadata.name.startsWith('brupop-agent') && spec?.nodeName === name);
        expect(await fleet.kubelet.logs(pod?.metadata.name ?? '')).toContain('the host does not answer');
      });
      expect(fleet.node(name).host.reboots).toBe(0);
      await faults.set({ api: undefined });
      await fleet.untilAllRun(NEW);
    });
  });

  it('starts no other node while a rebooted one does not come back, and continues when it does', async () => {
    const before = async ({ fleet }: FleetContext): Promise<void> => {
      for (const { host } of fleet.nodes.values()) await host.faults.set({ reboot: { neverReturns: true, times: 1 } });
    };
    await withFleet({ nodes: fleetNodes(3), before }, async ({ fleet }) => {
      const lost = await untilSomeNodeIsAt(fleet, 'Reboot');
      await eventually(() => expect(fleet.node(lost).host.up).toBe(false));
      const others = [...fleet.nodes.keys()].filter((name) => name !== lost);
      await eventually(() => {
        const reasons = others.map((name) => fleet.shadow(name)?.status?.conditions?.[0]?.reason);
        expect(reasons).toEqual(others.map(() => 'WaitingForCapacity'));
      });
      for (const name of others) await fleet.node(name).host.faults.set({ reboot: undefined });
      await fleet.node(lost).host.powerOn();
      await fleet.untilAllRun(NEW);
    });
  });

  it('retries a version that did not boot once when the shadow is deleted, then on request only', async () => {
    const breakBoot = async ({ fleet }: FleetContext): Promise<void> =>
      await fleet.node('node-1').host.faults.set({ boot: { rollsBack: true } });
    const durations = { bootMs: 2_000 };
    await withFleet({ nodes: fleetNodes(3), before: breakBoot, durations }, async ({ fleet, cluster }) => {
      const { host } = fleet.node('node-1');
      await eventually(() => expect(host.reboots).toBe(1), { limitMs: 90_000 });
      await cluster.api.delete(fleet.shadowPath('node-1'));
      await eventually(
        () => {
          const [condition] = fleet.shadow('node-1')?.status?.conditions ?? [];
          expect(condition).toMatchObject({ status: 'False', reason: 'ManualRetryRequired' });
          expect(condition?.message).toContain('RolledBack');
          expect(fleet.observer.leftovers()).toEqual([]);
        },
        { limitMs: 240_000 },
      );
      expect(host.reboots).toBe(2);
      await host.faults.set({ boot: { rollsBack: false } });
      await fleet.askForRetry('node-1', NEW);
      await fleet.untilAllRun(NEW);
      expect(host.reboots).toBe(3);
    });
  });
});
