import type { ErrorCode, OperationError } from '@brupop/shared/api/error-codes';
import type { LastOperation } from '@brupop/shared/api/shadow';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { shorten } from '@brupop/shared/runtime/text';
import type { Action } from '../action.ts';
import { dueMs, lookWith, settleSettings } from './host-settings.ts';
import { recordPossibleReboot } from './reboot-guard.ts';
import { begin, type Context, ended, nextLook, report, undo, wait } from './report.ts';
import { began, sameStatus } from './status.ts';
import { isLastingly } from './step-guards.ts';

/** Spec Idle: undo what an earlier attempt left, then look for updates from time to time. */
export function idle(c: Context): Action {
  const last = c.shadow.status?.lastOperation;
  // Written before a deactivation: a host that reboots right after one has not rolled back.
  if (last?.state === 'Processing' && last.operation !== 'Restore') return begin(c, 'Restore', last.version);
  return recordPossibleReboot(c) ?? undo(c) ?? settleSettings(c) ?? reportIdle(c) ?? look(c);
}

function reportIdle(c: Context): Action | undefined {
  const { lastOperation: _before, ...base } = c.base;
  const lastOperation = closed(c);
  const status = {
    ...base,
    current_state: 'Idle',
    ...(lastOperation === undefined ? {} : { lastOperation }),
  } as const;
  return sameStatus(c.shadow.status, status) ? undefined : report(c, status, 'idle');
}

/** The latest operation with an undoing closed, and with what a person must know of the host; a failed update stays on record. */
function closed(c: Context): LastOperation | undefined {
  const last = c.shadow.status?.lastOperation;
  const problem = hostProblem(c);
  if (last?.state === 'Failed' && !isHostProblem(last.errorCode)) return undoing(c, last);
  if (last?.state === 'Failed') return named(c, last, problem);
  if (problem !== undefined) return problemOperation(c, problem);
  return undoing(c, last);
}

const STILL_ACTIVATED = 'the update is still activated, any reboot boots it: ';

/** What is left of an undoing: an activation that cannot be taken back is said once, until it is gone. */
function undoing(c: Context, last: LastOperation | undefined): LastOperation | undefined {
  const { error } = c.tracker.attempt;
  if (c.status?.state === 'Ready') return error === undefined ? last : stillActivated(c, last, error);
  if (c.status === undefined && c.update.kind !== 'uninitialized') return last;
  return last?.state === 'Processing' ? ended(c, 'Restore', last.version) : last && withoutNote(last);
}

function stillActivated(c: Context, last: LastOperation | undefined, error: OperationError): LastOperation {
  const { bootID, wallMs } = c.seen;
  const open = last === undefined || last.state === 'Succeeded';
  const step = open ? began('Restore', { version: c.base.target_version, bootID, wallMs }) : last;
  const { message = '' } = step;
  if (message.includes(STILL_ACTIVATED)) return step;
  const said = message === '' ? '' : `${message}; `;
  return { ...step, message: `${said}${STILL_ACTIVATED}${error.message}` };
}

/** A failure stays on record without what has been undone since. */
function withoutNote(last: LastOperation): LastOperation {
  const { message, ...rest } = last;
  const at = message?.indexOf(STILL_ACTIVATED) ?? -1;
  if (message === undefined || at < 0) return last;
  const kept = message.slice(0, at).replace(/; $/, '');
  return kept === '' ? rest : { ...rest, message: kept };
}

/** A host problem on record stays until the host's update commands work again. */
function named(c: Context, last: LastOperation, problem: Problem | undefined): LastOperation {
  if (problem !== undefined && problem.code !== last.errorCode) return problemOperation(c, problem);
  const healed = problem === undefined && c.status?.latestCommand?.succeeded === true;
  return healed ? ended(c, 'Restore', last.version) : last;
}

interface Problem {
  readonly code: ErrorCode;
  readonly message: string;
}

function problemOperation(c: Context, problem: Problem): LastOperation {
  const { bootID, wallMs } = c.seen;
  const step = began('Stage', { version: c.base.target_version, bootID, wallMs });
  const message = shorten(problem.message, 1000);
  return { ...step, state: 'Failed', lastUpdateTime: rfc3339(wallMs), errorCode: problem.code, message };
}

function hostProblem(c: Context): Problem | undefined {
  if (c.update.kind === 'failed') return isLastingly(c) ? c.update : undefined;
  const { checkError } = c.tracker;
  return isHostProblem(checkError?.code) ? checkError : undefined;
}

/** Troubles that only a person heals. */
function isHostProblem(code: ErrorCode | undefined): boolean {
  return code === 'HostUnsupported' || code === 'HostStatusUnreadable';
}

function look(c: Context): Action {
  const { tracker, seen } = c;
  if (c.update.kind === 'locked') return wait(seen, 'an update command is running on the host', nextLook(c));
  if (c.settings.state === 'unsettled') return wait(seen, "the host's settings are not in force yet", dueMs(c));
  if (tracker.checkDueMs <= seen.nowMs) return lookWith(c, 'time to look for updates');
  return wait(seen, 'idle', Math.min(tracker.checkDueMs, nextLook(c) ?? tracker.checkDueMs));
}
