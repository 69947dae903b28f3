import type { Registry } from 'prom-client';
import { CONFIG_KIND, NODE_GROUP_KIND } from '@brupop/shared/api/names';
import { BLOCK_REASONS } from '@brupop/shared/api/shadow';
import { releaseOf } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import { BoundedLabels, createFrom, MAX_VERSIONS } from '@brupop/shared/runtime/metrics';
import { lostZones } from './cluster/connectivity.ts';
import { membersKey } from './cluster/member-pods.ts';
import { isManaged, type NodeView, zoneOf } from './cluster/node.ts';
import { blockOf, type ShadowView, showsStalled } from './cluster/shadow.ts';
import { isPair, type ManagedNode, type Snapshot, type WatchLag } from './cluster/snapshot.ts';
import { METRICS } from './metrics-table.ts';
import { type FailedNode, isFailureCode } from './plan/facts/failed-nodes.ts';
import type { FrozenVersion } from './plan/facts/freezes.ts';
import { isReason, type Reason } from './plan/facts/reasons.ts';
import { nodesAtOnce, type UpdatePolicy } from './policy/policy.ts';
import type { NodeCondition } from './report/node-conditions.ts';
import type { WholePlan } from './report/report.ts';
import type { Rollout } from './report/rollout.ts';
import { type SpecChange, stepSeconds, transitionOf } from './plan/specs/spec-change.ts';

const STEPS = ['StagedAndPerformedUpdate', 'RebootedIntoUpdate', 'MonitoringUpdate'] as const;

type FleetMetrics = ReturnType<typeof createFrom<typeof METRICS>>;

export interface Metrics extends FleetMetrics {
  readonly versionLabels: BoundedLabels;
  /** Names of receivers of notifications. */
  readonly receiverLabels: BoundedLabels;
}

/** What is read for each scrape. */
interface Sources {
  readonly watchLags: () => readonly WatchLag[];
  /** By kind. */
  readonly pendingWrites: () => ReadonlyMap<string, number>;
  /** What the leader has planned last; undefined: this process does not lead. */
  readonly planned: () => Planned | undefined;
}
/** Of receivers that a process has had. */
const MAX_NAMES = 20;
const NO_SOURCES: Sources = { watchLags: () => [], pendingWrites: () => new Map(), planned: () => undefined };

export interface Planned {
  readonly snapshot: Pick<Snapshot, 'managedNodes' | 'config'>;
  readonly made: WholePlan;
}

export function createMetrics(registry: Registry, sources: Sources = NO_SOURCES): Metrics {
  const watchLag = (): void => {
    for (const { resource, ms } of sources.watchLags()) metrics.watchLag.set({ resource }, ms / 1000);
  };
  const pendingWrites = (): void => {
    metrics.pendingWrites.reset();
    for (const [kind, count] of sources.pendingWrites()) metrics.pendingWrites.set({ kind }, count);
  };
  // Weak: a plan has all that was found of the fleet, which would be in memory twice.
  const shown = new WeakSet<Planned>();
  // Counting a large fleet costs as much as a plan: once for each scrape that finds another one.
  const fleet = (): void => {
    const planned = sources.planned();
    if (planned === undefined || shown.has(planned)) return;
    showFleet(metrics, planned);
    shown.add(planned);
  };
  const ofFleet = Object.fromEntries(OF_FLEET.map((name) => [name, fleet]));
  const metrics = createFrom(METRICS, registry, { watchLag, pendingWrites, ...ofFleet });
  // From the start, so that a rate sees the first step.
  for (const state of STEPS) {
    metrics.stepDuration.zero({ state });
    metrics.deadlineExceeded.inc({ state }, 0);
  }
  return { ...metrics, versionLabels: new BoundedLabels(MAX_VERSIONS), receiverLabels: new BoundedLabels(MAX_NAMES) };
}

/** What the latest plan counted: only the leader has values, so that sums over the replicas are right. */
const OF_FLEET = [
  'observedGeneration',
  'nodes',
  'rolloutNodes',
  'hostsState',
  'hostsVersion',
  'waiting',
  'failedNodes',
  'failureBudget',
  'frozenVersions',
  'heldVersions',
  'suspectNodes',
  'paused',
  'windowOpen',
  'blackout',
  'nextOpen',
  'nextClose',
  'expectedCompletion',
  'blockedDrains',
  'blockedSince',
  'invalid',
  'rolloutLate',
  'lostNodes',
  'quorumMembers',
  'countedLeases',
  'expiredLeases',
  'connectivityLost',
] as const satisfies readonly (keyof typeof METRICS)[];

function showFleet(metrics: FleetMetrics, { snapshot: { managedNodes, config }, made }: Planned): void {
  const { connectivity, progress, policy } = made;
  resetFleet(metrics);
  metrics.observedGeneration.set(config?.metadata.generation ?? 0);
  const labels = labelsOf(made);
  for (const managedNode of managedNodes) countNode(metrics, managedNode, labels);
  countWaiting(metrics, { managedNodes }, made, labels);
  countBlocked(metrics, made);
  countInvalid(metrics, made);
  showFailures(metrics, made, labels.versions);
  showPhases(metrics, made, labels.groups);
  showRollout(metrics, made);
  for (const { group, ...rollout } of made.groups) showRollout(metrics, rollout, labels.groups.of(group.name));
  metrics.paused.set(policy.paused ? 1 : 0);
  metrics.rolloutLate.set([progress, ...made.groups.map((one) => one.progress)].some((one) => one?.isLate) ? 1 : 0);
  metrics.lostNodes.set(made.lost.length);
  showQuorums(metrics, made);
  metrics.expiredLeases.set(connectivity.expired.length);
  metrics.countedLeases.set(connectivity.counted);
  metrics.connectivityLost.set(connectivity.lost || lostZones(connectivity).length > 0 ? 1 : 0);
}

function resetFleet(metrics: FleetMetrics): void {
  for (const name of OF_FLEET) metrics[name].reset();
}

/** Zones, and groups. */
const MAX_PLACES = 50;

interface Labels {
  readonly versions: BoundedLabels;
  readonly groups: BoundedLabels;
  readonly zones: BoundedLabels;
}

/**
 * Frozen versions, and then those of most nodes, have names. So do the groups that claim nodes first, of those that have some
 * before the others: by the order of the nodes, which come and go, it would always be other groups.
 */
function labelsOf({ forecast, ...made }: WholePlan): Labels {
  const versions = new BoundedLabels(MAX_VERSIONS);
  const byNodes = forecast.versions.toSorted((a, b) => b.running + b.offered - a.running - a.offered);
  for (const { version } of [...allFrozen(made), ...byNodes]) versions.of(version);
  const groups = new BoundedLabels(MAX_PLACES);
  const byUse = made.groups.toSorted((a, b) => Number(b.counts.managed > 0) - Number(a.counts.managed > 0));
  for (const { group } of byUse) groups.of(group.name);
  return { versions, groups, zones: new BoundedLabels(MAX_PLACES) };
}

/** For the fleet, or for a group. */
function allFrozen({ frozen, groups }: Pick<WholePlan, 'frozen' | 'groups'>): WholePlan['frozen'] {
  return [...frozen, ...groups.flatMap((one) => one.frozen)];
}

function placeOf(node: NodeView, group = '', { groups, zones }: Labels): { group: string; zone: string } {
  return { group: groups.of(group), zone: zones.of(zoneOf(node)) };
}

function countNode(metrics: FleetMetrics, { node, shadow, group }: ManagedNode, labels: Labels): void {
  const { status, spec } = shadow ?? {};
  const version = labels.versions.of(status?.current_version ?? '');
  if (node !== undefined && isManaged(node)) {
    metrics.nodes.inc({ state: spec?.state ?? 'NoShadow', version, ...placeOf(node, group?.name, labels) });
  }
  if (status === undefined) return;
  metrics.hostsState.inc({ state: status.current_state });
  metrics.hostsVersion.inc({ bottlerocket_version: version });
}

/** What a plan says of a node, or its shadow. */
type Shown = Pick<NodeCondition, 'progressing' | 'health'> | Pick<ShadowView, 'progressing' | 'health'>;

/** While its pods are listed, or its agent confirms a spec, the plan has no condition of a node: its shadow has the one before. */
function countWaiting(
  metrics: FleetMetrics,
  { managedNodes }: Pick<Snapshot, 'managedNodes'>,
  { conditions }: WholePlan,
  labels: Labels,
): void {
  const planned = new Map(conditions.flat().map((one) => [one.shadow.metadata.uid, one]));
  for (const managedNode of managedNodes) {
    if (!isPair(managedNode) || !isManaged(managedNode.node)) continue;
    const { node, shadow, group } = managedNode;
    const reason = reasonOf(planned.get(shadow.metadata.uid) ?? shadow);
    if (reason !== undefined) metrics.waiting.inc({ reason, ...placeOf(node, group?.name, labels) });
  }
}

/** Why a node waits; undefined: it does not. */
function reasonOf({ progressing, health }: Shown): Reason | undefined {
  const reason = progressing?.reason;
  const isStalled = typeof health === 'string' ? health === 'Stalled' : showsStalled({ health });
  // In a cluster that grows, there is always a node whose agent is about to connect.
  if (reason === 'AgentNotConnected' && !isStalled) return undefined;
  return isReason(reason) && reason !== 'UpToDate' && reason !== 'Updating' ? reason : undefined;
}

/** There is always a drain that waits while many go on, so the longest wait counts for the alert. */
function countBlocked(metrics: FleetMetrics, { conditions }: WholePlan): void {
  const longest = new Map<string, number>();
  for (const { shadow } of conditions.flat()) {
    const block = blockOf(shadow);
    if (block === undefined) continue;
    const reason = BLOCK_REASONS.find((one) => one === block.reason) ?? 'other';
    metrics.blockedDrains.inc({ reason });
    const since = parseTime(block.since);
    if (since !== undefined) longest.set(reason, Math.min(since, longest.get(reason) ?? since));
  }
  for (const [reason, since] of longest) metrics.blockedSince.set({ reason }, since / 1000);
}

function countInvalid({ invalid }: FleetMetrics, { policy, groups }: WholePlan): void {
  invalid.set({ kind: CONFIG_KIND }, policy.problem === undefined ? 0 : 1);
  invalid.set({ kind: NODE_GROUP_KIND }, groups.filter(({ group }) => group.problem !== undefined).length);
}

function showFailures(
  metrics: FleetMetrics,
  { failed, frozen, holds, suspects, policy, counts, groups }: WholePlan,
  versions: BoundedLabels,
): void {
  for (const { version, code } of failed)
    metrics.failedNodes.inc({ version: versions.of(version), code: isFailureCode(code) ? code : 'other' });
  for (const { version } of allFrozen({ frozen, groups }))
    metrics.frozenVersions.set({ version: versions.of(version) }, 1);
  for (const { version } of holds.filter((one) => one.suspects.length > 0))
    metrics.heldVersions.set({ version: versions.of(version) }, 1);
  metrics.suspectNodes.set(new Set(suspects.map(({ node }) => node)).size);
  const budgets = budgetLeft(failed, frozen, policy, counts.managed);
  for (const [version, left] of budgets) metrics.failureBudget.set({ version: versions.of(version) }, left);
}

const PHASES = { UpToDate: 'upToDate', Updating: 'updating', Waiting: 'waiting', Failed: 'failed' } as const;

/** Groups, and the nodes in none of them, add up to the fleet. */
function showPhases({ rolloutNodes }: FleetMetrics, { counts, groups }: WholePlan, names: BoundedLabels): void {
  for (const [phase, key] of Object.entries(PHASES)) {
    const grouped = groups.reduce((sum, one) => sum + one.counts[key], 0);
    rolloutNodes.set({ phase, group: '' }, counts[key] - grouped);
    for (const one of groups) rolloutNodes.inc({ phase, group: names.of(one.group.name) }, one.counts[key]);
  }
}

/** While a node asks for them: no later plan may come when the last one has been answered. */
function showQuorums({ quorumMembers }: FleetMetrics, { quorums, policy, members: { keep } }: WholePlan): void {
  const asked = policy.quorums.filter((quorum) => keep.has(membersKey(quorum))).map(({ name }) => name);
  for (const { name, members, ready } of quorums) {
    if (ready === undefined || !asked.includes(name)) continue;
    quorumMembers.set({ quorum: name, state: 'ready' }, ready);
    quorumMembers.set({ quorum: name, state: 'away' }, members - ready);
  }
}

/** @param group - empty: the fleet */
function showRollout(metrics: FleetMetrics, { forecast }: Pick<Rollout, 'forecast'>, group = ''): void {
  const { window, nextOpenAt, completionTime } = forecast;
  const { open, until, reason } = window;
  metrics.windowOpen.set({ group }, open ? 1 : 0);
  metrics.blackout.set({ group }, reason === 'Blackout' ? 1 : 0);
  const completion = parseTime(completionTime);
  if (open && until !== undefined) metrics.nextClose.set({ group }, until / 1000);
  if (!open && nextOpenAt !== undefined) metrics.nextOpen.set({ group }, nextOpenAt / 1000);
  if (completion !== undefined) metrics.expectedCompletion.set({ group }, completion / 1000);
}

/**
 * Counts a spec that was written. A counter never forgets a label, and agents choose which versions they report: those
 * beyond the first ones are `other`.
 */
export function countTransition({ transitions, stepDuration, versionLabels }: Metrics, change: SpecChange): void {
  const { from, to, ...labels } = transitionOf(change);
  transitions.inc({ from_version: versionLabels.of(from), to_version: versionLabels.of(to), ...labels });
  const seconds = stepSeconds(change);
  if (seconds !== undefined) stepDuration.observe({ state: change.shadow.spec.state }, seconds);
}

/** Counts a node that has just failed with a version. */
export function countFailure(
  { failures, versionLabels }: Metrics,
  { version, code }: Pick<FailedNode, 'version' | 'code'>,
): void {
  failures.inc({ version: versionLabels.of(releaseOf(version)), code: isFailureCode(code) ? code : 'other' });
}

/** Only the leader has values of the fleet, so that sums over the replicas are right. */
export function showLeader(metrics: Metrics, isLeader: boolean): void {
  metrics.leader.set(isLeader ? 1 : 0);
  if (!isLeader) resetFleet(metrics);
}

/** How many more nodes may fail with each version that nodes failed with until it is frozen; 0 if it is. */
function budgetLeft(
  failed: readonly FailedNode[],
  frozen: readonly FrozenVersion[],
  { rollout }: Pick<UpdatePolicy, 'rollout'>,
  managed: number,
): ReadonlyMap<string, number> {
  const budget = nodesAtOnce(rollout.failureBudget, managed);
  const byRelease = Map.groupBy(failed, ({ version }) => releaseOf(version));
  const left = new Map([...byRelease].map(([release, nodes]) => [release, Math.max(0, budget - nodes.length)]));
  // Its nodes may have recovered since.
  for (const { version } of frozen) left.set(releaseOf(version), 0);
  return left;
}
