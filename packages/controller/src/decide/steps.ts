import type { ShadowView } from '../cluster/shadow-view.ts';
import { parseTime } from '@brupop/shared/clock';
import type { ShadowSpec, ShadowState } from '@brupop/shared/shadow';
import { isUnderWay } from '../cluster/shadow-view.ts';
import type { Rules } from './rules.ts';

const MINUTE_MS = 60_000;

/**
 * How long a node may take for what its spec calls for, until it counts as stuck. The agent has shorter limits of its own and reports
 * which one was hit; these hold when no report comes. StagedAndPerformedUpdate: 45 min
 * there. RebootedIntoUpdate: 10 min activation and 15 min reboot there; the drain comes on top, as the configuration says.
 */
export const STEP_LIMITS_MS: Readonly<Record<ShadowState, number>> = {
  Idle: 5 * MINUTE_MS,
  StagedAndPerformedUpdate: 50 * MINUTE_MS,
  RebootedIntoUpdate: 30 * MINUTE_MS,
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

/** When the step under way counts as stuck, epoch milliseconds. A start that nobody knows counts as now: it is set anew. */
export function deadlineOf(spec: ShadowSpec, rules: Rules, now: number): number {
  return (stateSince(spec, now) ?? now) + limitMs(spec.state, rules);
}

/** How long a node may take for a state, milliseconds. */
export function limitMs(state: ShadowState, { monitoringMs, drainMs }: Rules): number {
  if (state === 'MonitoringUpdate') return STEP_LIMITS_MS[state] + monitoringMs;
  return STEP_LIMITS_MS[state] + (state === 'RebootedIntoUpdate' ? drainMs : 0);
}

/** True when the spec calls for a step of an update whose deadline has passed. */
export function isOverdue(shadow: ShadowView, rules: Rules, now: number): boolean {
  return isUnderWay(shadow) && now >= deadlineOf(shadow.spec, rules, now);
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
  return restingSince(shadow, now) + STEP_LIMITS_MS.Idle;
}
