import type { BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import { eventually, type EventuallyOptions } from '../eventually.ts';
import type { Fleet } from './fleet.ts';

const LIMIT: EventuallyOptions = { limitMs: 60_000, pauseMs: 2 };

/** Waits until a step of the update is under way on some node; returns its name. */
export async function untilSomeNodeIsAt(fleet: Fleet, operation: string): Promise<string> {
  return await untilSomeNode(fleet, `is at ${operation}`, ({ status }) => {
    const last = status?.lastOperation;
    return last?.operation === operation && last.state === 'Processing';
  });
}

/** Waits until the spec of some node calls for a state; returns its name. */
export async function untilSomeNodeIsToldTo(fleet: Fleet, state: string): Promise<string> {
  return await untilSomeNode(fleet, `is told to go to ${state}`, ({ spec }) => spec.state === state);
}

/**
 * Waits until a disruption budget blocks the drain of some node; returns its name. A node without a
 * pod of the budget is not blocked.
 */
export async function untilSomeNodeIsBlocked(fleet: Fleet): Promise<string> {
  return await untilSomeNode(fleet, 'says that a disruption budget holds it up', ({ status }) => {
    const { result, blockedBy = [] } = status?.drain ?? {};
    return result === undefined && blockedBy.some(({ reason }) => reason === 'DisruptionBudget');
  });
}

async function untilSomeNode(
  fleet: Fleet,
  what: string,
  isTrue: (shadow: BottlerocketShadow) => boolean,
): Promise<string> {
  return await eventually(() => {
    const found = [...fleet.nodes.keys()].find((name) => {
      const shadow = fleet.shadow(name);
      return shadow !== undefined && isTrue(shadow);
    });
    if (found === undefined) throw new Error(`no node ${what}`);
    return found;
  }, LIMIT);
}
