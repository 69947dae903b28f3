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

/** One of the update slots that `maxUpdating` limits. */
export interface Slot {
  /** When the node counts as stuck, or the slot ends if it expires, epoch milliseconds. */
  readonly deadline: number;
  readonly expires: boolean;
}

/**
 * Returns the update slot that a node holds, or undefined. It holds one from the start of its update
 * until its agent has confirmed Idle and nothing on the Node is owned by the operator, also past
 * every deadline: a host that hangs must not make room for the next one. The Node counts by itself,
 * since its shadow may be deleted during an update.
 */
export function slotOf(managedNode: ManagedNode, policy: UpdatePolicy, now: number): Slot | undefined {
  const { node } = managedNode;
  if (node === undefined) return undefined;
  const isOwn = managedNode.shadow !== undefined && isOwnedBy(managedNode.shadow, node);
  const pair = isOwn ? managedNode : { ...managedNode, shadow: undefined };
  const slots = [shadowSlot(pair, policy, now), nodeSlot(pair, policy, now)].filter((slot) => slot !== undefined);
  if (slots.length === 0) return undefined;
  const deadline = Math.max(...slots.map((slot) => slot.deadline));
  const expires = slots.every((slot) => slot.expires);
  return expires && now >= deadline ? undefined : { deadline, expires };
}

function shadowSlot(pair: ManagedNode, policy: UpdatePolicy, now: number): Slot | undefined {
  const { shadow } = pair;
  if (shadow === undefined || isSettled(shadow)) return undefined;
  if (isUnderWay(shadow)) return { deadline: deadlineOf(shadow, policy, now), expires: false };
  const deadline = Math.max(silentAt(shadow, now), rebootUntil(pair, now) ?? 0);
  return { deadline, expires: !awaitsAgent(shadow) };
}

function nodeSlot({ node, shadow, missingSince }: ManagedNode, policy: UpdatePolicy, now: number): Slot | undefined {
  if (node === undefined || !ownedByUs(node)) return undefined;
  const since = ownedSince(node, now) ?? (shadow === undefined ? missingSince : restingSince(shadow, now));
  return { deadline: since + limitMs({ state: 'RebootedIntoUpdate' }, policy), expires: false };
}

/**
 * True when only the agent can tell whether an update that ended is over: its latest report is of a
 * staging, or of an older operator. Agents report each step before they take it, so one that reported
 * none has done nothing. What later steps leave on the Node is seen there, and `cleanup.ts` removes
 * it if the agent does not.
 */
function awaitsAgent({ status }: ShadowView): boolean {
  if (status === undefined) return false;
  const { current_state, lastOperation } = status;
  if (current_state === 'Idle' && lastOperation?.state !== 'Processing') return false;
  return lastOperation === undefined || lastOperation.operation === 'Stage';
}
