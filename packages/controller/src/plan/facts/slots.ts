/**
 * The update slots that `maxUpdating` limits: which node holds one, and until when. `fleet/fleet-state.ts` asks
 * for each node in each reconcile. A host that was requested to reboot keeps its slot until its agent
 * has confirmed the end, also past every deadline, since it may hang. An agent may report anything,
 * and a kubelet may write anything to its Node. Only the annotations of the shadow, which this
 * controller writes, record what the node was allowed to do. A user who sets `rollout.resume` later than
 * a deadline that was missed frees the slot.
 *
 *     under way                       holds a slot
 *     idle, it goes back to its previous version     holds one until it runs that
 *     idle, a check failed on the version that it runs    holds one until a user accepts that
 *     idle, a reboot was requested    holds it until Idle is confirmed; then until the Node is restored,
 *                                     but at most 15 minutes after the end of the update
 *     idle, otherwise                 holds none: staging disrupts no workload
 *     idle, hooks after the update    holds one until they have ended, for a limited time
 *     idle, a reboot is to restore its settings    holds one until it starts
 *     idle, its settings change       holds one if that restarts services, until the change is proved
 *     it has just got a taint of its group that evicts pods    holds one for a minute
 *     no record of any update         holds one for a limited time, since the shadow may have been
 *                                     deleted and recreated during an update
 */
import { STEP_LIMITS_MS } from '@brupop/shared/api/deadlines';
import { ownedByUs } from '@brupop/shared/node/ownership';
import type { NodeView } from '../../cluster/node.ts';
import type { ShadowView } from '../../cluster/shadow.ts';
import { isSettled, isUnderWay } from '../../cluster/state.ts';
import { isPair, type ManagedNode, type NodePair } from '../../cluster/snapshot.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import { deadlineOf, idleSince, isAccepted, limitMs, notRespondingAt, rebootUntil } from './deadlines.ts';
import { failedCheckAt } from './failed-nodes.ts';
import { pendingRollback, START_LIMIT_MS } from './attempts.ts';
import { hasHooksLeft, msOfHooksAfter } from './jobs.ts';
import { covers, isChanging, type SettingsFacts, waitsForRestore } from './settings.ts';
import type { Moment } from '../../kept/moment.ts';

export interface Slot {
  /** When the node counts as stuck, or the slot ends if it expires; epoch milliseconds. */
  readonly deadline: number;
  readonly expires: boolean;
}

/**
 * Returns the update slot that a node holds, or undefined. The shadow of an earlier Node is ignored.
 * @param settings - undefined: there is no shadow
 */
export function slotOf(managedNode: ManagedNode, settings: SettingsFacts | undefined, now: Moment): Slot | undefined {
  return slotOfUpdate(managedNode, now) ?? slotOfSettings(managedNode, settings) ?? slotOfTaints(managedNode, now);
}

function slotOfUpdate(managedNode: ManagedNode, now: Moment): Slot | undefined {
  const { node, policy } = managedNode;
  if (node === undefined) return undefined;
  const slot = isPair(managedNode)
    ? (slotOfPair(managedNode, now) ?? slotOfHooks(managedNode, now))
    : slotWithoutRecord({ ...managedNode, shadow: undefined }, node);
  if (slot === undefined || !now.reached(slot.deadline)) return slot;
  return slot.expires || isAccepted(slot.deadline, policy, now) ? undefined : slot;
}

function slotOfPair(pair: NodePair, now: Moment): Slot | undefined {
  const { shadow, policy } = pair;
  if (isUnderWay(shadow)) return { deadline: deadlineOf(shadow, policy, now), expires: false };
  const rollback = pendingRollback(shadow, policy, now);
  if (rollback !== undefined) return { deadline: rollback.since + START_LIMIT_MS, expires: false };
  const failedAt = failedCheckAt({ ...pair, now });
  if (failedAt !== undefined) return { deadline: failedAt, expires: false };
  if (shadow.record.rebootRequestedAt !== undefined) return slotAfterReboot(pair, now);
  return shadow.record.startedAt !== undefined ? undefined : slotWithoutRecord(pair, pair.node);
}

/** A node whose kubelet or container runtime restarts may be unavailable for a moment. */
function slotOfSettings({ shadow }: ManagedNode, facts: SettingsFacts | undefined): Slot | undefined {
  if (waitsForRestore(facts)) return { deadline: facts.rebootFailedAt + START_LIMIT_MS, expires: false };
  if (facts === undefined || !isChanging(facts) || !covers(shadow?.spec.settings?.allow, 'RestartsService'))
    return undefined;
  return { deadline: facts.changesAt ?? Infinity, expires: true };
}

/** How long a node holds a slot, and has to be Ready, with a taint that evicts pods. */
export const TAINT_PROVING_MS = 60_000;

/** Of a node that has just got a taint of its group that evicts pods. */
function slotOfTaints({ evictedSince = -Infinity }: ManagedNode, now: Moment): Slot | undefined {
  const deadline = evictedSince + TAINT_PROVING_MS;
  return now.reached(deadline) ? undefined : { deadline, expires: true };
}

/** They start when the agent has confirmed Idle. */
function slotOfHooks(pair: NodePair, now: Moment): Slot | undefined {
  if (!hasHooksLeft(pair)) return undefined;
  return { deadline: notRespondingAt(pair.shadow, now) + msOfHooksAfter(pair), expires: true };
}

function slotAfterReboot(pair: NodePair, now: Moment): Slot | undefined {
  const { node, shadow, policy } = pair;
  const since = idleSince(shadow, now);
  const isOwned = ownedByUs(node);
  if (isSettled(shadow)) return isOwned ? { deadline: since + STEP_LIMITS_MS.Reboot, expires: true } : undefined;
  if (isOwned) return { deadline: since + drainAndRebootMs(policy), expires: false };
  const deadline = Math.max(notRespondingAt(shadow, now), rebootUntil(pair, now) ?? 0);
  return { deadline, expires: !waitsForAgent(shadow) };
}

/** Starts at a time that a kubelet cannot write: the creation or deletion of the shadow. */
function slotWithoutRecord({ shadow, missingSince, former, policy }: ManagedNode, node: NodeView): Slot | undefined {
  const lastsMs = msWithoutRecord(shadow, node, policy);
  if (lastsMs === undefined) return undefined;
  const since = shadow === undefined ? missingSince : (shadow.times.createdAt ?? 0);
  return { deadline: Math.min(since + lastsMs, former?.slotUntil ?? Infinity), expires: true };
}

/** Returns undefined if nothing indicates an update. */
function msWithoutRecord(shadow: ShadowView | undefined, node: NodeView, policy: UpdatePolicy): number | undefined {
  const isIdle = shadow !== undefined && isSettled(shadow);
  if (ownedByUs(node) && !isIdle) return drainAndRebootMs(policy);
  const tells = ownedByUs(node) || (!isIdle && shadow?.status !== undefined);
  return tells ? STEP_LIMITS_MS.Reboot : undefined;
}

function drainAndRebootMs(policy: UpdatePolicy): number {
  return limitMs({ state: 'RebootedIntoUpdate' }, policy);
}

/**
 * True when only the agent knows whether its last step has ended: its latest report is about a
 * staging, or was written by an older operator. Agents report each step before they start it, so an
 * agent without a report has not started any. Later steps leave annotations on the Node, which
 * `cleanup.ts` removes if the agent does not.
 */
function waitsForAgent({ status }: ShadowView): boolean {
  if (status === undefined) return false;
  const { current_state, lastOperation } = status;
  if (current_state === 'Idle' && lastOperation?.state !== 'Processing') return false;
  return lastOperation === undefined || lastOperation.operation === 'Stage';
}
