/**
 * What the record of a node says about earlier attempts, and about the way back from one that failed; `record-after.ts`
 * writes it.
 *
 * It counts the attempts that failed or were cancelled, in total and with one version; a success removes both counts.
 * The agent also counts its failures (`status.crash_count`), but may report anything, so its count can only increase
 * the result.
 *
 * A node goes back to its previous version when it was not healthy in time after its update (`spec.rollout.rollback:
 * Automatic`). The host API has no route for that, so it is another update: the version lock of the host names the
 * previous version, and the node is staged, drained and rebooted as for any other. `rollback` in the record of the node
 * says how far it is:
 *
 *     pending       the node runs FAILED: it holds its update slot, and its policy has PREVIOUS as the pin
 *     under way     an update to PREVIOUS
 *     done          `isDone`: FAILED is not tried again on this node, whatever its agent reports
 *     ended         nothing is on record: a user turned it off, accepted the failure with `rollout.resume` or
 *                   pinned another version before the end of the drain, or another update has started
 *
 * It happens once: a node that is not healthy on PREVIOUS either stays as it is.
 */
import { isVersion, sameVersion } from '@brupop/shared/api/version';
import { isManaged } from '../../cluster/node.ts';
import type { Rollback, ShadowView } from '../../cluster/shadow.ts';
import type { NodePair } from '../../cluster/snapshot.ts';
import { settingsOfVersions, type UpdatePolicy } from '../../policy/policy.ts';
import { hasReached } from '../../cluster/state.ts';
import { isAccepted } from './deadlines.ts';
import { ownSettings } from './settings.ts';
import type { Moment } from '../../kept/moment.ts';

/** Returns the number of consecutive attempts without a success. */
export function failures(shadow: Pick<ShadowView, 'record' | 'status'>): number {
  const { crash_count = 0 } = shadow.status ?? {};
  return Math.max(shadow.record.unsuccessful ?? 0, crash_count - (isOutdated(shadow) ? 1 : 0));
}

/** True when the latest attempt failed only because the host now offers another version, or none. */
function isOutdated({ status }: Pick<ShadowView, 'status'>): boolean {
  const { lastOperation: last, target_version: offered = '' } = status ?? {};
  if (last?.state !== 'Failed' || last.errorCode !== 'VersionNotOffered') return false;
  return isVersion(offered) && !sameVersion(offered, last.version);
}

/** Only the first one since the latest success is no failure, because an agent may report it each time. */
export function isWithdrawal(shadow: ShadowView): boolean {
  return shadow.spec.state === 'StagedAndPerformedUpdate' && isOutdated(shadow) && (shadow.record.withdrawn ?? 0) === 0;
}

/** How many attempts with `version` failed or were cancelled since the latest success. */
export function attempts({ record }: ShadowView, version: string): number {
  return sameVersion(record.attempts?.version, version) ? (record.attempts?.count ?? 0) : 0;
}

/** How long the host may take to offer the previous version, until the node counts as stuck. */
export const START_LIMIT_MS = 30 * 60_000;

/** Returns the rollback of a node that still runs the version that failed. */
export function pendingRollback(shadow: ShadowView, policy: UpdatePolicy, now: Moment): Rollback | undefined {
  const rollback = shadow.rollback;
  if (rollback === undefined || rollback.isDone || !isRollbackWanted(shadow, policy, now)) return undefined;
  return sameVersion(shadow.status?.current_version, rollback.failed) ? rollback : undefined;
}

/** False when a user has turned rollbacks off, accepted the failure, or pinned another version. */
export function isRollbackWanted(shadow: ShadowView, policy: UpdatePolicy, now: Moment): boolean {
  const { failed, previous, since = now.ms } = shadow.rollback ?? {};
  const { pin } = policy.versions;
  const isPinned = pin !== undefined && !sameVersion(pin, failed) && !sameVersion(pin, previous);
  return policy.rollout.rollback === 'Automatic' && !isPinned && !isAccepted(since, policy, now);
}

/** True of a node at rest whose record has a rollback that a user has ended, or whose update had no success. */
export function hasRollbackEnded(
  { node, shadow }: Pick<NodePair, 'node' | 'shadow'>,
  rules: UpdatePolicy,
  now: Moment,
): boolean {
  const isOpen = shadow.record.rollback?.isDone === false;
  return isOpen && (!isManaged(node) || pendingRollback(shadow, rules, now) === undefined);
}

/** True when the record says that the node goes or went to `version` from one that failed. */
export function isPrevious(shadow: ShadowView, version: string): boolean {
  return sameVersion(shadow.rollback?.previous, version);
}

/** Returns the rollback that is pending or under way. */
export function currentRollback(shadow: ShadowView, policy: UpdatePolicy, now: Moment): Rollback | undefined {
  return shadow.purpose === 'Rollback' ? shadow.rollback : pendingRollback(shadow, policy, now);
}

/** Returns the version to go back to from a failed update, or undefined. */
export function previousVersion(shadow: ShadowView, { rollout }: UpdatePolicy): string | undefined {
  const { from: previous = '' } = shadow.record;
  const { spec, status } = shadow;
  const runsFailed = hasReached(shadow) && sameVersion(status?.current_version, spec.version);
  if (rollout.rollback !== 'Automatic' || !runsFailed || shadow.purpose === 'Rollback') return undefined;
  return isVersion(previous) && !sameVersion(previous, spec.version) ? previous : undefined;
}

/** Only for this node: its host is locked to the previous version, whatever `spec.versions` says, and without checks. */
export function rollbackPolicy(policy: UpdatePolicy, previous: string): UpdatePolicy {
  const versions = { ...policy.versions, pin: previous, deny: [] };
  const health = { ...policy.health, checks: [] };
  const updater = settingsOfVersions({ pin: previous, ignoreWaves: true });
  return { ...policy, versions, health, settings: [...updater, ...ownSettings(policy.settings)] };
}
