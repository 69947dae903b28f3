/** How an attempt goes on or ends. `transition.ts` and `plan.ts` decide on a {@link Transition}. */
import type { NodeRecord } from '@brupop/shared/api/record';
import type { ShadowSpec } from '@brupop/shared/api/shadow';
import type { WrittenJobs } from './facts/jobs.ts';
import type { Blocked } from './gates/reasons.ts';

export type Outcome =
  /** A waiting node starts its update. */
  | 'Started'
  /** A step is complete, and the spec calls for the next one. */
  | 'Advanced'
  /** The node runs the new version and is healthy. */
  | 'Succeeded'
  /** The agent has reported a failure; it cleans up on Idle. */
  | 'Failed'
  /** The host no longer offers the version: no failure. The node starts again with the version that is offered. */
  | 'Withdrawn'
  /**
   * The step passed its deadline without a report of a failure: a staging or a drain, after which
   * no host goes down yet, or a monitoring that cannot succeed.
   */
  | 'Cancelled'
  /** The new version was not healthy in time: the node goes back to its previous one. */
  | 'Reverting'
  /** The node runs its previous version again, and is healthy. */
  | 'Reverted'
  /** The Job of a check failed after the update. */
  | 'CheckFailed'
  /** Staged, but the node cannot or must not be drained now: another node goes first. */
  | 'Deferred'
  /** A user has interrupted updates. */
  | 'Interrupted'
  /** The configuration no longer allows this version. */
  | 'Superseded'
  /** The host did not get its settings, or the node was not Ready with them: the former ones are restored. */
  | 'SettingsFailed'
  /** A node at rest whose host gets other settings. */
  | 'Configured'
  /** This controller does not write such a spec: ErrorReset, no version, or no readable time. */
  | 'Repaired'
  /** The node is no longer managed. */
  | 'Released';

export interface Transition {
  readonly spec: ShadowSpec;
  readonly outcome: Outcome;
  /** Why the update is cancelled; or deferred, unless the pods on the node are the reason. */
  readonly because?: Pick<Blocked, 'reason' | 'message'>;
  /** At the start of a drain: what is not healthy on the node. */
  readonly unreadyBefore?: readonly string[];
  /** At the start of a drain: the workloads that must be Ready again after the update. */
  readonly evictedWorkloads?: readonly string[];
  /** The host has proved the settings of its group. */
  readonly proves?: boolean;
  /** The hash of the settings that failed. */
  readonly failedSettings?: string | undefined;
  /** The version to go back to. */
  readonly previous?: string;
  /** Connectivity was lost during the update, so its duration says nothing. */
  readonly wasSuspended?: boolean;
  /** Started although disruption budgets hold pods of the node. */
  readonly isBlocked?: boolean;
  /** At a start and an end: the node gets back what it had before settings that failed. */
  readonly restores?: boolean;
  /** At a start: the group that the node is in. */
  readonly group?: string | undefined;
  /** At a start: the members of quorums on the node. */
  readonly members?: NonNullable<NodeRecord['members']>;
  /** The Jobs on record; null: none. */
  readonly jobs?: WrittenJobs;
}
