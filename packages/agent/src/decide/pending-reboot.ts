import type { Action } from '../action.ts';
import { wait } from './decision.ts';
import { LIMITS } from '../limits.ts';
import type { MemoryView } from '../memory.ts';
import type { Observation } from '../observe.ts';
import { isRebootUnderWay } from '../status.ts';

/** A host that this process has asked to reboot may go down at any moment: whatever the spec says now, nothing is begun. */
export function rebooting(seen: Observation, { reboot: asked }: MemoryView): Action | undefined {
  if (asked === undefined || asked.bootID !== seen.bootID) return undefined;
  const untilMs = asked.atMs + LIMITS.rebootAgain;
  return untilMs > seen.nowMs ? wait(seen, 'the host was asked to reboot', untilMs) : undefined;
}

/**
 * `action`, unless it gives the Node back or begins something else while a reboot may come that an earlier process of this agent has asked for:
 * what the shadow says of that is all that is left of it. The wait counts from when this process began to know, since the wall clock by which the
 * asking was written down may have been set since.
 */
export function unlessRebooting(seen: Observation, memory: MemoryView, action: Action): Action {
  const untilMs = pendingUntil(seen, memory);
  if (untilMs === undefined || servesReboot(action)) return action;
  return wait(seen, `the host may have been asked to reboot: ${action.reason}`, untilMs);
}

/** Until when the host may still go down for a reboot that it was asked for (monotonic milliseconds); undefined: it does not. */
export function pendingUntil({ nowMs }: Observation, { pending }: MemoryView): number | undefined {
  const untilMs = pending === undefined ? -Infinity : pending.sinceMs + LIMITS.rebootPending;
  return untilMs > nowMs ? untilMs : undefined;
}

/** Goes on with the reboot that is under way, or does nothing. */
function servesReboot(action: Action): boolean {
  switch (action.do) {
    case 'command':
    case 'restore':
      return false;
    case 'report':
      return isRebootUnderWay(action.status.lastOperation);
    default:
      return true;
  }
}
