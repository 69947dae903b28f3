import type { ShadowStatus } from '@brupop/shared/api/shadow';
import type { NodeView } from '../../cluster/node.ts';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import type { Drainable } from '../drainability.ts';
import type { Blocked } from '../reasons.ts';

/** A managed node that is to run another version than it does. */
export interface Candidate {
  readonly node: NodeView;
  readonly shadow: ShadowView;
  readonly status: ShadowStatus;
  /** The version that it would go to. */
  readonly version: string;
  /** Why the API server has just refused a spec for the shadow. */
  readonly writeRejection?: string | undefined;
}

export interface GateInput {
  readonly candidate: Candidate;
  readonly policy: UpdatePolicy;
  /** Resources of which nothing was heard for too long. */
  readonly stale: readonly string[];
  /** Why there is no place for this node among those that are away, or undefined. */
  readonly capacity: Blocked | undefined;
  /** Since when a version is on offer in this cluster, epoch milliseconds; undefined: since now. */
  readonly offeredSince: (version: string) => number | undefined;
  /** How long a window must still be open, milliseconds. */
  readonly needMs: number;
  readonly drain: Drainable;
  readonly now: number;
}

/** One condition for a node to begin its update: undefined lets it pass. */
export type Gate = (input: GateInput) => Blocked | undefined;
