import { jest } from '@jest/globals';
import { ABORT_ANNOTATION, CORDONED_ANNOTATION } from '../../packages/shared/src/api/names.ts';
import { eventually } from '../framework/eventually.ts';
import { allowEvictions, forbidEvictions } from '../framework/faults/evictions.ts';
import { type Fleet, fleetNodes } from '../framework/fleet/fleet.ts';
import { holdAllDrains, releaseDrains } from '../framework/fleet/held-drains.ts';
import { untilSomeNodeIsAt, untilSomeNodeIsBlocked } from '../framework/fleet/steps.ts';
import { type FleetContext, oneFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

const UNTIL_OTHERS = { limitMs: 90_000 };

const onFleet = oneFleet({
  nodes: fleetNodes(3),
  config: { paused: true },
  values: { 'agent.updateCheckIntervalSeconds': 1 },
});

/** Returns a node whose drain a disruption budget holds, and what all hosts have before the update of `version`. */
async function startHeldUpdate(context: FleetContext): Promise<{ name: string; version: string; before: Hosts }> {
  const { fleet } = context;
  const before = hostsOf(fleet);
  await holdAllDrains(context);
  const version = await fleet.startUpdate({});
  return { name: await untilSomeNodeIsBlocked(fleet), version, before };
}

type Hosts = ReadonlyMap<string, { readonly version: string; readonly reboots: number }>;

function hostsOf(fleet: Fleet): Hosts {
  return new Map([...fleet.nodes].map(([name, { host }]) => [name, { version: host.version, reboots: host.reboots }]));
}

const reasonOf = ({ fleet }: FleetContext, name: string): string | undefined =>
  fleet.shadow(name)?.status?.conditions?.[0]?.reason;

describe('a drain', () => {
  it('whose evictions are rejected with 403 never ends in a reboot, shows why, and continues when allowed', async () => {
    await onFleet(async ({ fleet, cluster }) => {
      await forbidEvictions(cluster);
      const before = hostsOf(fleet);
      const version = await fleet.startUpdate({});
      const name = await untilSomeNodeIsAt(fleet, 'Drain');
      await eventually(() => {
        const [block] = fleet.shadow(name)?.status?.drain?.blockedBy ?? [];
        expect(block?.reason).toBe('Forbidden');
        expect(block?.message).toContain('evictions are forbidden');
      });
      expect(hostsOf(fleet)).toEqual(before);
      await allowEvictions(cluster);
      await fleet.untilAllRun(version);
    });
  });

  it('is cancelled when the managed label is removed while it is blocked', async () => {
    await onFleet(async (context) => {
      const { fleet } = context;
      const { name, version, before } = await startHeldUpdate(context);
      expect(fleet.observer.nodes.get(name)?.spec?.unschedulable).toBe(true);
      await fleet.node(name).setManaged(false);
      await eventually(() => {
        const { metadata, spec } = fleet.observer.nodes.get(name) ?? {};
        expect(spec?.unschedulable).toBeUndefined();
        expect(metadata?.annotations).not.toHaveProperty([CORDONED_ANNOTATION]);
      });
      await releaseDrains(context);
      const others = [...fleet.nodes.keys()].filter((other) => other !== name);
      await eventually(() => others.forEach((other) => fleet.assertRuns(other, version)), UNTIL_OTHERS);
      expect(hostsOf(fleet).get(name)).toEqual(before.get(name));
      await fleet.node(name).setManaged(true);
      await fleet.untilAllRun(version);
    });
  });
});

describe('a pause that interrupts', () => {
  it('uncordons a node whose drain is blocked, and updates it after the pause', async () => {
    await onFleet(async (context) => {
      const { fleet } = context;
      const { name, version, before } = await startHeldUpdate(context);
      await fleet.configure({ paused: true, pauseMode: 'Interrupt' });
      await eventually(() => {
        expect(fleet.observer.leftovers()).toEqual([]);
        expect(fleet.shadow(name)?.status?.drain?.result).toBe('Cancelled');
        expect(reasonOf(context, name)).toBe('Paused');
      });
      expect(fleet.shadow(name)?.status?.crash_count).toBe(0);
      expect(hostsOf(fleet)).toEqual(before);
      await releaseDrains(context);
      await fleet.configure({ paused: false });
      await fleet.untilAllRun(version);
    });
  });
});

describe('an update that a user aborts', () => {
  it('ends during its drain, leaves the node uncordoned and idle, and starts again with a retry', async () => {
    await onFleet(async (context) => {
      const { fleet, cluster } = context;
      const { name, version, before } = await startHeldUpdate(context);
      await fleet.configure({ paused: true });
      const asked = { metadata: { annotations: { [ABORT_ANNOTATION]: 'true' } } };
      await cluster.api.patch(fleet.shadowPath(name), asked);
      await eventually(() => {
        expect(fleet.observer.leftovers()).toEqual([]);
        const { status, spec, metadata } = fleet.shadow(name) ?? {};
        expect([spec?.state, status?.current_state, status?.drain?.result]).toEqual(['Idle', 'Idle', 'Cancelled']);
        expect(metadata?.annotations).not.toHaveProperty([ABORT_ANNOTATION]);
      });
      await releaseDrains(context);
      await fleet.configure({ paused: false });
      await eventually(() => {
        for (const [other] of fleet.nodes) if (other !== name) fleet.assertRuns(other, version);
        expect(reasonOf(context, name)).toBe('Aborted');
      }, UNTIL_OTHERS);
      expect(hostsOf(fleet).get(name)).toEqual(before.get(name));
      expect(fleet.shadow(name)?.status?.crash_count).toBe(0);
      await fleet.askForRetry(name, version);
      await fleet.untilAllRun(version);
    });
  });
});
