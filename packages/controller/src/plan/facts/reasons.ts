/**
 * What starts, and why it does not: the candidates, and the reasons for which nodes wait. The table says what follows from
 * each reason elsewhere: in the forecast, in the `waitingFor` column, in the taint of waiting nodes
 * and in the fleet's Degraded condition. A new reason needs a row here, and an entry in
 * `docs/runbook.md`.
 */
import type { ShadowStatus } from '@brupop/shared/api/shadow';
import type { NodePair } from '../../cluster/snapshot.ts';

/** Characters of another program's message that a message of this operator quotes. */
export const MAX_MESSAGE = 500;

export interface ReasonTraits {
  /**
   * What ends it. `capacity`: another node releases its slot. `time`: the clock; `retryAt` says
   * when. `event`: the node, its agent or its pods change. `manual`: a user changes something.
   */
  readonly passes: 'capacity' | 'time' | 'event' | 'manual';
  readonly fleetWide?: true;
  readonly needsAttention?: true;
  /** A node that waits for it is not about to be drained, so it gets no taint of waiting nodes. */
  readonly withoutTaint?: true;
  /** The configuration or a user asks for it: a rollout that waits for it is not late. */
  readonly isIntended?: true;
}

/** Every reason of the Progressing condition of a shadow and of `brupop_waiting_nodes`. */
export const REASONS = {
  UpToDate: { passes: 'event' },
  Updating: { passes: 'event' },
  WatchStale: { passes: 'event', fleetWide: true },
  ConnectivityLost: { passes: 'event', fleetWide: true, needsAttention: true },
  ClockSkew: { passes: 'event', fleetWide: true, needsAttention: true },
  Paused: { passes: 'manual', fleetWide: true, isIntended: true },
  InvalidConfiguration: { passes: 'manual', fleetWide: true },
  Frozen: { passes: 'manual', fleetWide: true, needsAttention: true, isIntended: true },
  Held: { passes: 'time', fleetWide: true, needsAttention: true, isIntended: true },
  WaitingForCanary: { passes: 'event', fleetWide: true, withoutTaint: true },
  Soaking: { passes: 'time', fleetWide: true, withoutTaint: true },
  WaitingForApproval: { passes: 'manual', fleetWide: true, withoutTaint: true, isIntended: true },
  WaitingForNodeGroup: { passes: 'event', withoutTaint: true },
  NotSelected: { passes: 'manual', withoutTaint: true, isIntended: true },
  Skipped: { passes: 'manual', withoutTaint: true, isIntended: true },
  InvalidVersion: { passes: 'manual', needsAttention: true },
  VersionDenied: { passes: 'manual', withoutTaint: true, isIntended: true },
  MinimumAgeNotReached: { passes: 'time', isIntended: true },
  VersionNotOffered: { passes: 'manual', needsAttention: true, withoutTaint: true },
  HostSettingsNotApplied: { passes: 'manual', needsAttention: true },
  UpdateCheckFailed: { passes: 'event', needsAttention: true, withoutTaint: true },
  HostLocked: { passes: 'manual', needsAttention: true, withoutTaint: true },
  ChangingSettings: { passes: 'time' },
  SettingsConflict: { passes: 'manual', withoutTaint: true },
  NodeNotReady: { passes: 'event' },
  NodeUnhealthy: { passes: 'event' },
  CordonedExternally: { passes: 'manual', isIntended: true },
  CleanupPending: { passes: 'event' },
  Backoff: { passes: 'time' },
  ManualRetryRequired: { passes: 'manual', needsAttention: true, withoutTaint: true },
  Aborted: { passes: 'manual', withoutTaint: true, isIntended: true },
  SpecWriteRejected: { passes: 'manual', needsAttention: true },
  OutsideMaintenanceWindow: { passes: 'time', fleetWide: true, isIntended: true },
  Blackout: { passes: 'time', fleetWide: true, isIntended: true },
  WindowTooShort: { passes: 'manual', needsAttention: true },
  Reverted: { passes: 'manual', needsAttention: true, withoutTaint: true },
  CheckNotPassed: { passes: 'event', fleetWide: true },
  CheckFailed: { passes: 'time' },
  HookFailed: { passes: 'time' },
  DrainBlocked: { passes: 'event' },
  WorkloadsNotReady: { passes: 'event' },
  WaitingForCapacity: { passes: 'capacity' },
  MaxUnavailableReached: { passes: 'capacity' },
  WaitingForZone: { passes: 'capacity' },
  WaitingForControlPlane: { passes: 'capacity' },
  QuorumAtRisk: { passes: 'event' },
  PodListFailed: { passes: 'time' },
  AgentNotConnected: { passes: 'event', withoutTaint: true },
  AgentNotResponding: { passes: 'event', needsAttention: true },
  DeadlineExceeded: { passes: 'event', needsAttention: true },
} as const satisfies Record<string, ReasonTraits>;
export type Reason = keyof typeof REASONS;

export function traitsOf(reason: Reason): ReasonTraits {
  return REASONS[reason];
}

/** True for a reason of this release: a shadow may carry one of another. */
export function isReason(text: string | undefined): text is Reason {
  return text !== undefined && Object.hasOwn(REASONS, text);
}

export interface Blocked {
  readonly reason: Reason;
  readonly message: string;
  /** Epoch milliseconds. */
  readonly retryAt?: number;
  readonly lookUp?: boolean;
  /** It concerns all nodes alike: no other one goes first. */
  readonly keepsPosition?: boolean;
  /** Known in a moment: nothing is concluded from it. */
  readonly isUnknown?: boolean;
  /** Among what takes the slots is a node that may need a user, if all that hold one do. */
  readonly byStuck?: boolean;
  /** From now on the node waits for unhealthy pods, which is to be recorded. */
  readonly startsWaiting?: boolean;
}

export function specRejected(writeRejection: string): Blocked {
  return { reason: 'SpecWriteRejected', message: `The spec could not be written: ${writeRejection}` };
}

export function failureReason(kind: 'check' | 'hook'): 'CheckFailed' | 'HookFailed' {
  return kind === 'check' ? 'CheckFailed' : 'HookFailed';
}

/** A managed node that is to run another version than it does, or to reboot. */
export interface Candidate extends NodePair {
  readonly status: ShadowStatus;
  readonly version: string;
  /** It goes back to its previous version, or to the settings from before others that failed: it holds its slot. */
  readonly isRollback: boolean;
  /** It runs the version, and is rebooted for its settings. */
  readonly isReboot: boolean;
  /** That reboot replaces settings which the host has not proved, such as those with which its Node is not Ready. */
  readonly isRepair?: boolean;
  /** A user asks for it with the annotation `update-now`: it goes before others, and waits for no window. */
  readonly isRequested?: boolean;
}

/** Returns the first answer, such as that of the first gate that does not pass; those after it are not asked. */
export function firstOf<I, A>(asked: readonly ((input: I) => A | undefined)[], input: I): A | undefined {
  for (const one of asked) {
    const answer = one(input);
    if (answer !== undefined) return answer;
  }
  return undefined;
}
