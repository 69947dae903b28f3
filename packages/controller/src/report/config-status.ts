/**
 * The status of the BrupopConfig, made from a plan: its conditions, the forecast of the rollout, and
 * what later plans must remember. `apply/brupop-config.ts` calls {@link statusOf} in each reconcile and
 * writes what differs. Times stay the same while nothing changes, since each difference is a write.
 */
import { createHash } from 'node:crypto';
import { CONFIG_KIND, NODE_GROUP_KIND } from '@brupop/shared/api/names';
import type {
  BrupopConfig,
  BrupopConfigStatus,
  DependentStatus,
  LANE,
  NotificationsStatus,
  QuorumStatus,
  VersionStatus,
} from '@brupop/shared/api/brupop-config';
import type { NodeGroupStatus } from '@brupop/shared/api/node-group';
import { isClockWrong } from '@brupop/shared/api/deadlines';
import type { Condition, ConditionReport } from '@brupop/shared/api/meta';
import { formatDuration } from '@brupop/shared/api/spec-schema';
import { sameVersion } from '@brupop/shared/api/version';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { printable } from '@brupop/shared/runtime/errors';
import { isWanted } from '../policy/policy.ts';
import { isEmpty } from '../policy/rendered.ts';
import type { FailedNode } from '../plan/facts/failed-nodes.ts';
import type { FrozenVersion } from '../plan/facts/freezes.ts';
import { isSameCount, shownCount } from '../plan/facts/quorums.ts';
import { CONDITIONS } from './config-conditions.ts';
import { describeFrozen } from './stopped-versions.ts';
import type { VersionCount } from '../plan/facts/versions.ts';
import type { WholePlan } from './report.ts';
import type { Progress } from './progress.ts';
import { configNeedsUser, reconciliationOf } from './reconciliation.ts';
import type { GroupRollout, Rollout } from './rollout.ts';
import { rolloutsOf } from './rollouts.ts';

/** Of what works beside the plan. Undefined: there is nothing to say. Unknown until this process has looked. */
export type BesideCondition = ConditionReport | 'unknown' | undefined;

export interface NotificationsReport {
  readonly condition: ConditionReport;
  readonly status: NotificationsStatus;
}

/** Undefined without receivers. Unknown until this process has looked. */
export type NotificationsShown = NotificationsReport | 'unknown' | undefined;

/** What is known about the dependents. Times of `dependents` are added when the status is written. */
export interface DependentsReport {
  readonly condition: ConditionReport;
  readonly dependents: readonly DependentStatus[];
  /** Of a loss of the cluster that has not ended, epoch milliseconds. */
  readonly clusterLostAt: number | undefined;
}

/** Undefined if there are none. Unknown until this process has looked. */
export type DependentsStatus = DependentsReport | 'unknown' | undefined;

/** What works beside the plan, and how it is. */
export interface BesideReports {
  /** Undefined: users provide the certificate. */
  readonly certificate?: BesideCondition;
  readonly dependents?: DependentsStatus;
  readonly recovery?: BesideCondition;
  readonly notifications?: NotificationsShown;
  /** Undefined without `spec.silences`. */
  readonly silences?: BesideCondition;
}

interface ReportInput extends BesideReports {
  readonly config: BrupopConfig;
  readonly plan: WholePlan;
  readonly before: BrupopConfigStatus | undefined;
  /** Everything that configuration and groups request is written. */
  readonly isWritten: boolean;
  readonly now: number;
  /** Of this program. */
  readonly release?: string;
}

export function statusOf(input: ReportInput): BrupopConfigStatus {
  const { config, plan, before, now, release, dependents, notifications } = input;
  const { generation = 0 } = config.metadata;
  const { policy, forecast, counts, clockSkewMs } = plan;
  const confirmed = confirmedOf(input);
  const isConfirmed = confirmed.confirmedGeneration === generation;
  const conditions = {
    ...evaluatedConditions(awaiting(plan, isConfirmed)),
    ...besides('CertificateReady', input.certificate, before),
    ...besides('DependentsAvailable', conditionIn(dependents), before),
    ...besides('RecoveryReady', input.recovery, before),
    ...besides('NotificationsReady', conditionIn(notifications), before),
    ...besides('SilencesReady', input.silences, before),
  };
  const needsUser = configNeedsUser(Object.values(conditions)) ?? freezeOf(plan);
  const state = reconciliationOf(plan, { generation, isConfirmed, isWritten: input.isWritten }, needsUser);
  return {
    ...(release !== undefined && { release }),
    observedGeneration: generation,
    ...confirmed,
    conditions: conditionsOf({ ...conditions, ...state }, before, { generation, now }),
    nodes: counts,
    versions: versionStatuses(forecast.versions, before?.versions ?? [], isClockWrong(clockSkewMs) ? undefined : now),
    ...failuresOf(plan),
    ...laneOf(plan),
    ...rolloutsOf(before, plan.releases, plan.edits, now),
    ...holdsOf(plan),
    ...quorumsOf(plan, before, now),
    ...dependentsOf(dependents, before, now),
    ...notificationsOf(notifications, before),
    ...windowOf(plan),
    ...(forecast.measuredMs !== undefined && { updateEstimate: formatDuration(forecast.measuredMs) }),
    ...expectedOf(forecast),
    ...(policy.inForce !== undefined && { inForce: policy.inForce }),
  };
}

/**
 * Undefined unless a node is to get a frozen version: a later release, a pin and versions.deny end that before the freeze is
 * forgotten. A stale watch, which the condition Frozen has first, changes nothing.
 */
function freezeOf({
  frozen: all,
  failed: nodes,
  forecast: { versions, reasons },
  policy,
}: WholePlan): ConditionReport | undefined {
  const isOffered = (frozen: string): boolean =>
    versions.some(({ version, offered }) => offered > 0 && sameVersion(version, frozen));
  const wanted = all.find(({ version }) => isWanted(version, policy.versions) && isOffered(version));
  const found = wanted ?? (reasons.has('Frozen') ? all[0] : undefined);
  if (found === undefined) return undefined;
  return { status: 'True', reason: 'FailureBudgetExceeded', message: describeFrozen(found, nodes) };
}

/** What is not known now stays as it was last seen. */
function quorumsOf(
  { policy, quorums: counts }: WholePlan,
  before: BrupopConfigStatus | undefined,
  now: number,
): Pick<BrupopConfigStatus, 'quorums'> {
  const quorums = policy.quorums.flatMap(({ name }): QuorumStatus[] => {
    const last = before?.quorums?.find((one) => one.name === name);
    const count = counts.find((one) => one.name === name);
    if (count === undefined) return last === undefined ? [] : [last];
    const found = shownCount(count);
    return [{ ...found, since: last !== undefined && isSameCount(found, last) ? last.since : rfc3339(now) }];
  });
  return quorums.length === 0 ? {} : { quorums };
}

/** Nodes are only named until the spec is in effect: later they confirm the steps of their updates. */
export function awaiting<R extends Rollout>(rollout: R, isConfirmed: boolean): R {
  return isConfirmed ? { ...rollout, unconfirmed: [] } : rollout;
}

export function isGroupInEffect(rollout: GroupRollout): boolean {
  const { group, policy, unconfirmed, metadata } = rollout;
  const isApplied = isRecorded(rollout) && metadata.pending.length + metadata.conflicts.length === 0;
  return group.problem === undefined && policy.problem === undefined && unconfirmed.length === 0 && isApplied;
}

/** Only then is it known which Nodes are still to be written. */
export function isRecorded({ group, metadata }: GroupRollout): boolean {
  return metadata.isRecorded || (isEmpty(group.rendering, true) && isEmpty(group.rendered, false));
}

type Confirmed = Pick<BrupopConfigStatus, 'confirmedGeneration' | 'childrenObservedGeneration' | 'observedDigest'>;

/** What is completely in effect; what is not stays as it was written before. */
function confirmedOf({ config, plan, before = {}, isWritten }: ReportInput): Confirmed {
  const { uid, generation = 0 } = config.metadata;
  const { policy, groups, unconfirmed } = plan;
  const { confirmedGeneration, childrenObservedGeneration, observedDigest } = before;
  const known = {
    ...(confirmedGeneration !== undefined && { confirmedGeneration }),
    ...(childrenObservedGeneration !== undefined && { childrenObservedGeneration }),
    ...(observedDigest !== undefined && { observedDigest }),
  };
  if (!isWritten || unconfirmed.length > 0 || policy.problem !== undefined) return known;
  if (!groups.every(isGroupInEffect)) return { ...known, confirmedGeneration: generation };
  const children = groups.map(({ group }) => `${NODE_GROUP_KIND} ${group.uid} ${group.generation}`);
  return {
    confirmedGeneration: generation,
    childrenObservedGeneration: groups.reduce((sum, { group }) => sum + group.generation, 0),
    // A sum alone would not show that one group was replaced by another.
    observedDigest: digestOf([`${CONFIG_KIND} ${uid} ${generation}`, ...children]),
  };
}

function digestOf(texts: readonly string[]): string {
  return createHash('sha256').update(texts.toSorted().join('\n')).digest('hex');
}

/** They keep their time of transition while their status stays. */
export function conditionsOf(
  conditions: Readonly<Record<string, ConditionReport>>,
  before: Reported,
  { generation, now }: { readonly generation: number; readonly now: number },
): Condition[] {
  return Object.entries(conditions).map(([type, { status, reason, message }]) => {
    const lastTransitionTime = transitionTime(lastOf(before, type), status, now);
    return { type, status, reason, message: printable(message), lastTransitionTime, observedGeneration: generation };
  });
}

export function transitionTime(
  before: Pick<Condition, 'status' | 'lastTransitionTime'> | undefined,
  status: Condition['status'],
  now: number,
): string {
  return before?.status === status ? before.lastTransitionTime : rfc3339(now);
}

type Reported = { readonly conditions?: readonly Condition[] } | undefined;

/** What the condition of each type says. */
function evaluatedConditions(plan: WholePlan): Readonly<Record<string, ConditionReport>> {
  return Object.fromEntries(
    Object.entries(CONDITIONS).map(([type, evaluate]): [string, ConditionReport] => [type, evaluate(plan)]),
  );
}

/** A condition that is not about the plan, as it was before while it is unknown; none if there is nothing to say. */
function besides(type: string, now: BesideCondition, before: Reported): Readonly<Record<string, ConditionReport>> {
  const known = now === 'unknown' ? lastOf(before, type) : now;
  if (known === undefined) return {};
  const { status, reason, message } = known;
  return { [type]: { status, reason, message } };
}

function conditionIn(report: DependentsStatus | NotificationsShown): BesideCondition {
  return typeof report === 'object' ? report.condition : report;
}

function notificationsOf(
  shown: NotificationsShown,
  before: BrupopConfigStatus | undefined,
): Pick<BrupopConfigStatus, 'notifications'> {
  const notifications = shown === 'unknown' ? before?.notifications : shown?.status;
  return notifications === undefined ? {} : { notifications };
}

function lastOf(before: Reported, wanted: string): Condition | undefined {
  return before?.conditions?.find(({ type }) => type === wanted);
}

/** Those of deleted Nodes are on record here only: a budget cannot count more of them. */
const MAX_FAILED = 1_000;
/** Of frozen versions, and of those whose canaries have succeeded. */
const MAX_RECORDED = 20;

function isDeleted({ deleted = false }: FailedNode): number {
  return Number(deleted);
}

/** Of too many, those of deleted Nodes are kept first: the others are on record in their shadows. */
function failuresOf({ failed }: WholePlan): Pick<BrupopConfigStatus, 'failedNodes'> {
  const kept = new Set(failed.toSorted((a, b) => isDeleted(b) - isDeleted(a)).slice(0, MAX_FAILED));
  const failedNodes = failed
    .filter((one) => kept.has(one))
    .map(({ since, ...one }) => ({ ...one, since: rfc3339(since) }));
  return failed.length > 0 ? { failedNodes } : {};
}

/** Two nodes that conspire may invent any number of versions, and fail with them. */
function byWitnesses(a: FrozenVersion, b: FrozenVersion): number {
  return Number(b.holdsOlder) - Number(a.holdsOlder) || a.since - b.since;
}

/** What is remembered of the versions of the fleet, or of a group. */
export function laneOf({
  frozen,
  canaries: completed,
  progress,
}: Pick<WholePlan, 'frozen' | 'canaries' | 'progress'>): Pick<NodeGroupStatus, keyof typeof LANE> {
  const kept = new Set(frozen.toSorted(byWitnesses).slice(0, MAX_RECORDED));
  const [frozenVersions, canaries] = [frozen.filter((one) => kept.has(one)), completed].map((versions) =>
    versions.slice(0, MAX_RECORDED).map(({ version, since }) => ({ version, since: rfc3339(since) })),
  );
  return {
    ...(frozen.length > 0 && { frozenVersions }),
    ...(completed.length > 0 && { canaries }),
    ...(progress !== undefined && { progress: statusOfProgress(progress) }),
  };
}

function holdsOf({ holds }: WholePlan): Pick<BrupopConfigStatus, 'heldVersions'> {
  const heldVersions = holds.slice(0, MAX_RECORDED).map(({ version, since }) => ({ version, since: rfc3339(since) }));
  return heldVersions.length === 0 ? {} : { heldVersions };
}

function statusOfProgress({
  lastProgressAt,
  countedMs,
  countedFrom,
}: Progress): NonNullable<BrupopConfigStatus['progress']> {
  return {
    lastProgressTime: rfc3339(lastProgressAt),
    countedSeconds: Math.floor(countedMs / 1000),
    ...(countedFrom !== undefined && { countedFrom: rfc3339(countedFrom) }),
  };
}

function dependentsOf(
  dependents: DependentsStatus,
  before: BrupopConfigStatus | undefined,
  now: number,
): Pick<BrupopConfigStatus, 'dependents' | 'clusterLostTime'> {
  const known = before?.dependents ?? [];
  const shown = dependents === 'unknown' ? known : (dependents?.dependents ?? []);
  if (shown.length === 0) return {};
  const lostTime = dependents === 'unknown' ? before?.clusterLostTime : lostTimeOf(dependents);
  const sinceOf = (one: DependentStatus): string | undefined => known.find((other) => isSameTarget(one, other))?.since;
  return {
    dependents: shown.map((one) =>
      one.replicas !== undefined ? { ...one, since: sinceOf(one) ?? rfc3339(now) } : one,
    ),
    ...(lostTime !== undefined && { clusterLostTime: lostTime }),
  };
}

function lostTimeOf(report: DependentsReport | undefined): string | undefined {
  return report?.clusterLostAt === undefined ? undefined : rfc3339(report.clusterLostAt);
}

function isSameTarget(one: DependentStatus, other: DependentStatus): boolean {
  return one.kind === other.kind && one.namespace === other.namespace && one.target === other.target;
}

export function windowOf({ policy, forecast: { window, nextOpenAt } }: Rollout): Pick<BrupopConfigStatus, 'window'> {
  if (policy.maintenance.windows.length === 0 && policy.maintenance.blackouts.length === 0) return {};
  const { open, until } = window;
  // Not an empty object: after another one, kube-apiserver makes null of it, which the schema rejects.
  if (open) return until === undefined ? {} : { window: { nextCloseTime: rfc3339(until) } };
  return nextOpenAt === undefined ? {} : { window: { nextOpenTime: rfc3339(nextOpenAt) } };
}

export function expectedOf({
  queue,
  completionTime,
}: Rollout['forecast']): Pick<BrupopConfigStatus, 'expectedCompletionTime' | 'plan'> {
  return {
    ...(completionTime !== undefined && { expectedCompletionTime: completionTime }),
    plan: queue,
  };
}

const MAX_VERSIONS = 50;
const byNumber = new Intl.Collator('en', { numeric: true });

/**
 * Returns the versions for the status, newest first. The age of a version starts when a second node
 * runs it or is offered it, and is reset when fewer do.
 * @param now - epoch milliseconds; undefined while the clock is wrong: no age starts then
 */
function versionStatuses(
  counts: readonly VersionCount[],
  before: readonly VersionStatus[],
  now: number | undefined,
): VersionStatus[] {
  const current = counts.map(({ hasAge, ...count }): VersionStatus => {
    if (!hasAge) return count;
    const known = before.find(({ version }) => sameVersion(version, count.version))?.firstOfferedTime;
    if (known !== undefined && parseTime(known) !== undefined) return { ...count, firstOfferedTime: known };
    return now === undefined ? count : { ...count, firstOfferedTime: rfc3339(now) };
  });
  return current.toSorted(mostNodesFirst).slice(0, MAX_VERSIONS).toSorted(newestFirst);
}

function mostNodesFirst(a: VersionStatus, b: VersionStatus): number {
  return b.running + b.offered - (a.running + a.offered) || newestFirst(a, b);
}

function newestFirst(a: VersionStatus, b: VersionStatus): number {
  return byNumber.compare(b.version, a.version);
}
