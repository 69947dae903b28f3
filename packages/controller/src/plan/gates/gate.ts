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
  readonly version: string;
  readonly writeRejection?: string | undefined;
}

export interface GateInput {
  readonly candidate: Candidate;
  readonly policy: UpdatePolicy;
  readonly stale: readonly string[];
  readonly capacity: Blocked | undefined;
  /** When a version was first available in this cluster, epoch milliseconds; undefined: now. */
  readonly offeredSince: (version: string) => number | undefined;
  /** How long a window must still be open, milliseconds. */
  readonly needMs: number;
  readonly drain: Drainable;
  readonly now: number;
}

/** Returns why a node waits; undefined: it passes. */
export type Gate = (input: GateInput) => Blocked | undefined;
