import type { Action } from '../action.ts';
import { LIMITS } from '../limits.ts';
import type { Observation } from '../state/observe.ts';
import type { TrackerView } from '../state/tracker.ts';
import { type Context, report, wait } from './report.ts';
import { began, isRebootUnderWay } from './status.ts';

const MAY_REBOOT = 'the host may have been asked to reboot';

/** A host that this process has asked to reboot may go down at any moment: whatever the spec says now, nothing is begun. */
export function rebooting(seen: Observation, { reboots: { asked } }: TrackerView): Action | undefined {
  if (asked === undefined || asked.bootID !== seen.bootID) return undefined;
  const untilMs = asked.atMs + LIMITS.rebootAgain;
  return untilMs > seen.nowMs ? wait(seen, 'the host was asked to reboot', untilMs) : undefined;
}

/**
 * `action`, unless it gives the Node back or begins something else while a reboot may come that an earlier process of this agent has asked for:
 * what the shadow says of that is all that is left of it. The wait counts from when this process began to know, since the wall clock by which the
 * asking was written down may have been set since.
 */
export function unlessRebooting(seen: Observation, tracker: TrackerView, action: Action): Action {
  const untilMs = pendingUntil(seen, tracker);
  if (untilMs === undefined || servesReboot(action)) return action;
  return wait(seen, `${MAY_REBOOT}: ${action.reason}`, Math.min(untilMs, nextTry(seen, tracker)));
}

/** When to look at the host again: soon when it did not say how it is, else from time to time, so that a stale mount is noticed before the wait is over. */
function nextTry({ host, nowMs }: Observation, tracker: TrackerView): number {
  if (host.kind === 'silent') return Math.max(tracker.host.notBefore, nowMs + LIMITS.pollFirst);
  const said = host.update.kind === 'status' || host.update.kind === 'uninitialized';
  return nowMs + (said ? LIMITS.staleSocket : LIMITS.pollLongest);
}

/**
 * Writes down that an activated host may have been asked to reboot, when nothing is on record yet: people see what is waited for, and another process
 * of this agent knows it without guessing.
 */
export function recordPossibleReboot(c: Context): Action | undefined {
  const { seen, tracker, shadow, status } = c;
  const known = shadow.status !== undefined || pendingUntil(seen, tracker) === undefined;
  if (known || status?.state !== 'Ready' || status.staged === undefined) return undefined;
  const step = began('Reboot', { version: status.staged.version, bootID: seen.bootID, wallMs: seen.wallMs });
  const message = `the update is activated, and ${MAY_REBOOT}: nothing is begun for ${LIMITS.rebootPending / 60_000} min`;
  return report(c, { lastOperation: { ...step, message } }, message);
}

/** Until when the host may still go down for a reboot that it was asked for (monotonic milliseconds); undefined: it does not. */
export function pendingUntil({ nowMs }: Observation, { reboots: { pending } }: TrackerView): number | undefined {
  const untilMs = pending === undefined ? -Infinity : pending.sinceMs + LIMITS.rebootPending;
  return untilMs > nowMs ? untilMs : undefined;
}

/** Goes on with the reboot that is under way, or does nothing. */
function servesReboot(action: Action): boolean {
  switch (action.do) {
    case 'command':
    case 'configure':
    case 'restore':
      return false;
    case 'report':
      return isRebootUnderWay(action.status.lastOperation);
    default:
      return true;
  }
}
