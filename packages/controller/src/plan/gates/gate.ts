/** What a gate is, and what it evaluates. */
import type { Connectivity } from '../../cluster/connectivity.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import type { Drainable } from '../facts/drainability.ts';
import type { Checks } from '../facts/query-checks.ts';
import type { FrozenVersion } from '../facts/freezes.ts';
import type { Quorums } from '../facts/quorums.ts';
import type { Blocked, Candidate } from '../facts/reasons.ts';
import type { Workloads } from '../facts/workloads.ts';
import type { Moment } from '../../kept/moment.ts';

/** What is the same for all nodes. */
export interface FleetInput {
  /** Resources whose watch is stale. */
  readonly stale: readonly string[];
  readonly connectivity: Connectivity;
  readonly clockSkewMs: number | undefined;
  /** When the age of a version started, epoch milliseconds; undefined: too few nodes have it. */
  readonly offeredSince: (version: string) => number | undefined;
  readonly checks: Checks;
  readonly workloads: Workloads;
  readonly quorums: Quorums;
  readonly ownNamespace: string;
  /** Epoch milliseconds. */
  readonly now: number;
  /** The same, for questions about one node. */
  readonly moment: Moment;
}

export interface GateInput extends Candidate, FleetInput {
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
