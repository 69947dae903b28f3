import type { DrainResult } from '@brupop/shared/api/agent-protocol';
import type { OperationError } from '@brupop/shared/api/error-codes';
import type { LastOperation } from '@brupop/shared/api/shadow';
import { parseTime } from '@brupop/shared/runtime/clock';
import { shorten } from '@brupop/shared/runtime/text';
import type { Action } from '../action.ts';
import { LIMITS, lockLimit, STEP_LIMITS, stepLimit, TRIES } from '../limits.ts';
import type { Observation } from '../state/observe.ts';
import type { TrackerView } from '../state/tracker.ts';
import { type Context, failStep, pollDelay, report, wait } from './report.ts';
import { restarted } from './status.ts';

/** What ends or holds up a step that has begun: its time limit, an error met too often, a busy or broken host. */
export function stepGuard(c: Context, step: LastOperation): Action | undefined {
  return (
    clockSetBack(c, step) ??
    timedOut(c, step) ??
    spent(c, step) ??
    brokenHost(c, step) ??
    busyHost(c, step) ??
    pausing(c)
  );
}

function clockSetBack(c: Context, step: LastOperation): Action | undefined {
  const lastOperation = countedAnew(c.seen, step);
  return lastOperation && report(c, { lastOperation }, CLOCK_SET_BACK);
}

export const CLOCK_SET_BACK = 'the clock was set back: the time limit counts from now';

/** A step that began in the future, by a clock that was set back since, would have no limit for as long. */
export function countedAnew({ wallMs }: Observation, step: LastOperation): LastOperation | undefined {
  const startMs = parseTime(step.startTime);
  const credible = startMs !== undefined && startMs <= wallMs + LIMITS.clockAhead;
  return credible ? undefined : restarted(step, wallMs);
}

function timedOut(c: Context, step: LastOperation): Action | undefined {
  const message = overdue(c.seen, c.tracker, step);
  return message === undefined ? undefined : failStep(c, step.version, STEP_LIMITS[step.operation].code, message);
}

/** Says that a step has run past its time limit, and what it has met. */
export function overdue(seen: Observation, tracker: TrackerView, step: LastOperation): string | undefined {
  const late = step.operation === 'Drain' ? lateDrain(seen, tracker, step) : undefined;
  const found = late ?? lateStep(seen, step);
  return found === undefined ? undefined : `${found}; ${detail(tracker)}`;
}

function lateStep(seen: Observation, step: LastOperation, ms = limitOf(seen, step)): string | undefined {
  const elapsed = seen.wallMs - (parseTime(step.startTime) ?? seen.wallMs);
  return elapsed <= ms ? undefined : `${step.operation} took longer than ${ms / 60_000} min`;
}

function limitOf({ shadow }: Observation, { operation }: LastOperation): number {
  return shadow === undefined ? STEP_LIMITS[operation].ms : stepLimit(operation, shadow.spec);
}

/** Passes end a drain by themselves at its limit. This is for those that do not, and for a drain without passes. */
function lateDrain(seen: Observation, { attempt }: TrackerView, step: LastOperation): string | undefined {
  const { drain, drainEndsAt, trouble } = attempt;
  const { nowMs } = seen;
  if (drainEndsAt !== undefined && nowMs > drainEndsAt + LIMITS.drainOverLimit) return 'Drain went on past its limit';
  const troubledMs = nowMs - (trouble?.sinceMs ?? nowMs);
  if (troubledMs > LIMITS.drainTrouble) return `Drain had no pass for ${LIMITS.drainTrouble / 60_000} min`;
  // An apiserver of an earlier release tells no limit.
  const untold = drain !== undefined && drainEndsAt === undefined;
  return untold ? lateStep(seen, step, LIMITS.drainTrouble) : undefined;
}

function detail({ attempt: { drain, error, trouble } }: TrackerView): string {
  if (error !== undefined) return error.message;
  if (trouble !== undefined) return describeTrouble(trouble);
  return drain === undefined || drain.done ? 'no error was met' : describeDrain(drain);
}

function spent(c: Context, step: LastOperation): Action | undefined {
  const { error, counts } = c.tracker.attempt;
  if (error === undefined || (counts[error.code] ?? 0) < (TRIES[error.code] ?? 1)) return undefined;
  return failStep(c, step.version, error.code, error.message);
}

function brokenHost(c: Context, step: LastOperation): Action | undefined {
  const { update, tracker } = c;
  if (update.kind !== 'failed') return undefined;
  if (isLastingly(c)) return failStep(c, step.version, update.code, update.message);
  return wait(c.seen, update.message, Math.max(tracker.host.notBefore, c.seen.nowMs + LIMITS.pollLongest));
}

/** True when the host's update status has been unusable for so long that this is no passing trouble. */
export function isLastingly({ tracker, seen }: Context): boolean {
  return seen.nowMs - (tracker.hostBrokenSince ?? seen.nowMs) >= LIMITS.broken;
}

function busyHost(c: Context, step: LastOperation): Action | undefined {
  if (c.update.kind !== 'locked') return undefined;
  const lockedMs = c.seen.nowMs - (c.tracker.hostLockedSince ?? c.seen.nowMs);
  if (lockedMs > lockLimit(c.shadow.spec)) {
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
  const { error, notBefore } = c.tracker.attempt;
  return notBefore > c.seen.nowMs ? wait(c.seen, explain(error), notBefore) : undefined;
}

function explain(error: OperationError | undefined): string {
  return error === undefined ? 'pausing between two tries' : `pausing after ${error.code}: ${error.message}`;
}

/** Begins what is said of a drain that our apiserver does not run. */
export const TROUBLE = 'no drain for now: ';
const MAX_PODS = 5;
const MAX_CHARS = 900;

/** What a drain that is not done waits for, in words. */
export function describeDrain({ remaining, blockedBy }: DrainResult): string {
  const named = blockedBy.slice(0, MAX_PODS).map(({ pod, reason, message }) => `${pod} (${reason}: ${message})`);
  const more = blockedBy.length > MAX_PODS ? [`${blockedBy.length - MAX_PODS} more`] : [];
  const waits = named.length === 0 ? '' : `; held up by ${[...named, ...more].join(', ')}`;
  return shorten(`${remaining} ${remaining === 1 ? 'pod is' : 'pods are'} still on the node${waits}`, MAX_CHARS);
}

/** Why no drain pass was run, in words. */
export function describeTrouble({ message }: { readonly message: string }): string {
  return shorten(`${TROUBLE}${message}`, MAX_CHARS);
}
