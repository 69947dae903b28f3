import type { DrainResult } from '@brupop/shared/operator-api';

import { shorten } from '../host/host-status.ts';

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
