import { rfc3339 } from '@brupop/shared/clock';
import type { ErrorCode } from '@brupop/shared/errors';
import type { LastOperation } from '@brupop/shared/shadow';

import type { Action } from '../action.ts';
import type { Context } from './decision.ts';
import { begin, ended, nextLook, report, undo, wait } from './decision.ts';
import { shorten } from '../host/host-status.ts';
import { isLastingly } from './obstacles.ts';
import { began, sameStatus } from '../status.ts';

/** Spec Idle: undo what an earlier attempt left, then look for updates from time to time. */
export function idle(c: Context): Action {
  const last = c.shadow.status?.lastOperation;
  // Written before a deactivation: a host that reboots right after one has not rolled back.
  if (last?.state === 'Processing' && last.operation !== 'Restore') return begin(c, 'Restore', last.version);
  return undo(c) ?? reportIdle(c) ?? look(c);
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
  if (last?.state === 'Failed') return isHostProblem(last.errorCode) ? named(c, last, problem) : last;
  if (problem !== undefined) return problemOperation(c, problem);
  return last?.state === 'Processing' ? ended(c, 'Restore', last.version) : last;
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
  const step = began('Stage', { version: c.running, bootID, wallMs });
  const message = shorten(problem.message, 1000);
  return { ...step, state: 'Failed', lastUpdateTime: rfc3339(wallMs), errorCode: problem.code, message };
}

function hostProblem(c: Context): Problem | undefined {
  if (c.update.kind === 'failed') return isLastingly(c) ? c.update : undefined;
  const { checkError } = c.memory;
  return isHostProblem(checkError?.code) ? checkError : undefined;
}

/** Troubles that only a person heals. */
function isHostProblem(code: ErrorCode | undefined): boolean {
  return code === 'HostUnsupported' || code === 'HostStatusUnreadable';
}

function look(c: Context): Action {
  const { memory, seen } = c;
  if (c.update.kind === 'locked') return wait(seen, 'an update command is running on the host', nextLook(c));
  if (memory.checkDueMs <= seen.nowMs) {
    return { do: 'command', command: 'refresh', reason: 'time to look for updates' };
  }
  return wait(seen, 'idle', Math.min(memory.checkDueMs, nextLook(c) ?? memory.checkDueMs));
}
