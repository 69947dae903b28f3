/**
 * What a change of a spec means, and all that is written with it: the annotations that count
 * attempts and measure updates, and the Event on the Node. `transition.ts` and `plan.ts` decide on
 * a {@link Transition}; `plan.ts` completes it to a {@link SpecChange}, which `apply/` only sends.
 */
import type { ShadowSpec } from '@brupop/shared/api/shadow';
import type { NodeView } from '../cluster/node.ts';
import type { ShadowView } from '../cluster/shadow.ts';
import { annotationsOf } from './attempts.ts';
import type { Blocked } from './reasons.ts';

/** What a change of a spec means. */
export type Outcome =
  /** A waiting node starts its update. */
  | 'Started'
  /** A step is complete, and the spec calls for the next one. */
  | 'Advanced'
  /** The node runs the new version and is healthy. */
  | 'Succeeded'
  /** The agent has reported a failure; it cleans up on Idle. */
  | 'Failed'
  /**
   * The step passed its deadline without a report of a failure: a staging or a drain, after which
   * no host goes down yet, or a monitoring that cannot succeed.
   */
  | 'Cancelled'
  /** Staged, but the node cannot or must not be drained now: another node goes first. */
  | 'Deferred'
  /** A user has interrupted updates. */
  | 'Interrupted'
  /** The configuration no longer allows this version. */
  | 'Superseded'
  /** A node at rest whose host gets other settings. */
  | 'Configured'
  /** This controller does not write such a spec: ErrorReset, no version, or no readable time. */
  | 'Repaired'
  /** The node is no longer managed. */
  | 'Released';

/** The next spec of a node. */
export interface Transition {
  readonly spec: ShadowSpec;
  readonly outcome: Outcome;
  /** Why the update is cancelled; or deferred, unless the pods on the node are the reason. */
  readonly because?: Pick<Blocked, 'reason' | 'message'>;
}

/** Reasons of the Events that this operator records on Nodes. `docs/runbook.md` explains each. */
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

/** An Event on a Node. */
export interface NodeEvent {
  readonly reason: EventReason;
  readonly node: NodeView;
  readonly shadow: ShadowView | undefined;
  readonly message: string;
  /** Tells it from others of the same reason on the same Node: the same key gives the same Event. */
  readonly key: string;
}

/** A change of a spec, complete. */
export interface SpecChange extends Transition {
  readonly shadow: ShadowView;
  readonly node: NodeView;
  /** Annotations of the shadow to set, or with null to remove. */
  readonly annotations: Readonly<Record<string, string | null>>;
  readonly event: NodeEvent | undefined;
}

/** Completes a transition of this shadow. */
export function specChange(transition: Transition, shadow: ShadowView, node: NodeView): SpecChange {
  const event = EVENTS[transition.outcome]?.(transition, shadow);
  const key = `${shadow.metadata.uid}/${shadow.metadata.generation ?? 0}`;
  return {
    ...transition,
    shadow,
    node,
    annotations: annotationsOf(transition, shadow),
    event: event && { ...event, node, shadow, key },
  };
}

type EventText = (transition: Transition, before: ShadowView) => Pick<NodeEvent, 'reason' | 'message'>;

/** The Events of the outcomes that get one. */
const EVENTS: Partial<Record<Outcome, EventText>> = {
  Started: ({ spec }, { status }) => ({
    reason: 'UpdateStarted',
    message: `Updates from ${status?.current_version ?? '?'} to ${spec.version ?? '?'}`,
  }),
  Cancelled: ({ because }) => ({
    reason: 'DeadlineExceeded',
    message: because?.message ?? 'A step of the update had no result within its limit',
  }),
  Deferred: ({ because }) => {
    const why = because?.message ?? 'The node cannot be drained now; its condition Progressing says why';
    return { reason: 'UpdateDeferred', message: `The staged update is deferred and starts again later. ${why}` };
  },
  Interrupted: () => ({
    reason: 'UpdateInterrupted',
    message: 'BrupopConfig "cluster" interrupts updates: this one is undone, and starts again after the pause',
  }),
  Superseded: (_, { spec }) => ({
    reason: 'UpdateSuperseded',
    message: `BrupopConfig "cluster" no longer allows ${spec.version ?? '?'}: this update is undone`,
  }),
  Succeeded: (_, { status }) => ({ reason: 'UpdateSucceeded', message: `Runs ${status?.current_version ?? '?'}` }),
  Failed: (_, { spec, status }) => {
    const { errorCode = 'no error code', message = 'no message' } = status?.lastOperation ?? {};
    return { reason: 'UpdateFailed', message: `The update to ${spec.version ?? '?'} failed: ${errorCode}: ${message}` };
  },
};
