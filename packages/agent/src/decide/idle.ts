/** Spec Idle: undo an earlier attempt, apply the host's settings, check for updates. */
import type { ErrorCode, OperationError } from '@brupop/shared/api/error-codes';
import type { AgentStatus, LastOperation } from '@brupop/shared/api/shadow';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { shorten } from '@brupop/shared/runtime/errors';
import { type Action, isRebootInProgress } from '../actions.ts';
import { sameStatus } from '../apiserver/messages.ts';
import { LIMITS, MAX_MESSAGE } from '../limits.ts';
import {
  type AnsweredContext,
  type Context,
  nextLook,
  report,
  type UnreachableContext,
  wait,
  waitForHost,
} from './context.ts';
import { isHostProblem } from '../state/tracker.ts';
import { confirmedBefore, decidesOffer, hasUpdaterSettings } from './settings-view.ts';
import { dueMs, refresh, revertSettings, settleSettings } from './stage.ts';
import { begin, ended, isLastingProblem, startStep, undo } from './steps.ts';

const NO_UPDATE = 'no update is requested';

export function idle(c: Context): Action {
  return c.host === 'answered' ? idleHost(c) : (closeReboot(c) ?? undo(c) ?? reportUnreachable(c) ?? waitForHost(c));
}

function idleHost(c: AnsweredContext): Action {
  const last = c.shadow.status?.lastOperation;
  // Recorded before a deactivation: a host that reboots right after it has not rolled back.
  if (last?.state === 'Processing' && last.operation !== 'Restore') return begin(c, 'Restore', last.version);
  return undo(c) ?? revertSettings(c) ?? settleSettings(c) ?? reportIdle(c) ?? checkForUpdates(c);
}

/**
 * Turns a Reboot step whose reboot can no longer come into an activation to be undone; otherwise
 * each new process would wait for the reboot again. A later boot is still detected.
 * The reboot guard defers this while it can come.
 */
function closeReboot(c: UnreachableContext): Action | undefined {
  const last = c.shadow.status?.lastOperation;
  if (!isRebootInProgress(last) || last.bootID !== c.seen.bootID) return undefined;
  const lastOperation = startStep('Activate', last.version, c.seen);
  const changes = { observedGeneration: confirmedBefore(c.shadow), lastOperation };
  return report(c, changes, `no reboot into ${last.version} can come any more`);
}

/** A host that never answers would otherwise seem to be up to date for ever. Its agent may exit before an hour is over. */
function reportUnreachable(c: UnreachableContext): Action | undefined {
  const { tracker, seen, shadow } = c;
  const limitMs = tracker.hostHasAnswered ? LIMITS.checkFailing : LIMITS.hostUnreachable;
  const isLasting = seen.nowMs - (tracker.hostUnreachableSince ?? seen.nowMs) >= limitMs;
  const isReported = (shadow.status?.lastOperation?.state ?? 'Succeeded') !== 'Succeeded';
  if (!isLasting || isReported || shadow.status === undefined) return undefined;
  const message = `the host does not answer: ${c.message}`;
  const lastOperation = problemOperation(c, { code: 'UpdateCheckFailed', message });
  return report(c, { observedGeneration: confirmedBefore(shadow), lastOperation }, message);
}

function reportIdle(c: AnsweredContext): Action | undefined {
  const { lastOperation: _before, ...base } = c.base;
  const last = closed(c);
  const lastOperation = last === undefined ? {} : { lastOperation: last };
  const status: AgentStatus = { ...base, current_state: 'Idle', ...lastOperation };
  return sameStatus(c.shadow.status, status) ? undefined : { do: 'report', status, reason: NO_UPDATE };
}

/** Ends a Restore step and reports lasting problems of the host; a failed update stays recorded. */
function closed(c: AnsweredContext): LastOperation | undefined {
  const last = c.shadow.status?.lastOperation;
  const problem = hostProblem(c);
  if (last?.state === 'Failed' && !isReportedProblem(last.errorCode)) return undone(c, last);
  if (last?.state === 'Failed') return withProblem(c, last, problem);
  return problem === undefined ? undone(c, last) : problemOperation(c, problem);
}

const STILL_ACTIVATED = 'the update is still activated, any reboot boots it: ';

/** Ends a Restore step. An activation that cannot be undone is reported once, until it is undone. */
function undone(c: AnsweredContext, last: LastOperation | undefined): LastOperation | undefined {
  const { error } = c.tracker.attempt;
  if (c.status?.state === 'Ready') return error === undefined ? last : stillActivated(c, last, error);
  if (c.status === undefined && c.update.kind !== 'uninitialized') return last;
  return last?.state === 'Processing' ? ended(c, 'Restore', last.version) : last && withoutMessage(last);
}

function stillActivated(c: AnsweredContext, last: LastOperation | undefined, error: OperationError): LastOperation {
  const isOver = last === undefined || last.state === 'Succeeded';
  const step = isOver ? startStep('Restore', c.base.target_version, c.seen) : last;
  const { message = '' } = step;
  if (message.includes(STILL_ACTIVATED)) return step;
  const before = message === '' ? '' : `${message}; `;
  return { ...step, message: `${before}${STILL_ACTIVATED}${error.message}` };
}

function withoutMessage(last: LastOperation): LastOperation {
  const { message, ...rest } = last;
  const at = message?.indexOf(STILL_ACTIVATED) ?? -1;
  if (message === undefined || at < 0) return last;
  const kept = message.slice(0, at).replace(/; $/, '');
  return kept === '' ? rest : { ...rest, message: kept };
}

/** A problem of the host stays on record until an update command succeeds. */
function withProblem(c: AnsweredContext, last: LastOperation, problem: Problem | undefined): LastOperation {
  if (problem !== undefined && problem.code !== last.errorCode) return problemOperation(c, problem);
  const isSolved = problem === undefined && c.status?.latestCommand?.succeeded === true;
  return isSolved ? ended(c, 'Restore', last.version) : last;
}

type Problem = Pick<OperationError, 'code' | 'message'>;

function problemOperation({ base, seen }: Context, { code, message }: Problem): LastOperation {
  const step = startStep('Stage', base.target_version, seen);
  const failed = { state: 'Failed', lastUpdateTime: rfc3339(seen.wallMs), errorCode: code } as const;
  return { ...step, ...failed, message: shorten(message, MAX_MESSAGE) };
}

function hostProblem(c: AnsweredContext): Problem | undefined {
  if (c.update.kind === 'failed') return isLastingProblem(c) ? c.update : undefined;
  const { checkError, checkFailingSince = Infinity, checkFailedMs = 0 } = c.tracker;
  // A dispatcher that fails once is no lasting problem: another check has to fail, too.
  const isLasting =
    checkError?.code === 'HostUnsupported' || checkFailedMs - checkFailingSince >= LIMITS.statusUnusable;
  return isLasting && isHostProblem(checkError?.code) ? checkError : failingChecks(c);
}

/** A host that cannot check for updates would otherwise seem to be up to date for ever. */
function failingChecks({ tracker, seen }: AnsweredContext): Problem | undefined {
  const { checkError, checkFailingSince = Infinity, hostLockedSince = Infinity } = tracker;
  const code = 'UpdateCheckFailed';
  if (seen.nowMs - hostLockedSince > tracker.lockLimit)
    return { code, message: 'another process on the host does not release the update lock' };
  const isLasting = checkError !== undefined && seen.nowMs - checkFailingSince >= LIMITS.checkFailing;
  return isLasting ? { code, message: checkError.message } : undefined;
}

/** Such a problem is on record until it is solved; the failure of an update stays. */
function isReportedProblem(code: ErrorCode | undefined): boolean {
  return isHostProblem(code) || code === 'UpdateCheckFailed';
}

function checkForUpdates(c: AnsweredContext): Action {
  const { tracker, seen } = c;
  if (c.update.kind === 'locked') return wait(seen, 'an update command is running on the host', nextLook(c));
  const settingsDueMs = c.settings.state === 'unsettled' ? dueMs(c) : Infinity;
  if (waitsForSettings(c)) return wait(seen, "the host's settings are not in force yet", settingsDueMs);
  if (tracker.checkDueMs <= seen.nowMs) return refresh(c, 'the check is due');
  return wait(seen, NO_UPDATE, Math.min(tracker.checkDueMs, nextLook(c) ?? Infinity, settingsDueMs));
}

/** Settings that fail hold up no updates, unless they decide the offer. */
function waitsForSettings({ settings, shadow }: AnsweredContext): boolean {
  if (settings.state !== 'unsettled') return false;
  return !settings.givenUp || (decidesOffer(shadow) && !hasUpdaterSettings(settings.plan));
}
