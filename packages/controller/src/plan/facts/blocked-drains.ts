/**
 * Nodes that are cordoned although disruption budgets hold pods on them (`spec.drain.blockedBudgets: TryLast`). The start
 * of such an attempt is recorded with it, so the wait until the next one holds whatever ends it. It is no failure.
 */
import { CLOCK_TOLERANCE_MS } from '@brupop/shared/api/deadlines';
import { BLOCKED_DRAINS_ANNOTATION, UPDATE_STARTED_ANNOTATION } from '@brupop/shared/api/names';
import { delayAfter } from '@brupop/shared/runtime/backoff';
import { parseTime } from '@brupop/shared/runtime/clock';
import { isUnderWay, type ShadowView } from '../../cluster/shadow.ts';
import { type Drainable, isDrainable } from './drainability.ts';

/** Between two attempts. */
const WAITS = { baseMs: 60 * 60_000, capMs: 24 * 60 * 60_000 };

/** How many attempts there were since the latest success, and when the latest one started. */
function attemptsOf({ metadata: { annotations = {} } }: ShadowView): { readonly count: number; readonly time: string } {
  const [count = '', time = ''] = (annotations[BLOCKED_DRAINS_ANNOTATION] ?? '').split('=');
  return { count: /^\d{1,6}$/u.test(count) ? Number(count) : 0, time };
}

/** The record with one more attempt, which started at `time`. */
export function oneMoreBlockedDrain(shadow: ShadowView, time: string): string {
  return `${attemptsOf(shadow).count + 1}=${time}`;
}

/** When the node may be cordoned again, epoch milliseconds; 0: it was not yet. */
export function nextTryAt(shadow: ShadowView, now: number): number {
  const { count, time } = attemptsOf(shadow);
  const at = parseTime(time);
  // A time in the future is of a clock that was wrong.
  if (at === undefined || count === 0 || at > now + CLOCK_TOLERANCE_MS) return 0;
  return at + delayAfter(count, WAITS);
}

/** True while the update under way was started although budgets hold pods. */
export function isTrying(shadow: ShadowView): boolean {
  const { time } = attemptsOf(shadow);
  return isUnderWay(shadow) && time !== '' && time === shadow.metadata.annotations?.[UPDATE_STARTED_ANNOTATION];
}

/** True when nothing blocks the drain of the node but what its cordon may open, and it is tried. */
export function mayBeDrained(drainable: Drainable, shadow: ShadowView): boolean {
  return isDrainable(drainable) || (drainable.fresh && drainable.mayOpen && isTrying(shadow));
}
