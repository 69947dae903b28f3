import { type EventSource, shadowReference } from '@brupop/shared/kube/events';
import type { EventReason, NodeEvent } from '../plan/spec-change.ts';

const WARNINGS: ReadonlySet<EventReason> = new Set(['UpdateFailed', 'DeadlineExceeded']);

/** Returns the Event as it is recorded. */
export function eventSource({ reason, node, shadow, message, key }: NodeEvent): EventSource {
  const { name, uid } = node.metadata;
  return {
    reason,
    warning: WARNINGS.has(reason),
    about: { apiVersion: 'v1', kind: 'Node', name, uid },
    related: shadow === undefined ? undefined : shadowReference(shadow),
    message,
    key,
  };
}
