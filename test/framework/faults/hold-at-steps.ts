import type { LastOperation } from '../../../packages/shared/src/api/shadow.ts';
import { eventually } from '../eventually.ts';
import { holdDrains, releaseDrains } from '../fleet/held-drains.ts';
import type { FleetContext } from '../fleet/with-fleet.ts';
import { askAgain } from './recovery.ts';

/** Which node is held at which step of its update. */
export const HELD: ReadonlyMap<string, LastOperation['operation']> = new Map([
  ['node-1', 'Stage'],
  ['node-2', 'Drain'],
  ['node-3', 'Activate'],
  ['node-4', 'Reboot'],
]);

/** Nodes at every step of their update at the same time. */
export interface HeldSteps {
  /** The version that they update to. */
  readonly version: string;
  /** Lets the nodes continue. */
  readonly release: () => Promise<void>;
}

/**
 * Publishes the next version and resolves when nodes are at every step of their update at the same
 * time: one stages, one waits for a pod that cannot be evicted, one activates, one is down for its
 * reboot. The other nodes wait.
 */
export async function holdAtSteps(context: FleetContext): Promise<HeldSteps> {
  const { fleet } = context;
  const released = Promise.withResolvers<void>();
  await holdDrains(context, ['node-2']);
  await fleet.node('node-1').host.faults.set({ prepare: { until: released.promise } });
  await fleet.node('node-3').host.faults.set({ activate: { until: released.promise } });
  await fleet.node('node-4').host.faults.set({ reboot: { neverReturns: true, times: 1 } });
  const version = fleet.publishNext(HELD.keys());
  const others = [...fleet.nodes.keys()].filter((name) => !HELD.has(name));
  await eventually(
    async () => {
      // Some may have failed in the previous case.
      await askAgain(context, version);
      assertHeld(context, version);
    },
    { limitMs: 60_000 },
  );
  fleet.publishToAll();
  await eventually(() => others.forEach((name) => assertWaits(context, name, version)), { limitMs: 60_000 });
  const release = async (): Promise<void> => {
    released.resolve();
    await fleet.node('node-4').host.faults.set({ reboot: undefined });
    await fleet.node('node-4').host.powerOn();
    await releaseDrains(context);
  };
  return { version, release };
}

function assertHeld({ fleet }: FleetContext, version: string): void {
  for (const [name, operation] of HELD) {
    const last = fleet.shadow(name)?.status?.lastOperation;
    const isThere = last?.operation === operation && last.state === 'Processing' && last.version === version;
    const isDown = operation !== 'Reboot' || fleet.node(name).isDown;
    if (!isThere || !isDown) throw new Error(`${name} is not at ${operation} yet: ${fleet.describe(name)}`);
  }
}

function assertWaits({ fleet }: FleetContext, name: string, version: string): void {
  const { target_version: offered, conditions } = fleet.shadow(name)?.status ?? {};
  const reason = conditions?.find(({ type }) => type === 'Progressing')?.reason;
  if (offered !== version || reason !== 'WaitingForCapacity')
    throw new Error(`${name} does not wait yet: ${offered}, ${reason}`);
}
