import { UNANSWERED_ANNOTATION } from '@brupop/shared/constants';
import type { ShadowView } from '../cluster/shadow-view.ts';

/** How many attempts were called off without a report of the agent since the latest success. */
export function unanswered({ metadata: { annotations = {} } }: ShadowView): number {
  const text = annotations[UNANSWERED_ANNOTATION];
  if (text === undefined) return 0;
  const count = Number(text);
  return Number.isSafeInteger(count) && count > 0 ? count : 1;
}

/** Attempts since the latest success that failed or were called off. */
export function failures(shadow: ShadowView): number {
  return Math.max(0, shadow.status?.crash_count ?? 0) + unanswered(shadow);
}
