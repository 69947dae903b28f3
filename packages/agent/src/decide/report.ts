/**
 * What a decision looks at, and what it may answer: wait, report a status, start or end a step,
 * fail it, undo it.
 *
 * `base` is the status to report when nothing but the facts of the host has changed; every report
 * is `base` with changes. While the host does not answer, its facts are reported as they were
 * before.
 */
import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import type { ErrorCode } from '@brupop/shared/api/error-codes';
import type { AgentStatus, LastOperation, Operation, ShadowState } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { shorten } from '@brupop/shared/runtime/errors';
import type { Action } from '../actions.ts';
import { bootTime, mayBeActive, sameStatus, startStep, succeedStep } from '../apiserver/status.ts';
import { LIMITS, MAX_MESSAGE, type UpdateCommand } from '../limits.ts';
import type { Observation } from '../state/observe.ts';
import type { TrackerView } from '../state/tracker.ts';
import { claimsOf, type Facts, type SettingsView, viewSettings } from './settings-view.ts';

interface Common {
  readonly seen: Observation;
  readonly tracker: TrackerView;
  readonly shadow: AgentShadow;
  readonly base: AgentStatus;
}

export interface AnsweredContext extends Common, Facts {
  readonly host: 'answered';
  readonly settings: SettingsView;
}

export interface UnreachableContext extends Common {
  readonly host: 'unreachable';
  readonly message: string;
}

export type Context = AnsweredContext | UnreachableContext;

export function contextOf(seen: Observation, tracker: TrackerView, shadow: AgentShadow): Context {
  const { host } = seen;
  const common = { seen, tracker, shadow };
  if (host.kind === 'unreachable') {
    // Nothing is reported before the host has answered once, so there is no base without a status.
    const { current_version = '', target_version = '', hostSettings } = shadow.status ?? {};
    const known = hostSettings === undefined ? {} : { hostSettings };
    const facts = { current_version, target_version, observedGeneration: shadow.generation, ...known };
    return { ...common, host: 'unreachable', message: host.message, base: baseOf(seen, shadow, facts) };
  }
  const { version: running, update, settings: reading } = host;
  const status = update.kind === 'status' ? update.status : undefined;
  const live = reading?.kind === 'read' ? reading.settings : undefined;
  const facts = { ...common, running, update, status, live };
  const settings = viewSettings(facts);
  const base = baseOf(seen, shadow, { current_version: running, ...claimsOf(facts, settings) });
  return { ...facts, host: 'answered', settings, base };
}

function baseOf(
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

/** Waits until `untilMs` (monotonic), by default until the next regular look. */
export function wait(seen: Observation, reason: string, untilMs = seen.nowMs + LIMITS.lookAgain): Action {
  return { do: 'wait', untilMs, reason };
}

export function waitForHost({ seen, tracker, message }: UnreachableContext): Action {
  const untilMs = Math.max(tracker.host.notBefore, seen.nowMs + LIMITS.pollFirst);
  return wait(seen, `the host does not answer: ${message}`, untilMs);
}

export function runCommand(
  c: AnsweredContext,
  command: UpdateCommand,
  reason: string,
  checks: { readonly version?: string; readonly lock?: string } = {},
): Action {
  return { do: 'command', command, before: c.status?.latestCommand?.timestamp, ...checks, reason };
}

export function report(c: Context, changes: Partial<AgentStatus>, reason: string): Action {
  return { do: 'report', status: { ...c.base, ...changes }, reason };
}

/** Reports `changes` unless the shadow has them already, and then waits. */
export function settle(c: AnsweredContext, changes: Partial<AgentStatus>, reason: string): Action {
  const action = report(c, changes, reason);
  const isReported = action.do === 'report' && sameStatus(c.shadow.status, action.status);
  return isReported ? wait(c.seen, reason, nextLook(c)) : action;
}

/** Returns when to look at the host again if something is expected of it. */
export function nextLook(c: AnsweredContext): number | undefined {
  const { nowMs } = c.seen;
  if (c.update.kind === 'locked') return nowMs + pollDelay(c);
  return c.tracker.attempt.notBefore > nowMs ? c.tracker.attempt.notBefore : undefined;
}

/** The pause between polls of a running command: half of the time so far, within bounds. */
export function pollDelay({ seen: { nowMs }, tracker }: Context): number {
  const elapsed = nowMs - (tracker.hostLockedSince ?? nowMs);
  return Math.min(LIMITS.pollLongest, Math.max(LIMITS.pollFirst, elapsed / 2));
}

export function stepInProgress(
  { shadow: { status, generation } }: Context,
  version: string,
): LastOperation | undefined {
  const last = status?.lastOperation;
  const isCurrent = status?.observedGeneration === generation && sameVersion(last?.version, version);
  return isCurrent && last?.state === 'Processing' ? last : undefined;
}

/** Records that a step starts. The step is carried out when the record is acknowledged. */
export function begin(c: Context, operation: Operation, version: string, state?: ShadowState): Action {
  const changes = state === undefined ? {} : { current_state: state };
  const lastOperation = startStep(operation, version, c.seen);
  return report(c, { ...changes, lastOperation }, `starting ${operation} of ${version}`);
}

export function ended(c: Context, operation: Operation, version: string): LastOperation {
  const { bootID, wallMs } = c.seen;
  const last = c.shadow.status?.lastOperation;
  const isSame = last?.operation === operation && sameVersion(last.version, version) && last.bootID === bootID;
  if (isSame && last.state === 'Succeeded') return last;
  const step = isSame && last.state === 'Processing' ? last : startStep(operation, version, c.seen);
  return succeedStep(step, wallMs);
}

export function hasFailed({ shadow: { status, generation } }: Context): boolean {
  return status?.current_state === 'ErrorReset' && status.observedGeneration === generation;
}

export function failStep(c: Context, version: string, code: ErrorCode, message: string): Action {
  const operation = c.shadow.spec.state === 'RebootedIntoUpdate' ? 'Drain' : 'Stage';
  return fail(c, stepInProgress(c, version) ?? startStep(operation, version, c.seen), code, message);
}

/**
 * Reports that the attempt has failed at `step`; undoing follows. A step whose boot may have rolled
 * back stays in progress while the host does not answer: the rollback shows only in its next
 * answer.
 */
export function fail(c: Context, step: LastOperation, code: ErrorCode, text: string): Action {
  const message = shorten(text, MAX_MESSAGE);
  const time = rfc3339(c.seen.wallMs);
  const isOpen = c.host === 'unreachable' && mayBeActive(step) && step.bootID !== c.seen.bootID;
  const state = isOpen ? step.state : 'Failed';
  const changes = {
    current_state: 'ErrorReset',
    crash_count: c.base.crash_count + 1,
    state_transition_failure_timestamp: time,
    lastOperation: { ...step, state, lastUpdateTime: time, errorCode: code, message },
  } as const;
  return report(c, changes, `${step.operation} of ${step.version} failed: ${code}: ${message}`);
}

/** Undoes an attempt: the activation, which any reboot would boot, and what is set on the Node. */
export function undo(c: Context): Action | undefined {
  const { attempt } = c.tracker;
  if (c.host === 'answered' && c.status?.state === 'Ready' && attempt.notBefore <= c.seen.nowMs)
    return runCommand(c, 'deactivate', 'any reboot would boot the update');
  return attempt.restored ? undefined : { do: 'restore', reason: 'restoring the Node' };
}
