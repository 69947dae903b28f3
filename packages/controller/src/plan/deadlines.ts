import {
  CLOCK_TOLERANCE_MS,
  IDLE_DEADLINE_MS,
  rebootDeadlineMs,
  stageDeadlineMs,
  STEP_LIMITS_MS,
} from '@brupop/shared/api/deadlines';
import {
  CORDONED_ANNOTATION,
  EXCLUDED_ANNOTATION,
  EXCLUSION_LABEL,
  AUTOSCALER_HOLDS_ANNOTATION,
  RECORDONED_ANNOTATION,
} from '@brupop/shared/api/names';
import type { ShadowSpec, ShadowState, ShadowStatus } from '@brupop/shared/api/shadow';
import { ownedByUs, ownedHolds, OWNERSHIP_ANNOTATIONS } from '@brupop/shared/node/ownership';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { NodeView } from '../cluster/node.ts';
import { isOwnedBy, isSettled, isUnderWay, type ShadowView } from '../cluster/shadow.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import type { UpdatePolicy } from '../policy/policy.ts';

/** When the spec's state was set, epoch milliseconds; undefined when the field is absent, unreadable or in the future. */
export function stateSince(spec: ShadowSpec, now: number): number | undefined {
  const since = parseTime(spec.state_transition_timestamp);
  return since === undefined || since > now + CLOCK_TOLERANCE_MS ? undefined : since;
}

/**
 * When the step under way counts as stuck, epoch milliseconds. A start that nobody knows counts as now: it is set anew. A drain may begin late, since
 * agents wait for the API servers: from then on it has its time. After the deadline it is too late.
 */
export function deadlineOf(shadow: ShadowView, policy: UpdatePolicy, now: number): number {
  const limit = limitMs(shadow.spec, policy);
  const since = stateSince(shadow.spec, now) ?? now;
  const begun = drainingSince(shadow, now) ?? since;
  return (begun > since && begun < since + limit ? begun : since) + limit;
}

/** When the first pass of the drain that the spec asks for began, epoch milliseconds. */
function drainingSince({ metadata, spec, status }: ShadowView, now: number): number | undefined {
  const { drain } = status ?? {};
  if (spec.state !== 'RebootedIntoUpdate' || drain?.observedGeneration !== metadata.generation) return undefined;
  const since = parseTime(drain?.startTime);
  return since === undefined || since > now + CLOCK_TOLERANCE_MS ? undefined : since;
}

/** How long a node may take for what its spec calls for, milliseconds. What its agent was told when the step began holds until that ends. */
export function limitMs(
  { state, timeoutSeconds }: ShadowSpec,
  { monitoring, drainMs, timeouts }: UpdatePolicy,
): number {
  const toldMs = timeoutSeconds == null ? undefined : timeoutSeconds * 1000;
  switch (state) {
    case 'StagedAndPerformedUpdate':
      return stageDeadlineMs(toldMs ?? timeouts.stageMs);
    case 'RebootedIntoUpdate':
      return rebootDeadlineMs(drainMs, toldMs ?? timeouts.rebootMs);
    case 'MonitoringUpdate':
      return monitoring.timeoutMs + monitoring.healthyForMs;
    default:
      return IDLE_DEADLINE_MS;
  }
}

/** The limit that the agent is told for a state, whole seconds; null: it has none of the configuration. */
export function timeoutSeconds(state: ShadowState, { timeouts }: UpdatePolicy): number | null {
  if (state === 'StagedAndPerformedUpdate') return timeouts.stageMs / 1000;
  return state === 'RebootedIntoUpdate' ? timeouts.rebootMs / 1000 : null;
}

/** True when the spec calls for a step of an update whose deadline has passed. */
export function isOverdue(shadow: ShadowView, policy: UpdatePolicy, now: number): boolean {
  return isUnderWay(shadow) && now >= deadlineOf(shadow, policy, now);
}

/** True when the spec has a start time that cannot be right. The spec of a new shadow has none. */
export function isMisdated(spec: ShadowSpec, now: number): boolean {
  return spec.state_transition_timestamp != null && stateSince(spec, now) === undefined;
}

/** Since when the spec says Idle, epoch milliseconds: of a new shadow since its creation; a time that cannot be right counts as now. */
export function restingSince({ metadata, spec }: ShadowView, now: number): number {
  if (isMisdated(spec, now)) return now;
  return stateSince(spec, now) ?? parseTime(metadata.creationTimestamp) ?? 0;
}

/** When a shadow at Idle whose agent does not confirm it counts as silent, epoch milliseconds. */
export function silentAt(shadow: ShadowView, now: number): number {
  return restingSince(shadow, now) + IDLE_DEADLINE_MS;
}

const TIMES = [CORDONED_ANNOTATION, RECORDONED_ANNOTATION, EXCLUDED_ANNOTATION];
/** When this operator last put something on the Node, epoch milliseconds; undefined when the annotations do not tell. */
export function ownedSince({ metadata: { annotations = {} } }: NodeView, now: number): number | undefined {
  const times = TIMES.map((name) => parseTime(annotations[name])).filter(
    (time): time is number => time !== undefined && time <= now + CLOCK_TOLERANCE_MS,
  );
  return times.length === 0 ? undefined : Math.max(...times);
}

/**
 * Annotations that sign what is not there any more. We set a signature and what it signs in one write, so somebody else has taken that
 * back, and what they put there later is theirs.
 */
export function orphanedAnnotations(node: NodeView): string[] {
  const { labels = {}, annotations = {} } = node.metadata;
  const there: Readonly<Record<string, boolean>> = {
    [CORDONED_ANNOTATION]: node.unschedulable,
    [RECORDONED_ANNOTATION]: node.unschedulable,
    [EXCLUDED_ANNOTATION]: labels[EXCLUSION_LABEL] !== undefined,
    [AUTOSCALER_HOLDS_ANNOTATION]: ownedHolds(node).length > 0,
  };
  return OWNERSHIP_ANNOTATIONS.filter((name) => annotations[name] !== undefined && there[name] !== true);
}

/**
 * Until when the host of a member at rest may still go down for a reboot that it was asked for, epoch milliseconds; undefined when no
 * reboot is pending. Nobody asks once the spec says Idle. Without a shadow, or without a status of it, nobody can tell.
 */
export function rebootUntil({ node, shadow, missingSince }: ManagedNode, now: number): number | undefined {
  if (node === undefined) return undefined;
  const since = shadow === undefined ? missingSince : restingSince(shadow, now);
  return mayGoDown(node, shadow?.status) ? since + STEP_LIMITS_MS.Reboot : undefined;
}

function mayGoDown(node: NodeView, status: ShadowStatus | undefined): boolean {
  if (status === undefined) return ownedByUs(node);
  const { lastOperation: last } = status;
  if (last?.operation !== 'Reboot' || last.state !== 'Processing') return false;
  return node.bootID === '' || node.bootID === last.bootID;
}

/**
 * Until when the node takes one of the places that `maxUpdating` limits, epoch milliseconds; undefined or past: it takes none. From the
 * start of its update until its agent has confirmed that it is over and nothing of ours is on the Node, but never past a deadline, so that
 * a node that is stuck does not hold up the fleet. The Node counts by itself: its shadow may be lost in the middle of an update, and a drain
 * that begins too late still empties it until it is called off.
 */
export function slotHeldUntil(managedNode: ManagedNode, policy: UpdatePolicy, now: number): number | undefined {
  const { node } = managedNode;
  if (node === undefined) return undefined;
  const shadow =
    managedNode.shadow !== undefined && isOwnedBy(managedNode.shadow, node) ? managedNode.shadow : undefined;
  const ends = [
    shadow === undefined || isSettled(shadow) ? undefined : shadowUntil(shadow, policy, now),
    ownedByUs(node)
      ? markedSince(node, shadow, managedNode.missingSince, now) + limitMs({ state: 'RebootedIntoUpdate' }, policy)
      : undefined,
    shadow !== undefined && isUnderWay(shadow) ? undefined : rebootUntil({ ...managedNode, shadow }, now),
  ].filter((end): end is number => end !== undefined);
  return ends.length === 0 ? undefined : Math.max(...ends);
}

function shadowUntil(shadow: ShadowView, policy: UpdatePolicy, now: number): number {
  return isUnderWay(shadow) ? deadlineOf(shadow, policy, now) : silentAt(shadow, now);
}

function markedSince(node: NodeView, shadow: ShadowView | undefined, missingSince: number, now: number): number {
  return ownedSince(node, now) ?? (shadow === undefined ? missingSince : restingSince(shadow, now));
}
