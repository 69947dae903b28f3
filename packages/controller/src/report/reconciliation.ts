/**
 * Whether tools such as Argo CD and Flux are to wait for an object: the conditions Reconciling and Stalled, as the library
 * kstatus reads them. Each is absent unless it is True (ADR 57).
 *
 *     configuration, group    Reconciling   the spec has changed, and nodes are being changed or are next
 *                             Stalled       a user must act before the change, or the rollout, continues
 *                             neither       it is in effect, or waits for what it asks for, such as a window
 *     shadow                  Reconciling   the node is being changed, or is retried
 *                             Stalled       the node needs a user
 *                             neither       it is up to date, or waits
 */
import { namesOf } from '@brupop/shared/runtime/errors';
import type { ConditionReport } from '@brupop/shared/api/meta';
import type { ProgressingCondition } from '../plan/condition.ts';
import { evaluateSettings } from './group-settings.ts';
import { metadataApplied } from './metadata-condition.ts';
import { type Reason, traitsOf } from '../plan/facts/reasons.ts';
import { countsByReason, type GroupRollout, type Rollout } from './rollout.ts';

type Reconciliation = Partial<Record<'Reconciling' | 'Stalled', ConditionReport>>;

/** Of a node: whether its update and its settings are as they should be for now. */
export type Health = 'Ready' | 'Reconciling' | 'Stalled';

/** These are retried, or end soon by themselves. */
const RETRIED: ReadonlySet<Reason> = new Set([
  'ChangingSettings',
  'AgentNotConnected',
  'Backoff',
  'CheckFailed',
  'HookFailed',
  'CleanupPending',
]);

/** @param neverConnected - no agent has reported in time */
export function healthOf({ status, reason, waitingFor }: ProgressingCondition, neverConnected: boolean): Health {
  const { needsAttention = false, fleetWide = false } = traitsOf(reason);
  // One that failed before the drain is retried at a time.
  const isFinal = reason === 'CheckFailed' && waitingFor === reason;
  // What concerns the whole fleet is on the configuration.
  if (neverConnected || isFinal || (needsAttention && !fleetWide)) return 'Stalled';
  return status === 'True' || RETRIED.has(reason) ? 'Reconciling' : 'Ready';
}

interface Input {
  readonly generation: number;
  readonly isConfirmed: boolean;
  readonly isWritten: boolean;
}

/** @param needsUser - why nothing continues before a user acts */
export function reconciliationOf(
  { unconfirmed, isMoving, stuck, heldUp }: Rollout,
  { generation, isConfirmed, isWritten }: Input,
  needsUser: ConditionReport | undefined,
): Reconciliation {
  if (needsUser !== undefined) return { Stalled: { ...needsUser, status: 'True' } };
  if (isConfirmed) return {};
  const nodes = unconfirmed.length === 0 ? '' : ` by ${namesOf(unconfirmed)}`;
  const message = `Generation ${generation} is not confirmed yet${nodes}`;
  const needed = countsByReason(stuck).join(', ');
  const why = needed === '' ? heldUp && `${message}: ${heldUp}` : `${message}, of which need attention: ${needed}`;
  if (isMoving || (!isWritten && why === undefined))
    return { Reconciling: { status: 'True', reason: 'Applying', message } };
  return why === undefined ? {} : { Stalled: { status: 'True', reason: 'NodesNeedAttention', message: why } };
}

/** Why the spec of a group cannot take effect without a user. */
export function groupNeedsUser(rollout: GroupRollout, ready: ConditionReport): ConditionReport | undefined {
  if (ready.reason === 'InvalidConfiguration') return ready;
  const settings = evaluateSettings(rollout.settings);
  if (['SettingsFailed', 'SettingsRefused', 'SettingsConflict'].includes(settings.reason)) return settings;
  const metadata = metadataApplied(rollout);
  return metadata.reason === 'Conflict' || metadata.reason === 'WriteRejected' ? metadata : undefined;
}

/**
 * Conditions of the configuration with which nothing, or not what an entry asks for, continues before a user acts. A target
 * that does not exist is none: a tool that installs it only when the configuration is healthy would never do so.
 */
const NEED_USER = [
  'InvalidConfiguration',
  'ProgressDeadlineExceeded',
  'TargetNotAllowed',
  'TargetLosesVolumes',
  'NamespaceNotAllowed',
];

export function configNeedsUser(conditions: readonly ConditionReport[]): ConditionReport | undefined {
  return conditions.find(({ reason }) => NEED_USER.includes(reason));
}
