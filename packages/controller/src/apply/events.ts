import { type EventSource, shadowReference } from '@brupop/shared/kube/events';
import type { NodeView } from '../cluster/node.ts';
import type { ShadowView } from '../cluster/shadow.ts';

/** `docs/runbook.md` explains each. */
export const EVENT_REASONS = [
  'UpdateStarted',
  'UpdateSucceeded',
  'UpdateFailed',
  'UpdateDeferred',
  'UpdateInterrupted',
  'UpdateSuperseded',
  'DeadlineExceeded',
  'Restored',
] as const;
export type EventReason = (typeof EVENT_REASONS)[number];

const WARNINGS: ReadonlySet<EventReason> = new Set(['UpdateFailed', 'DeadlineExceeded']);

/** Something that happened to a node, told on the Node. */
export interface NodeOccurrence {
  readonly reason: EventReason;
  readonly node: NodeView;
  readonly shadow: ShadowView | undefined;
  readonly message: string;
  /** Tells this occurrence from others of the same kind at the same node: the same text gives the same Event. */
  readonly key: string;
}

/** What an Event about it says. */
export function occurrenceAt({ reason, node, shadow, message, key }: NodeOccurrence): EventSource {
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
