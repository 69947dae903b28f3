/**
 * What keeps a step from continuing.
 *
 * The step guard ends or defers a step that has started: its time limit, an error that was met too
 * often, a host that is busy, unusable or unreachable.
 *
 * The reboot guard defers everything that does not serve a reboot that may still come. A process
 * knows its own call; of an earlier process's call it knows the record of the Reboot step, or that
 * there is no record at all. It waits from when it learned of the possible reboot, since the wall
 * clock of the record may have been set since.
 */
import type { DrainResult } from '@brupop/shared/api/agent-protocol';
import type { LastOperation } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import { shorten } from '@brupop/shared/runtime/errors';
import { type Action, rowOf } from '../actions.ts';
import { mayBeActive, restartStep, startStep } from '../apiserver/status.ts';
import { LIMITS, lockLimit, stepLimit, TIMEOUT_CODES, TRIES } from '../limits.ts';
import type { Observation } from '../state/observe.ts';
import type { TrackerView } from '../state/tracker.ts';
import {
  type AnsweredContext,
  type Context,
  fail,
  failStep,
  pollDelay,
  report,
  stepInProgress,
  type UnreachableContext,
  wait,
  waitForHost,
} from './report.ts';

export function wrongBoot(c: Context): Action | undefined {
  const { status } = c.shadow;
  const last = status?.lastOperation;
  if (c.host === 'unreachable' || status === undefined || !mayBeActive(last) || last.state === 'Failed')
    return undefined;
  const { running, seen } = c;
  if (last.bootID === seen.bootID || sameVersion(running, last.version)) return undefined;
  const before = status.current_version;
  const code = sameVersion(running, before) ? 'RolledBack' : 'WrongVersionBooted';
  return fail(c, last, code, `expected ${last.version} after the reboot, found ${running} (before: ${before})`);
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
    const lastOperation = restartStep(step, seen.wallMs);
    return report(c, { lastOperation }, 'the clock was set back: the time limit counts from now');
  }
  const limitMs = stepLimit(step.operation, shadow.spec);
  const elapsedMs = seen.wallMs - startMs;
  const late = lateDrain(c, step, elapsedMs) ?? (elapsedMs > limitMs ? tookLonger(step, limitMs) : undefined);
  if (late === undefined) return undefined;
  const text = `${late}; ${detail(c.tracker)}`;
  if (host === 'answered') return fail(c, step, TIMEOUT_CODES[step.operation], text);
  const code = step.bootID === seen.bootID ? TIMEOUT_CODES[step.operation] : 'HostUnreachable';
  return fail(c, step, code, `${text}; the host does not answer: ${c.message}`);
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
  if (drainError !== undefined) return describeDrainError(drainError);
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
  if (error === undefined || (counts[error.code] ?? 0) < (TRIES[error.code] ?? 1)) return undefined;
  return failStep(c, version, error.code, error.message);
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
  const { update, seen, tracker, shadow } = c;
  if (update.kind !== 'locked') return undefined;
  const lockedMs = seen.nowMs - (tracker.hostLockedSince ?? seen.nowMs);
  if (lockedMs > lockLimit(shadow.spec))
    return failStep(c, version, 'HostBusy', `the update lock has been held for ${Math.round(lockedMs / 60_000)} min`);
  return wait(seen, 'an update command is running on the host', seen.nowMs + pollDelay(c));
}

function pause({ seen, tracker: { attempt } }: AnsweredContext): Action | undefined {
  const { error, notBefore } = attempt;
  if (notBefore <= seen.nowMs) return undefined;
  const after = error === undefined ? 'between two tries' : `after ${error.code}: ${error.message}`;
  return wait(seen, `pausing ${after}`, notBefore);
}

export const DRAIN_ERROR = 'no drain for now: ';
const MAX_PODS = 5;
const MAX_CHARS = 900;

export function describeDrain({ remaining, blockedBy }: DrainResult): string {
  const named = blockedBy.slice(0, MAX_PODS).map(({ pod, reason, message }) => `${pod} (${reason}: ${message})`);
  const more = blockedBy.length > MAX_PODS ? [`${blockedBy.length - MAX_PODS} more`] : [];
  const blockers = named.length === 0 ? '' : `; blocked by ${[...named, ...more].join(', ')}`;
  return shorten(`${remaining} ${remaining === 1 ? 'pod is' : 'pods are'} still on the node${blockers}`, MAX_CHARS);
}

export function describeDrainError({ message }: { readonly message: string }): string {
  return shorten(`${DRAIN_ERROR}${message}`, MAX_CHARS);
}

const MAY_REBOOT = 'the host may have been asked to reboot';

/** Waits, whatever the spec is, while the host may go down on the request of this process. */
export function waitForReboot(seen: Observation, { reboots: { asked } }: TrackerView): Action | undefined {
  if (asked === undefined || asked.bootID !== seen.bootID) return undefined;
  const untilMs = asked.atMs + LIMITS.rebootAgain;
  return untilMs > seen.nowMs ? wait(seen, 'the host was asked to reboot', untilMs) : undefined;
}

export function guardReboot(seen: Observation, tracker: TrackerView, action: Action): Action {
  const untilMs = pendingUntil(seen, tracker);
  if (untilMs === undefined || action.do === 'wait' || action.do === 'exit' || rowOf(action).duringReboot(action))
    return action;
  return wait(seen, `${MAY_REBOOT}: ${action.reason}`, Math.min(untilMs, nextLookAtHost(seen, tracker)));
}

/** Soon if the host's state is unknown, else often enough to notice a stale mount. */
function nextLookAtHost({ host, nowMs }: Observation, tracker: TrackerView): number {
  if (host.kind === 'unreachable') return Math.max(tracker.host.notBefore, nowMs + LIMITS.pollFirst);
  const isKnown = host.update.kind === 'status' || host.update.kind === 'uninitialized';
  return nowMs + (isKnown ? LIMITS.staleSocket : LIMITS.pollLongest);
}

/** Returns until when a requested reboot may come (monotonic ms); undefined: none may. */
export function pendingUntil({ nowMs }: Observation, { reboots: { pending } }: TrackerView): number | undefined {
  const untilMs = pending === undefined ? -Infinity : pending.sinceMs + LIMITS.rebootPending;
  return untilMs > nowMs ? untilMs : undefined;
}

/** Records the possible reboot of an activated host without a record, for users and the next process. */
export function recordPossibleReboot(c: AnsweredContext): Action | undefined {
  const { seen, tracker, shadow, status } = c;
  const isKnown = shadow.status !== undefined || pendingUntil(seen, tracker) === undefined;
  if (isKnown || status?.state !== 'Ready' || status.staged === undefined) return undefined;
  const minutes = LIMITS.rebootPending / 60_000;
  const message = `the update is activated, and ${MAY_REBOOT}: nothing starts for ${minutes} min`;
  return report(c, { lastOperation: { ...startStep('Reboot', status.staged.version, seen), message } }, message);
}
