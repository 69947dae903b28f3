import { parseTime } from '@brupop/shared/clock';
import type { OperationError } from '@brupop/shared/errors';
import type { LastOperation } from '@brupop/shared/shadow';

import type { Action } from '../action.ts';
import type { Context } from './decision.ts';
import { failStep, pollDelay, wait } from './decision.ts';
import { describeDrain } from './drain-progress.ts';
import { LIMITS, STEP_LIMITS, TRIES } from '../limits.ts';

/** What ends or holds up a step that has begun: its time limit, an error met too often, a busy or broken host. */
export function obstacle(c: Context, step: LastOperation): Action | undefined {
  return timedOut(c, step) ?? spent(c, step) ?? brokenHost(c, step) ?? busyHost(c, step) ?? pausing(c);
}

function timedOut(c: Context, step: LastOperation): Action | undefined {
  const { ms, code } = STEP_LIMITS[step.operation];
  const elapsed = c.seen.wallMs - (parseTime(step.startTime) ?? c.seen.wallMs);
  if (elapsed <= ms) return undefined;
  return failStep(c, step.version, code, `${step.operation} took longer than ${ms / 60_000} min; ${detail(c)}`);
}

function detail(c: Context): string {
  const { drain, error } = c.memory.attempt;
  if (error !== undefined) return error.message;
  return drain === undefined || drain.done ? 'no error was met' : describeDrain(drain);
}

function spent(c: Context, step: LastOperation): Action | undefined {
  const { error, counts } = c.memory.attempt;
  if (error === undefined || (counts[error.code] ?? 0) < (TRIES[error.code] ?? 1)) return undefined;
  return failStep(c, step.version, error.code, error.message);
}

function brokenHost(c: Context, step: LastOperation): Action | undefined {
  const { update, memory } = c;
  if (update.kind !== 'failed') return undefined;
  if (isLastingly(c)) return failStep(c, step.version, update.code, update.message);
  return wait(c.seen, update.message, Math.max(memory.host.notBefore, c.seen.nowMs + LIMITS.pollLongest));
}

/** True when the host's update status has been unusable for so long that this is no passing trouble. */
export function isLastingly({ memory, seen }: Context): boolean {
  return seen.nowMs - (memory.hostBrokenSince ?? seen.nowMs) >= LIMITS.broken;
}

function busyHost(c: Context, step: LastOperation): Action | undefined {
  if (c.update.kind !== 'locked') return undefined;
  const lockedMs = c.seen.nowMs - (c.memory.hostLockedSince ?? c.seen.nowMs);
  if (lockedMs > LIMITS.locked) {
    return failStep(
      c,
      step.version,
      'HostBusy',
      `the update lock has been held for ${Math.round(lockedMs / 60_000)} min`,
    );
  }
  return wait(c.seen, 'an update command is running on the host', c.seen.nowMs + pollDelay(c));
}

function pausing(c: Context): Action | undefined {
  const { error, notBefore } = c.memory.attempt;
  return notBefore > c.seen.nowMs ? wait(c.seen, explain(error), notBefore) : undefined;
}

function explain(error: OperationError | undefined): string {
  return error === undefined ? 'pausing between two tries' : `pausing after ${error.code}: ${error.message}`;
}
