/**
 * Nodes that are cordoned although disruption budgets hold pods on them (`spec.drain.blockedBudgets: TryLast`). The start
 * of such an attempt is recorded with it, so the wait until the next one holds whatever ends it. It is no failure.
 */
import { CLOCK_TOLERANCE_MS } from '@brupop/shared/api/deadlines';
import type { NodeRecord } from '@brupop/shared/api/record';
import { delayAfter } from '@brupop/shared/runtime/backoff';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { ShadowView } from '../../cluster/shadow.ts';
import { isUnderWay } from '../../cluster/state.ts';
import { type Drainable, isDrainable } from './drainability.ts';

/** Between two attempts. */
const WAITS = { baseMs: 60 * 60_000, capMs: 24 * 60 * 60_000 };

/** The record with one more attempt, which started at `at`. */
export function oneMoreBlockedDrain({ record }: ShadowView, at: string): NonNullable<NodeRecord['blockedDrains']> {
  return { count: (record.blockedDrains?.count ?? 0) + 1, at };
}

/** When the node may be cordoned again, epoch milliseconds; 0: it was not yet. */
export function nextTryAt({ record }: ShadowView, now: number): number {
  const { count = 0, at: time } = record.blockedDrains ?? {};
  const at = parseTime(time);
  // A time in the future is of a clock that was wrong.
  if (at === undefined || count === 0 || at > now + CLOCK_TOLERANCE_MS) return 0;
  return at + delayAfter(count, WAITS);
}

/** True while the update under way was started although budgets hold pods. */
export function isTrying(shadow: ShadowView): boolean {
  const { blockedDrains, startedAt } = shadow.record;
  return isUnderWay(shadow) && blockedDrains !== undefined && blockedDrains.at === startedAt;
}

/** True when nothing blocks the drain of the node but what its cordon may open, and it is tried. */
export function mayBeDrained(drainable: Drainable, shadow: ShadowView): boolean {
  return isDrainable(drainable) || (drainable.fresh && drainable.mayOpen && isTrying(shadow));
}
