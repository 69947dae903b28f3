/** How much of what others say goes into a message, characters. */
export const MAX_MESSAGE = 500;

/** Reasons of the Progressing condition of a shadow, and of waiting in the metrics. `docs/runbook.md` explains each. */
export const REASONS = [
  'UpToDate',
  'Updating',
  'WatchStale',
  'Paused',
  'InvalidConfiguration',
  'NotSelected',
  'Skipped',
  'InvalidVersion',
  'VersionDenied',
  'MinimumAgeNotReached',
  'VersionNotOffered',
  'HostSettingsNotApplied',
  'NodeNotReady',
  'CordonedExternally',
  'CleanupPending',
  'Backoff',
  'ManualRetryRequired',
  'SpecWriteRejected',
  'OutsideMaintenanceWindow',
  'Blackout',
  'WindowTooShort',
  'DrainBlocked',
  'WaitingForCapacity',
  'MaxUnavailableReached',
  'WaitingForZone',
  'PodListFailed',
  'AgentNotResponding',
  'DeadlineExceeded',
] as const;
export type Reason = (typeof REASONS)[number];

/** Why a node does not begin an update. */
export interface Blocked {
  readonly reason: Reason;
  readonly message: string;
  /** When it may be otherwise without anything else changing, epoch milliseconds. */
  readonly retryAt?: number;
  /** The pods on the node are to be looked up. */
  readonly lookUp?: boolean;
}
