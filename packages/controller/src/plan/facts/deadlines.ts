/**
 * Computes times from a shadow and its Node, all in epoch milliseconds: the deadline of the current
 * step, and until when its host may still reboot. A time that is unreadable or in the future counts
 * as unknown. Assessments, transitions, cleanups and `slots.ts` use these functions.
 */
import {
  CLOCK_TOLERANCE_MS,
  IDLE_DEADLINE_MS,
  rebootDeadlineMs,
  returnDeadlineMs,
  stageDeadlineMs,
  STEP_LIMITS_MS,
} from '@brupop/shared/api/deadlines';
import type { DrainResultName, LastOperation, ShadowSpec, ShadowState, ShadowStatus } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { ownedByUs } from '@brupop/shared/node/ownership';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { NodeView } from '../../cluster/node.ts';
import type { ShadowView } from '../../cluster/shadow.ts';
import { isUnderWay } from '../../cluster/state.ts';
import type { ManagedNode } from '../../cluster/snapshot.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import { msAfter, msBefore } from './jobs.ts';
import type { Moment } from '../../kept/moment.ts';

/** Returns the latest of the times that are known and not in the future, or undefined. */
export function latestTime(times: readonly (number | undefined)[], now: Moment): number | undefined {
  const known = times.flatMap((time) => notAfter(time, now) ?? []);
  return known.length === 0 ? undefined : Math.max(...known);
}

/** Returns when the spec's state was set; undefined if missing, unreadable or in the future. */
export function stateSince({ times }: Pick<ShadowView, 'times'>, now: Moment): number | undefined {
  return notAfter(times.stateSince, now);
}

function notAfter(time: number | undefined, now: Moment): number | undefined {
  return time !== undefined && isPast(time, now) ? time : undefined;
}

function isPast(time: number, now: Moment): boolean {
  return now.reached(time - CLOCK_TOLERANCE_MS);
}

/**
 * Returns when the current step counts as stuck. An unknown start counts as now.
 * A drain may start late, since agents wait for API servers, or go on late, since disruption budgets held its pods: it
 * then has its time from there.
 * A host that is asked to reboot has no more time than for that, whatever the drain has left: by then a tool may replace
 * its node, and the failure would be lost. After a drain, the time starts again when a loss of connectivity has ended,
 * unless a user had accepted by then that it was over. By a clock that is wrong, none passes.
 */
export function deadlineOf(shadow: ShadowView, policy: UpdatePolicy, now: Moment): number {
  const { state } = shadow;
  const { deadlinesFrom = 0, isClockWrong = false } = policy;
  const since = stateSince(shadow, now) ?? now.ms;
  const deadline = deadlineFrom(since, shadow, policy, now);
  const isSuspended = state === 'Away' || state === 'Proving' || isClockWrong;
  if (!isSuspended || deadlinesFrom <= since) return deadline;
  const wasAccepted = policy.resumes.some((resumeMs) => deadline <= resumeMs && resumeMs <= deadlinesFrom);
  return wasAccepted && !isClockWrong ? deadline : deadlineFrom(deadlinesFrom, shadow, policy, now);
}

function deadlineFrom(since: number, shadow: ShadowView, policy: UpdatePolicy, now: Moment): number {
  const limit = limitMs(shadow.spec, policy);
  const drainStart = drainingSince(shadow, now) ?? since;
  const deadline = (drainStart > since && drainStart < since + limit ? drainStart : since) + limit;
  const returnsFrom = Math.max(rebootSince(shadow, now) ?? Infinity, since);
  return Math.min(deadline, returnsFrom + returnLimitMs(shadow.spec, policy));
}

/** An agent may report any time: the reboot follows the drain. */
function rebootSince(shadow: ShadowView, now: Moment): number | undefined {
  const since = latestTime([parseTime(rebootOf(shadow)?.startTime)], now);
  return since && Math.max(since, drainEnd(shadow) ?? since);
}

/** Returns milliseconds: how long the host may take to return. */
export function returnLimitMs({ timeoutSeconds }: ShadowSpec, { timeouts }: UpdatePolicy): number {
  return returnDeadlineMs(timeoutSeconds == null ? timeouts.rebootMs : timeoutSeconds * 1000);
}

/** Of a drain: no pod that it was to evict is left. */
export const DRAINED: readonly (string | undefined)[] = ['Drained', 'Forced'] satisfies DrainResultName[];

/** The reboot of a drained node, which its agent has announced for this very update, and not reported the result of. */
export function rebootOf(shadow: ShadowView): LastOperation | undefined {
  const { spec, status } = shadow;
  const last = status?.lastOperation;
  if (spec.state !== 'RebootedIntoUpdate' || !sameVersion(last?.version, spec.version)) return undefined;
  const isAnnounced = last?.operation === 'Reboot' && last.state === 'Processing';
  return isAnnounced && drainEnd(shadow) !== undefined ? last : undefined;
}

/** When the drain for the spec was complete, epoch milliseconds. */
export function drainEnd({ metadata: { generation }, status, times }: ShadowView): number | undefined {
  const { observedGeneration, result } = status?.drain ?? {};
  return observedGeneration === generation && DRAINED.includes(result) ? times.drainEnd : undefined;
}

function drainingSince({ metadata, spec, status, times }: ShadowView, now: Moment): number | undefined {
  const { observedGeneration } = status?.drain ?? {};
  if (spec.state !== 'RebootedIntoUpdate' || observedGeneration !== metadata.generation) return undefined;
  return notAfter(times.drainSince, now);
}

/** Returns milliseconds. The limit in the spec, which the agent has read, takes precedence. */
export function limitMs({ state, timeoutSeconds }: ShadowSpec, policy: UpdatePolicy): number {
  const { monitoring, drainMs, timeouts } = policy;
  const givenMs = timeoutSeconds == null ? undefined : timeoutSeconds * 1000;
  switch (state) {
    case 'StagedAndPerformedUpdate':
      return stageDeadlineMs(givenMs ?? timeouts.stageMs) + msBefore(policy);
    case 'RebootedIntoUpdate':
      return rebootDeadlineMs(drainMs, givenMs ?? timeouts.rebootMs);
    case 'MonitoringUpdate':
      return monitoring.timeoutMs + monitoring.healthyForMs + msAfter(policy);
    default:
      return IDLE_DEADLINE_MS;
  }
}

/** Returns the limit of a state for the spec, seconds; null: the configuration sets none. */
export function timeoutSeconds(state: ShadowState, { timeouts }: UpdatePolicy): number | null {
  if (state === 'StagedAndPerformedUpdate') return timeouts.stageMs / 1000;
  return state === 'RebootedIntoUpdate' ? timeouts.rebootMs / 1000 : null;
}

export function isOverdue(shadow: ShadowView, policy: UpdatePolicy, now: Moment): boolean {
  return isUnderWay(shadow) && now.reached(deadlineOf(shadow, policy, now));
}

/** True when the start time of the spec is invalid. The spec of a new shadow has none. */
export function isMisdated(shadow: ShadowView, now: Moment): boolean {
  return shadow.spec.state_transition_timestamp != null && stateSince(shadow, now) === undefined;
}

/** A new shadow counts from its creation, an invalid time as now. */
export function idleSince(shadow: ShadowView, now: Moment): number {
  if (isMisdated(shadow, now)) return now.ms;
  return stateSince(shadow, now) ?? shadow.times.createdAt ?? 0;
}

/** Returns when an unconfirmed Idle counts as AgentNotResponding. */
export function notRespondingAt(shadow: ShadowView, now: Moment): number {
  return idleSince(shadow, now) + IDLE_DEADLINE_MS;
}

/**
 * Returns until when the host of an idle node may still go down for a reboot that was requested.
 * Without a status this is unknown, so anything owned on the Node counts.
 */
export function rebootUntil({ node, shadow, missingSince }: ManagedNode, now: Moment): number | undefined {
  if (node === undefined) return undefined;
  const since = shadow === undefined ? missingSince : idleSince(shadow, now);
  return mayReboot(node, shadow?.status) ? since + STEP_LIMITS_MS.Reboot : undefined;
}

function mayReboot(node: NodeView, status: ShadowStatus | undefined): boolean {
  if (status === undefined) return ownedByUs(node);
  const { lastOperation: last } = status;
  if (last?.operation !== 'Reboot' || last.state !== 'Processing') return false;
  return node.bootID === '' || node.bootID === last.bootID;
}

/**
 * True when a user has accepted what happened at `time`, epoch milliseconds, with `rollout.resume`. A time
 * in the future is of a clock that was wrong, and counts as accepted.
 */
export function isAccepted(time: number, { resumes }: UpdatePolicy, now: Moment): boolean {
  return resumes.some((resumeMs) => isPast(resumeMs, now) && (time <= resumeMs || !isPast(time, now)));
}
