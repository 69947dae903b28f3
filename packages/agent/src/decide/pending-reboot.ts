import { parseTime, rfc3339 } from '@brupop/shared/clock';
import type { LastOperation } from '@brupop/shared/shadow';

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
 * what the shadow says of that is all that is left of it.
 */
export function unlessRebooting(seen: Observation, memory: MemoryView, action: Action): Action {
  const last = maybeAsked(seen, memory);
  if (last === undefined || servesReboot(action)) return action;
  const askedMs = parseTime(last.lastUpdateTime);
  if (askedMs === undefined || askedMs > seen.wallMs + LIMITS.clockAhead) return askedNow(seen, last) ?? action;
  const leftMs = askedMs + LIMITS.rebootPending - seen.wallMs;
  return leftMs > 0
    ? wait(seen, `the host may have been asked to reboot: ${action.reason}`, seen.nowMs + leftMs)
    : action;
}

/** The step in which this host, since its latest boot, may have been asked to reboot. */
function maybeAsked({ shadow, bootID }: Observation, { unasked }: MemoryView): LastOperation | undefined {
  const last = shadow?.status?.lastOperation;
  if (!isRebootUnderWay(last) || last.bootID !== bootID) return undefined;
  return last.startTime === unasked ? undefined : last;
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

/** By a clock that was set back since: the wait counts from now. Nothing else of the status changes. */
function askedNow(seen: Observation, last: LastOperation): Action | undefined {
  const { status } = seen.shadow ?? {};
  if (status === undefined) return undefined;
  const { conditions: _conditions, ...known } = status;
  const lastOperation = { ...last, lastUpdateTime: rfc3339(seen.wallMs) };
  return {
    do: 'report',
    status: { ...known, lastOperation },
    reason: 'the clock was set back after a reboot was asked for',
  };
}
