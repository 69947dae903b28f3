/** What a gate is, and what it evaluates. */
import type { UpdatePolicy } from '../../policy/policy.ts';
import type { Drainable } from '../facts/drainability.ts';
import type { FrozenVersion } from '../facts/freezes.ts';
import type { Blocked, Candidate } from '../facts/reasons.ts';
import type { FleetState } from '../fleet/fleet-state.ts';

/** What is the same for all nodes. */
type OfFleet = Pick<
  FleetState,
  'stale' | 'connectivity' | 'clockSkewMs' | 'offeredSince' | 'ownNamespace' | 'now' | 'moment'
> &
  Pick<FleetState, 'checks' | 'workloads' | 'quorums'>;

export interface GateInput extends Candidate, OfFleet {
  readonly capacity: Blocked | undefined;
  /** Other nodes prove the version or the settings first, or a user has not approved the version. */
  readonly othersFirst: Blocked | undefined;
  /** Another node of the control plane is updating or not Ready. */
  readonly controlPlane: Blocked | undefined;
  /** The versions that too many nodes failed with. */
  readonly frozen: readonly FrozenVersion[];
  /** How long a window must still be open, milliseconds. */
  readonly needMs: number;
  readonly drain: () => Drainable;
  /** Workloads fail on nodes that run the version. */
  readonly held: Blocked | undefined;
  /** Why that is not known yet of the first nodes that run it. */
  readonly unobserved: () => Blocked | undefined;
  /** That of the fleet, whatever the node's group overrides. */
  readonly fleet: UpdatePolicy;
}

/** Returns why a node waits; undefined: it passes. */
export type Gate = (input: GateInput) => Blocked | undefined;
