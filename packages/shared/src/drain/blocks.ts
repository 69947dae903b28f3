/** Why a pod is still on the node, or what its leaving waits for. `docs/runbook.md` explains each. */
export const BLOCK_REASONS = [
  'DisruptionBudget',
  'MultipleDisruptionBudgets',
  'BlockedByPolicy',
  'Forbidden',
  'Terminating',
  'TerminationStuck',
  'NamespaceTerminating',
  'Throttled',
  'VolumeDetach',
  'Replacement',
  'Error',
] as const;
export type BlockReason = (typeof BLOCK_REASONS)[number];

/** What one pod makes a drain wait for. */
export interface DrainBlock {
  /** `namespace/name` */
  readonly pod: string;
  readonly reason: BlockReason;
  readonly message: string;
  /** Names of the disruption budgets that hold the pod up, in its namespace. */
  readonly podDisruptionBudgets?: readonly string[];
}
