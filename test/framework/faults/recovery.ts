import type { BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import type { Condition } from '../../../packages/shared/src/api/meta.ts';
import { eventually } from '../eventually.ts';
import type { FleetContext } from '../fleet/with-fleet.ts';

/**
 * Limit from the end of the last fault until every node runs the version. An agent that does not
 * know whether a reboot was requested waits for seven minutes.
 */
export const LONG_RECOVERY_MS = 720_000;
/** The limit after faults without such a wait. */
export const RECOVERY_MS = 240_000;

/** How a fleet recovered. */
export interface Recovery {
  readonly ms: number;
  /** Nodes that needed a manual retry, and why. */
  readonly askedAgain: readonly string[];
}

/** The expected result, and its time limit. */
export interface Expected {
  readonly version: string;
  /** The nodes that must run it. */
  readonly nodes: readonly string[];
  readonly limitMs: number;
}

/**
 * Waits until the nodes run the version with nothing left behind. A failure that is not retried
 * soon is retried manually, as the shadow describes. Throws after the limit.
 */
export async function recover(context: FleetContext, { version, nodes, limitMs }: Expected): Promise<Recovery> {
  const { fleet } = context;
  const healedAt = performance.now();
  const asked = new Set<string>();
  await eventually(
    async () => {
      await revive(context);
      for (const why of await askAgain(context, version)) asked.add(why);
      for (const name of nodes) fleet.assertRuns(name, version);
      const left = fleet.observer.leftovers();
      if (left.length > 0) throw new Error(left.join('; '));
    },
    { limitMs, pauseMs: 100 },
  );
  return { ms: Math.round(performance.now() - healedAt), askedAgain: [...asked] };
}

/**
 * Restarts stopped programs of the control plane, as a kubelet does: a scheduler exits some seconds
 * after it lost the API server.
 */
export async function revive({ cluster }: FleetContext): Promise<void> {
  for (const part of Object.values(cluster.components)) if (part.pid === undefined) await part.restart();
}

/** Requests a retry for nodes that are not retried soon, as a user does; returns the reasons. */
export async function askAgain({ fleet }: FleetContext, version: string): Promise<string[]> {
  const reasons: string[] = [];
  for (const name of fleet.nodes.keys()) {
    const waiting = waitingFor(fleet.shadow(name), version);
    if (waiting === undefined || !['Backoff', 'ManualRetryRequired', 'Reverted'].includes(waiting.reason)) continue;
    reasons.push(`${name}: ${waiting.message}`);
    await fleet.askForRetry(name, version);
  }
  return reasons;
}

/** Why an idle node does not start its update to the version. */
function waitingFor(shadow: BottlerocketShadow | undefined, version: string): Condition | undefined {
  if (shadow?.spec.state !== 'Idle' || shadow.status?.target_version !== version) return undefined;
  return shadow.status.conditions?.find(({ type }) => type === 'Progressing');
}
