import type { ShadowView } from '../cluster/shadow-view.ts';
import { parseTime } from '@brupop/shared/clock';
import type { ShadowSpec, ShadowState } from '@brupop/shared/shadow';
import { isUnderWay } from '../cluster/shadow-view.ts';
import type { Rules } from './rules.ts';

const MINUTE_MS = 60_000;

/** How long an agent may take to confirm that its spec says Idle. */
const IDLE_LIMIT_MS = 5 * MINUTE_MS;
/** Agents have the same limits for their steps and report which one was hit; only when no report comes, this much later, a step counts as stuck. */
const REPORT_MS = 5 * MINUTE_MS;
/** The agent's limit for activating a version. */
const ACTIVATION_MS = 10 * MINUTE_MS;

/** Clocks of two replicas may differ by so much. */
export const CLOCK_TOLERANCE_MS = 5 * MINUTE_MS;

/** When the spec's state was set, epoch milliseconds; undefined when the field is absent, unreadable or in the future. */
export function stateSince(spec: ShadowSpec, now: number): number | undefined {
  const since = parseTime(spec.state_transition_timestamp);
  return since === undefined || since > now + CLOCK_TOLERANCE_MS ? undefined : since;
}

/**
 * When the step under way counts as stuck, epoch milliseconds. A start that nobody knows counts as now: it is set anew. A drain may begin late, since
 * agents wait for the API servers: from then on it has its time. After the deadline it is too late.
 */
export function deadlineOf(shadow: ShadowView, rules: Rules, now: number): number {
  const limit = limitMs(shadow.spec, rules);
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
export function limitMs({ state, timeoutSeconds }: ShadowSpec, { monitoringMs, drainMs, timeouts }: Rules): number {
  const toldMs = timeoutSeconds == null ? undefined : timeoutSeconds * 1000;
  switch (state) {
    case 'StagedAndPerformedUpdate':
      return (toldMs ?? timeouts.stageMs) + REPORT_MS;
    case 'RebootedIntoUpdate':
      return drainMs + ACTIVATION_MS + (toldMs ?? timeouts.rebootMs) + REPORT_MS;
    case 'MonitoringUpdate':
      return timeouts.monitorMs + monitoringMs;
    default:
      return IDLE_LIMIT_MS;
  }
}

/** The limit that the agent is told for a state, whole seconds; null: it has none of the configuration. */
export function timeoutSeconds(state: ShadowState, { timeouts }: Rules): number | null {
  if (state === 'StagedAndPerformedUpdate') return timeouts.stageMs / 1000;
  return state === 'RebootedIntoUpdate' ? timeouts.rebootMs / 1000 : null;
}

/** True when the spec calls for a step of an update whose deadline has passed. */
export function isOverdue(shadow: ShadowView, rules: Rules, now: number): boolean {
  return isUnderWay(shadow) && now >= deadlineOf(shadow, rules, now);
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
  return restingSince(shadow, now) + IDLE_LIMIT_MS;
}
