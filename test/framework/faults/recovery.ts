import type { BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import type { Condition } from '../../../packages/shared/src/api/meta.ts';
import { eventually } from '../eventually.ts';
import type { FleetContext } from '../fleet/with-fleet.ts';

/** From the end of the last fault until every node must run the version: an agent that cannot know whether a reboot was asked for waits for seven minutes. */
export const LONG_RECOVERY_MS = 720_000;
/** The same after faults that leave no agent in doubt. */
export const RECOVERY_MS = 240_000;

/** How a fleet came through. */
export interface Recovery {
  readonly ms: number;
  /** Nodes whose shadow said that they would not be tried again soon, and why; a user asked for it. */
  readonly askedAgain: readonly string[];
}

/** What is to come true, and how soon. */
export interface Expected {
  readonly version: string;
  /** Which nodes are to run it. */
  readonly nodes: Iterable<string>;
  readonly limitMs: number;
}

/**
 * Until the nodes run the version with nothing left behind. After a failure that is not tried again soon, a user asks for it, as the shadow says.
 * Throws when it takes longer than the limit.
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

/** Starts again what has died of the control plane, as a kubelet does: a scheduler ends some seconds after it has lost the API server. */
export async function revive({ cluster }: FleetContext): Promise<void> {
  for (const part of Object.values(cluster.components)) if (part.pid === undefined) await part.restart();
}

/** Asks for another attempt, as a user who reads why nodes are not tried again soon; returns the reasons. */
export async function askAgain({ fleet }: FleetContext, version: string): Promise<string[]> {
  const reasons: string[] = [];
  for (const name of fleet.nodes.keys()) {
    const waiting = waitingFor(fleet.shadow(name), version);
    if (waiting === undefined || !['Backoff', 'ManualRetryRequired'].includes(waiting.reason)) continue;
    reasons.push(`${name}: ${waiting.message}`);
    await fleet.askForRetry(name, version);
  }
  return reasons;
}

/** Why an idle node does not begin its update to the version. */
function waitingFor(shadow: BottlerocketShadow | undefined, version: string): Condition | undefined {
  if (shadow?.spec.state !== 'Idle' || shadow.status?.target_version !== version) return undefined;
  return shadow.status.conditions?.find(({ type }) => type === 'Progressing');
}
