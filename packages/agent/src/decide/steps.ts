/**
 * The steps of an attempt: their record in the shadow, and what keeps one from continuing.
 *
 * A step is recorded as `Processing` before it is carried out, and becomes `Succeeded` or `Failed`.
 * The guard ends or defers one that has started: its time limit, an error that was met too often, a
 * host that is busy, unusable or unreachable. A failed step makes the state ErrorReset, in which
 * the attempt is undone.
 */
import type { DrainResult } from '@brupop/shared/api/agent-protocol';
import { ERROR_CODES, type ErrorCode } from '@brupop/shared/api/error-codes';
import { type LastOperation, type Operation, RESTORE_ERROR, type ShadowState } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { listOf, shorten } from '@brupop/shared/runtime/errors';
import type { Action } from '../actions.ts';
import { LIMITS, MAX_MESSAGE, OFFER_TRIES, stepLimit, TIMEOUT_CODES, TRIES } from '../limits.ts';
import type { Observation } from '../state/observe.ts';
import type { CallError, TrackerView } from '../state/tracker.ts';
import {
  type AnsweredContext,
  type Context,
  pollDelay,
  report,
  runCommand,
  settle,
  type UnreachableContext,
  wait,
  waitForHost,
} from './context.ts';
import { confirmedBefore } from './settings-view.ts';

export function startStep(operation: Operation, version: string, { bootID, wallMs }: Observation): LastOperation {
  const time = rfc3339(wallMs);
  const plain = version.replace(/^v/, '');
  return { operation, state: 'Processing', version: plain, bootID, startTime: time, lastUpdateTime: time };
}

/** True for the steps in which the agent activates, or has activated, a verified image. */
export function mayBeActive(step: LastOperation | undefined): step is LastOperation {
  return step?.operation === 'Activate' || step?.operation === 'Reboot';
}

/** Begins the message of an Activate step while the host has failed to activate the update. */
export const NOT_ACTIVATED = 'the update is not activated yet: ';

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
  const { errorCode: _code, message: _message, ...rest } = step;
  return { ...rest, state: 'Succeeded', lastUpdateTime: rfc3339(wallMs) };
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
  const isCounted = ERROR_CODES[code] !== 'RetryWithOffered' || sameVersion(c.base.target_version, step.version);
  const changes = {
    current_state: 'ErrorReset',
    ...(isCounted && { crash_count: c.base.crash_count + 1, state_transition_failure_timestamp: time }),
    lastOperation: { ...step, state, lastUpdateTime: time, errorCode: code, message },
  } as const;
  return report(c, changes, `${step.operation} of ${step.version} failed: ${code}: ${message}`);
}

/**
 * Undoes an attempt: first deactivates the update, which any reboot would boot, and then restores the
 * Node. The Node is restored first only if the host does not respond or has rejected the deactivation.
 */
export function undo(c: Context): Action | undefined {
  const { deactivationFailed = false, notBefore } = c.tracker.attempt;
  const isActivated = c.host === 'answered' && c.status?.state === 'Ready';
  if (isActivated && (!deactivationFailed || notBefore <= c.seen.nowMs))
    return runCommand(c, 'deactivate', 'any reboot would boot the update');
  return restoreNode(c, 'the Node must be in service');
}

/** The shadow says why this fails. A report that fails does not keep it from being tried again. */
export function restoreNode(c: Context, reason: string): Action | undefined {
  const { restored, restoreError } = c.tracker.attempt;
  const last = c.shadow.status?.lastOperation;
  const isTried = restored || restoreError !== undefined;
  // After a success there is nothing to restore, as a rule.
  const isOpen = last !== undefined && last.state !== 'Succeeded';
  const reported = isTried && isOpen ? reportCallError(c, last, RESTORE_ERROR, restoreError) : undefined;
  return reported ?? (restored ? undefined : { do: 'restore', reason });
}

export function cleanUp(c: Context): Action {
  const action = undo(c);
  if (action !== undefined) return action;
  if (c.host === 'unreachable') return waitForHost(c);
  return settle(c, { current_state: 'ErrorReset' }, 'failed; waiting for the controller');
}

export function stepGuard(c: AnsweredContext, step: LastOperation): Action | undefined {
  return timeLimit(c, step) ?? triesExhausted(c, step) ?? unusableHost(c, step) ?? lockedHost(c, step) ?? pause(c);
}

export function withoutHost(c: UnreachableContext, version: string): Action {
  const step = stepInProgress(c, version);
  return (step && timeLimit(c, step)) ?? unreachableTooLong(c, version) ?? waitForHost(c);
}

function timeLimit(c: Context, step: LastOperation): Action | undefined {
  const { seen, shadow, host } = c;
  const startMs = parseTime(step.startTime);
  // A step that started in the future, before the clock was set back, would have no limit.
  if (startMs === undefined || startMs > seen.wallMs + LIMITS.clockAhead) {
    const time = rfc3339(seen.wallMs);
    const lastOperation = { ...step, startTime: time, lastUpdateTime: time };
    return report(c, { lastOperation }, 'the clock was set back: the time limit counts from now');
  }
  const limitMs = stepLimit(step.operation, shadow.spec);
  const elapsedMs = seen.wallMs - startMs;
  const late = lateDrain(c, step, elapsedMs) ?? (elapsedMs > limitMs ? tookLonger(step, limitMs) : undefined);
  if (late === undefined) return undefined;
  const text = `${late}; ${detail(c.tracker)}`;
  const code = TIMEOUT_CODES[step.operation] ?? 'StepTimedOut';
  if (host === 'answered') return fail(c, step, code, text);
  return fail(
    c,
    step,
    step.bootID === seen.bootID ? code : 'HostUnreachable',
    `${text}; the host does not answer: ${c.message}`,
  );
}

function tookLonger({ operation }: LastOperation, limitMs: number): string {
  return `${operation} took longer than ${limitMs / 60_000} min`;
}

/** For a drain that no pass ends at its limit. */
function lateDrain({ seen, tracker }: Context, step: LastOperation, elapsedMs: number): string | undefined {
  if (step.operation !== 'Drain') return undefined;
  const { drain, drainEndsAt, drainError } = tracker.attempt;
  const { nowMs } = seen;
  if (drainEndsAt !== undefined && nowMs > drainEndsAt + LIMITS.drainOverLimit) return 'Drain continued past its limit';
  if (nowMs - (drainError?.sinceMs ?? nowMs) > LIMITS.drainWithoutPass)
    return `Drain had no pass for ${LIMITS.drainWithoutPass / 60_000} min`;
  // An apiserver of an earlier release reports no limit.
  const isUnlimited = drain !== undefined && drainEndsAt === undefined;
  return isUnlimited && elapsedMs > LIMITS.drainWithoutPass ? tookLonger(step, LIMITS.drainWithoutPass) : undefined;
}

function detail({ attempt: { drain, error, drainError } }: TrackerView): string {
  if (error !== undefined) return error.message;
  if (drainError !== undefined) return describeCallError(DRAIN_ERROR, drainError);
  return drain === undefined || drain.done ? 'no error was recorded' : describeDrain(drain);
}

function unreachableTooLong(c: UnreachableContext, version: string): Action | undefined {
  const { seen, tracker, shadow } = c;
  const unreachableMs = seen.nowMs - (tracker.hostUnreachableSince ?? seen.nowMs);
  if (shadow.status === undefined || unreachableMs <= LIMITS.hostUnreachable) return undefined;
  const last = shadow.status.lastOperation;
  const operation = shadow.spec.state === 'RebootedIntoUpdate' ? 'Drain' : 'Stage';
  const step = last?.state === 'Processing' ? last : startStep(operation, version, seen);
  return fail(c, step, 'HostUnreachable', `no answer for ${Math.round(unreachableMs / 1000)} s: ${c.message}`);
}

function triesExhausted(c: AnsweredContext, { version }: LastOperation): Action | undefined {
  const { error, counts } = c.tracker.attempt;
  if (error === undefined || (counts[error.code] ?? 0) < tries(c, error.code)) return undefined;
  return failStep(c, version, error.code, error.message);
}

/** A refresh shows what the host offers, except while the host has not yet applied its settings. */
function tries({ settings }: AnsweredContext, code: ErrorCode): number {
  return code === 'VersionNotOffered' && settings.state === 'unsettled' ? OFFER_TRIES : (TRIES[code] ?? 1);
}

function unusableHost(c: AnsweredContext, { version }: LastOperation): Action | undefined {
  const { update, tracker, seen } = c;
  if (update.kind !== 'failed') return undefined;
  if (isLastingProblem(c)) return failStep(c, version, update.code, update.message);
  return wait(seen, update.message, Math.max(tracker.host.notBefore, seen.nowMs + LIMITS.pollLongest));
}

export function isLastingProblem({ tracker, seen }: AnsweredContext): boolean {
  return seen.nowMs - (tracker.hostUnusableSince ?? seen.nowMs) >= LIMITS.statusUnusable;
}

function lockedHost(c: AnsweredContext, { version }: LastOperation): Action | undefined {
  const { update, seen, tracker } = c;
  if (update.kind !== 'locked') return undefined;
  const lockedMs = seen.nowMs - (tracker.hostLockedSince ?? seen.nowMs);
  if (lockedMs > tracker.lockLimit)
    return failStep(c, version, 'HostBusy', `the update lock has been held for ${Math.round(lockedMs / 60_000)} min`);
  return wait(seen, 'an update command is running on the host', seen.nowMs + pollDelay(c));
}

function pause({ seen, tracker: { attempt } }: AnsweredContext): Action | undefined {
  const { error, notBefore } = attempt;
  if (notBefore <= seen.nowMs) return undefined;
  const after = error === undefined ? 'between two tries' : `after ${error.code}: ${error.message}`;
  return wait(seen, `pausing ${after}`, notBefore);
}

/** Between the error of a call and why the step has failed before. */
const BEFORE = '. Before: ';

/** The message of a step while a call fails with `error`, or once it does not fail any more. */
function messageWith({ errorCode, message = '' }: LastOperation, prefix: string, error: CallError | undefined): string {
  const at = message.indexOf(BEFORE);
  const before = at < 0 ? '' : message.slice(at + BEFORE.length);
  const failure = message.startsWith(prefix) ? before : message;
  const kept = errorCode === undefined ? '' : failure;
  if (error === undefined) return kept;
  return `${describeCallError(prefix, error)}${kept === '' ? '' : `${BEFORE}${kept}`}`;
}

/** After 10 s, and once a minute if the cause has changed. */
function isErrorDue({ seen, tracker }: Context, { sinceMs }: CallError, isShown: boolean): boolean {
  const { reportedMs = -Infinity } = tracker.attempt;
  const pauseMs = isShown ? LIMITS.callErrorAgain : LIMITS.callErrorReported;
  return seen.nowMs - sinceMs >= LIMITS.callErrorReported && seen.nowMs - reportedMs >= pauseMs;
}

/**
 * Reports in the message of `step` why calls fail, and takes that back when they succeed.
 * @param prefix - of the message
 */
export function reportCallError(
  c: Context,
  step: LastOperation,
  prefix: string,
  error: CallError | undefined,
): Action | undefined {
  const { message: shown = '', ...rest } = step;
  const isShown = shown.startsWith(prefix);
  const isDue = error === undefined ? isShown : isErrorDue(c, error, isShown);
  const message = messageWith(step, prefix, error);
  if (!isDue || message === shown) return undefined;
  const lastOperation = message === '' ? rest : { ...rest, message };
  const reason = error === undefined ? 'calls of the apiserver succeed again' : error.message;
  return report(c, { observedGeneration: confirmedBefore(c.shadow), lastOperation }, reason);
}

export const DRAIN_ERROR = 'no drain for now: ';
const MAX_PODS = 5;
const MAX_CHARS = 900;

export function describeDrain({ remaining, blockedBy }: DrainResult): string {
  const pods = blockedBy.map(({ pod, reason, message }) => `${pod} (${reason}: ${message})`);
  const blockers = pods.length === 0 ? '' : `; blocked by ${listOf(pods, MAX_PODS, ', ')}`;
  return shorten(`${remaining} ${remaining === 1 ? 'pod is' : 'pods are'} still on the node${blockers}`, MAX_CHARS);
}

function describeCallError(prefix: string, { message }: CallError): string {
  return shorten(`${prefix}${message}`, MAX_CHARS);
}
