/** Reasons of the Progressing condition of a shadow, and of waiting in the metrics. */
export type Reason =
  | 'UpToDate'
  | 'Updating'
  | 'Paused'
  | 'InvalidConfig'
  | 'UnreadableVersion'
  | 'NodeNotReady'
  | 'CordonedByOthers'
  | 'RestorePending'
  | 'Backoff'
  | 'NotRetried'
  | 'SpecRefused'
  | 'WaitingForCapacity'
  | 'AgentNotResponding'
  | 'DeadlineExceeded';

/** Why a node does not begin an update. */
export interface Wait {
  readonly reason: Reason;
  readonly message: string;
  /** When it may be otherwise without anything else changing, epoch milliseconds. */
  readonly retryAt?: number;
}
