import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import type { ErrorCode } from '@brupop/shared/api/error-codes';
import type { AgentStatus, LastOperation, Operation, ShadowState } from '@brupop/shared/api/shadow';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { sameVersion } from '@brupop/shared/api/version';
import { shorten } from '@brupop/shared/runtime/text';
import type { Action } from '../action.ts';
import { LIMITS } from '../limits.ts';
import type { HostView, Observation } from '../state/observe.ts';
import type { TrackerView } from '../state/tracker.ts';
import { claimsOf, type Facts, type SettingsView, viewSettings } from './settings-view.ts';
import { began, bootTime, sameStatus, succeeded } from './status.ts';

/** What is seen, and what follows from it. */
export interface Context extends Facts {
  readonly settings: SettingsView;
  /** The status to report when nothing but the host's own facts has changed. */
  readonly base: AgentStatus;
}

/** Puts a context together. */
export function contextOf(
  seen: Observation,
  tracker: TrackerView,
  shadow: AgentShadow,
  host: HostView & { readonly kind: 'answered' },
): Context {
  const { version: running, update } = host;
  const status = update.kind === 'status' ? update.status : undefined;
  const live = host.settings?.kind === 'read' ? host.settings.settings : undefined;
  const facts = { seen, tracker, shadow, running, update, status, live };
  const settings = viewSettings(facts);
  const base = baseStatus(seen, shadow, { current_version: running, ...claimsOf(facts, settings) });
  return { ...facts, settings, base };
}

/** The reported status with the host's facts brought up to date. */
export function baseStatus(
  seen: Observation,
  { status }: AgentShadow,
  facts: Pick<AgentStatus, 'current_version' | 'target_version' | 'observedGeneration' | 'hostSettings'>,
): AgentStatus {
  return {
    current_state: status?.current_state ?? 'Idle',
    crash_count: status?.crash_count ?? 0,
    state_transition_failure_timestamp: status?.state_transition_failure_timestamp ?? null,
    bootID: seen.bootID,
    bootTime: bootTime(seen, status),
    ...facts,
    ...(status?.lastOperation === undefined ? {} : { lastOperation: status.lastOperation }),
  };
}

/** Nothing to do before `untilMs` (monotonic); without it, a look from time to time. */
export function wait(seen: Observation, reason: string, untilMs = seen.nowMs + LIMITS.lookAgain): Action {
  return { do: 'wait', untilMs, reason };
}

/** Reports `changes` to the status. */
export function report(c: Context, changes: Partial<AgentStatus>, reason: string): Action {
  return { do: 'report', status: { ...c.base, ...changes }, reason };
}

/** Reports `changes` unless the shadow has them already, and then waits. */
export function settle(c: Context, changes: Partial<AgentStatus>, reason: string): Action {
  const status = { ...c.base, ...changes };
  return sameStatus(c.shadow.status, status) ? wait(c.seen, reason, nextLook(c)) : { do: 'report', status, reason };
}

/** When to look at a host again from which something is still to come. */
export function nextLook(c: Context): number | undefined {
  const { nowMs } = c.seen;
  if (c.update.kind === 'locked') return nowMs + pollDelay(c);
  return c.tracker.attempt.notBefore > nowMs ? c.tracker.attempt.notBefore : undefined;
}

/** The pause before the next look at a host that runs a command: half of what has passed, within bounds. */
export function pollDelay(c: Context): number {
  const elapsed = c.seen.nowMs - (c.tracker.hostLockedSince ?? c.seen.nowMs);
  return Math.min(LIMITS.pollLongest, Math.max(LIMITS.pollFirst, elapsed / 2));
}

/** The step under way for the current spec, as the status has it; undefined when none has begun for this generation. */
export function stepUnderWay({ shadow }: Pick<Context, 'shadow'>, version: string): LastOperation | undefined {
  const { status, generation } = shadow;
  const last = status?.lastOperation;
  const ours = status?.observedGeneration === generation && sameVersion(last?.version, version);
  return ours && last?.state === 'Processing' ? last : undefined;
}

/** Writes down that a step begins; it is acted upon when that is acknowledged. */
export function begin(c: Context, operation: Operation, version: string, state?: ShadowState): Action {
  const { bootID, wallMs } = c.seen;
  const changes = state === undefined ? {} : { current_state: state };
  const lastOperation = began(operation, { version, bootID, wallMs });
  return report(c, { ...changes, lastOperation }, `${operation} of ${version} begins`);
}

/** A step that ended well, for the status. */
export function ended(c: Context, operation: Operation, version: string): LastOperation {
  const { bootID, wallMs } = c.seen;
  const last = c.shadow.status?.lastOperation;
  const same = last?.operation === operation && sameVersion(last.version, version) && last.bootID === bootID;
  if (same && last.state === 'Succeeded') return last;
  const step = same && last.state === 'Processing' ? last : began(operation, { version, bootID, wallMs });
  return succeeded(step, wallMs);
}

/** True when the attempt that the current spec asks for has failed already. */
export function hasFailed({ shadow }: Pick<Context, 'shadow'>): boolean {
  const { status } = shadow;
  return status?.current_state === 'ErrorReset' && status.observedGeneration === shadow.generation;
}

export interface Failure {
  readonly code: ErrorCode;
  readonly message: string;
  readonly step: LastOperation;
  /** The attempt has failed, but how the step itself ended is still to be seen. */
  readonly open?: boolean;
}

/** Reports the failure of the step under way; undoing what it left comes after that. */
export function fail(seen: Observation, base: AgentStatus, failure: Failure): Action {
  const { code, step, open = false } = failure;
  const message = shorten(failure.message, 1000);
  const time = rfc3339(seen.wallMs);
  const state = open ? step.state : 'Failed';
  const lastOperation = { ...step, state, lastUpdateTime: time, errorCode: code, message } as const;
  const status: AgentStatus = {
    ...base,
    current_state: 'ErrorReset',
    crash_count: base.crash_count + 1,
    state_transition_failure_timestamp: time,
    lastOperation,
  };
  return { do: 'report', status, reason: `${step.operation} of ${step.version} failed: ${code}: ${message}` };
}

/** Fails the step under way toward `version`. */
export function failStep(c: Context, version: string, code: ErrorCode, message: string): Action {
  const operation = c.shadow.spec.state === 'RebootedIntoUpdate' ? 'Drain' : 'Stage';
  const { bootID, wallMs } = c.seen;
  const step = stepUnderWay(c, version) ?? began(operation, { version, bootID, wallMs });
  return fail(c.seen, c.base, { code, message, step });
}

/** Takes back what an attempt left: the activation of an image, which any reboot would boot, and our marks on the Node. */
export function undo(c: Context): Action | undefined {
  const { attempt } = c.tracker;
  if (c.status?.state === 'Ready' && attempt.notBefore <= c.seen.nowMs) {
    return { do: 'command', command: 'deactivate', reason: 'the host would boot the update at any reboot' };
  }
  return attempt.restored ? undefined : { do: 'restore', reason: 'taking back what is ours on the Node' };
}
