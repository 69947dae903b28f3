import { FAILED_ATTEMPTS_ANNOTATION, UNANSWERED_ANNOTATION } from '@brupop/shared/constants';
import { sameVersion } from '../cluster/version.ts';
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

/** How many attempts with `version` have failed or were called off since the latest success. */
export function attempts({ metadata: { annotations = {} } }: ShadowView, version: string): number {
  const [of = '', count = ''] = (annotations[FAILED_ATTEMPTS_ANNOTATION] ?? '').split('=');
  return sameVersion(of, version) && /^\d{1,6}$/u.test(count) ? Number(count) : 0;
}

/** The annotation that counts one more. */
export function oneMoreAttempt(shadow: ShadowView, version: string): string {
  return `${version}=${attempts(shadow, version) + 1}`;
}
