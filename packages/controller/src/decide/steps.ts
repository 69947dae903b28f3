import type { ShadowView } from '../cluster/shadow-view.ts';
import { parseTime } from '@brupop/shared/clock';
import type { ShadowSpec, ShadowState } from '@brupop/shared/shadow';
import { isSettled, isUnderWay } from '../cluster/shadow-view.ts';

const MINUTE_MS = 60_000;

/**
 * How long a node may take for what its spec calls for, until it counts as stuck. The agent has shorter limits of its own and reports
 * which one was hit; these hold when no report comes. StagedAndPerformedUpdate: 45 min
 * there. RebootedIntoUpdate: 30 min drain, 10 min activation, 15 min reboot there.
 */
export const STEP_LIMITS_MS: Readonly<Record<ShadowState, number>> = {
  Idle: 5 * MINUTE_MS,
  StagedAndPerformedUpdate: 50 * MINUTE_MS,
  RebootedIntoUpdate: 60 * MINUTE_MS,
  MonitoringUpdate: 30 * MINUTE_MS,
  ErrorReset: 5 * MINUTE_MS,
};

/** Clocks of two replicas may differ by so much. */
export const CLOCK_TOLERANCE_MS = 5 * MINUTE_MS;

/** When the spec's state was set, epoch milliseconds; undefined when the field is absent, unreadable or in the future. */
export function stateSince(spec: ShadowSpec, now: number): number | undefined {
  const since = parseTime(spec.state_transition_timestamp);
  return since === undefined || since > now + CLOCK_TOLERANCE_MS ? undefined : since;
}

/** When the step under way counts as stuck, epoch milliseconds; undefined when nobody knows when it began. */
export function deadlineOf(spec: ShadowSpec, monitoringMs: number, now: number): number | undefined {
  const since = stateSince(spec, now);
  if (since === undefined) return undefined;
  return since + STEP_LIMITS_MS[spec.state] + (spec.state === 'MonitoringUpdate' ? monitoringMs : 0);
}

/** True when the spec calls for a step of an update whose deadline has passed. */
export function isOverdue(shadow: ShadowView, monitoringMs: number, now: number): boolean {
  const deadline = deadlineOf(shadow.spec, monitoringMs, now);
  return isUnderWay(shadow) && deadline !== undefined && now >= deadline;
}

/**
 * True when the node is one of those that `maxUpdating` limits: from the start of its update until its agent has confirmed that it is over,
 * but never past a deadline, so that a node that is stuck does not hold up the fleet.
 */
export function holdsSlot(shadow: ShadowView, monitoringMs: number, now: number): boolean {
  if (isUnderWay(shadow)) return !isOverdue(shadow, monitoringMs, now);
  const deadline = deadlineOf(shadow.spec, monitoringMs, now);
  return !isSettled(shadow) && deadline !== undefined && now < deadline;
}
