import { shadowReference } from '@brupop/shared/events';
import type { Occurrence } from '@brupop/shared/events';
import type { DrainBlockStatus } from '@brupop/shared/shadow';

import type { SlimShadow } from '../shadows/shadow-policy.ts';

/** `docs/runbook.md` explains each. */
export const EVENT_REASONS = ['DrainBlocked', 'DrainForced'] as const;

/** A pod that holds a drain up, once for each reason and update. */
export function blockedOccurrence(shadow: SlimShadow, node: string, block: DrainBlockStatus): Occurrence {
  const { pod, reason, message } = block;
  return {
    reason: 'DrainBlocked',
    warning: true,
    about: shadowReference(shadow),
    message: `Pod ${pod} holds up the drain of ${node}: ${reason}: ${message}`,
    key: `${shadow.metadata.generation ?? 0}/${pod}/${reason}`,
  };
}

/** Pods are deleted past their budgets, since the drain's time is over and the configuration says so. */
export function forcedOccurrence(shadow: SlimShadow, node: string): Occurrence {
  const message = `The time for draining ${node} is over: what is left is deleted past its disruption budgets, as BrupopConfig "cluster" says in spec.drain.onTimeout`;
  const key = String(shadow.metadata.generation ?? 0);
  return { reason: 'DrainForced', warning: true, about: shadowReference(shadow), message, key };
}
