/**
 * Decides what happens next in the fleet: assesses each node, sends the candidates through the gates
 * in their order, and collects what is to be written and why the other nodes wait. The controller
 * calls {@link plan} in each reconcile and `apply/` sends the result. It is pure: the same snapshot
 * and time give the same plan. Whatever users and agents do, no node starts or is drained beyond the
 * limits, outside the windows or while a watch is stale, and a drained node continues to the end.
 */
import type { EventSource } from '@brupop/shared/kube/events';
import type { Connectivity } from '../cluster/connectivity.ts';
import { isManaged, isSelected, type NodeView } from '../cluster/node.ts';
import type { MembersWanted } from '../cluster/member-pods.ts';
import type { ShadowView } from '../cluster/shadow.ts';
import { isPair, type Snapshot, staleCheckTimes } from '../cluster/snapshot.ts';
import { checkWork, type CheckWork } from './check-work.ts';
import { assess, type Assessment, type Decision } from './assess.ts';
import type { CompletedCanary } from './canaries.ts';
import type { Cleanup } from './cleanup.ts';
import { deadlineEvent, type ProgressingCondition, rebooting, updating, waiting } from './condition.ts';
import { estimateFor, expectedMs } from './facts/attempts.ts';
import type { Drainable } from './facts/drainability.ts';
import type { FailedNode, FrozenVersion } from './facts/failed-nodes.ts';
import { withoutEvictions } from './evicting-taints.ts';
import { type FleetState, fleetStateOf, inOrder, policyFor } from './fleet.ts';
import { recordsAtStart } from './facts/jobs.ts';
import type { QuorumCount } from './facts/quorums.ts';
import { type Forecast, forecastOf } from './forecast.ts';
import { whyNot } from './gates/index.ts';
import { letFirst } from './gates/quorums.ts';
import { type Blocked, type Candidate, type GateInput, traitsOf } from './gates/reasons.ts';
import { type Health, healthOf } from './reconciliation.ts';
import { type Progress, progressOf } from './progress.ts';
import { lostNodesOf, type OutOfServiceChange, withLoss } from './lost-nodes.ts';
import { type NewNodes, newNodesOf } from './new-nodes.ts';
import type { NodeMetadataPlan } from './node-metadata.ts';
import { countsOf, type GroupRollout, groupRollouts, type Rollout, unconfirmedOf } from './rollout.ts';
import { type SpecChange, specChange } from './spec-change.ts';
import { type Grants, grantsOf } from './settings-rollout.ts';
import { grant, startSpec } from './transition.ts';
import { keptEvent, waitEvent } from './wait-events.ts';

export interface NodeCondition {
  readonly shadow: ShadowView;
  readonly node: NodeView;
  readonly progressing: ProgressingCondition;
  readonly health: Health;
  /** Name of its group; empty: none. */
  readonly group: string;
  readonly event: EventSource | undefined;
}

/** Which taints the Node is to have. */
export interface TaintChange {
  readonly node: NodeView;
  readonly waiting: boolean;
  readonly startup: boolean;
}

export interface Plan extends Rollout, NewNodes {
  readonly specs: readonly SpecChange[];
  /** More hosts get other settings than `specs` contains: the next plan continues with them. */
  readonly moreSpecs: boolean;
  readonly conditions: readonly NodeCondition[];
  readonly cleanups: readonly Cleanup[];
  readonly lookUps: readonly NodeView[];
  /** Names of the nodes whose pods were used or will be listed. */
  readonly needsPodsOf: ReadonlySet<string>;
  /** What to do with the list of the pods of the whole cluster. */
  readonly allPods: 'list' | 'keep' | 'forget';
  readonly members: MembersWanted;
  /** Of the quorums whose members are known. */
  readonly quorums: readonly QuorumCount[];
  readonly taints: readonly TaintChange[];
  readonly outOfService: readonly OutOfServiceChange[];
  readonly checks: CheckWork;
  /** Resources whose watch is stale: no update starts. */
  readonly stale: readonly string[];
  readonly connectivity: Connectivity;
  readonly clockSkewMs: number | undefined;
  /** The nodes that failed with a version, the latest first. */
  readonly failed: readonly FailedNode[];
  readonly frozen: readonly FrozenVersion[];
  readonly canaries: readonly CompletedCanary[];
  readonly forecast: Forecast;
  /** Undefined when no node needs an update. */
  readonly progress: Progress | undefined;
  readonly groups: readonly GroupRollout[];
  readonly metadata: NodeMetadataPlan;
  /** Names of Nodes that have annotations of the operator, but hold no slot. */
  readonly orphanedNodes: readonly string[];
  /** When to plan again even if nothing changes, epoch milliseconds. */
  readonly wakeAt: number | undefined;
}

export function plan(snapshot: Snapshot, now: number): Plan {
  const fleetState = fleetStateOf(snapshot, now);
  const { policy, stale, connectivity, clockSkewMs, stuck } = fleetState;
  const assessments = snapshot.managedNodes.map((managedNode) => assess(managedNode, fleetState));
  const candidates = assessments.flatMap(({ candidate }) => candidate ?? []);
  const admitted = admit(candidates, fleetState, snapshot);
  const { decisions, grants } = decideAll(assessments, admitted, fleetState);
  const metadata = withoutEvictions(fleetState, snapshot.managedNodes);
  const counted = decisions.filter(({ managedNode: { node } }) => node !== undefined && isSelected(node, policy));
  const forecast = forecastOf(fleetState, counted, admitted);
  const progress = progressOf(fleetState, counted);
  const { lostTimes, ...losses } = lostNodesOf(snapshot.managedNodes, fleetState);
  const stuckNodes = stuck.map(({ metadata: { name } }) => name);
  const { lookUps, conditions } = lookUpsOf(decisions, metadata.lookUps ?? [], snapshot, now);
  const wakes = [
    ...decisions.flatMap(({ times, cleanup, blocked }) => [...times, cleanup?.dueAt, blocked?.retryAt]),
    ...timesOf({ ...fleetState, metadata }, snapshot),
    ...lostTimes,
    ...forecast.windowEnds,
    progress?.deadline,
  ];
  return {
    ...specsOf(decisions),
    ...newNodesOf(stale.length === 0 ? snapshot.managedNodes : []),
    cleanups: decisions.flatMap(({ cleanup }) => (cleanup !== undefined && cleanup.dueAt <= now ? [cleanup] : [])),
    lookUps,
    conditions: conditions.map((one) => withLoss(one, losses.lost)),
    ...losses,
    needsPodsOf: fleetState.drains.requested,
    ...podsNow(fleetState),
    taints: decisions.flatMap(taintChanges),
    checks: checkWork(decisions, fleetState),
    policy,
    stale,
    connectivity,
    clockSkewMs,
    counts: countsOf(counted),
    failed: fleetState.failed,
    frozen: fleetState.frozen,
    canaries: fleetState.canaries.completed,
    forecast,
    progress,
    stuckNodes,
    groups: groupRollouts({ ...fleetState, metadata }, counted, { forecast, stuckNodes, lost: losses.lost, grants }),
    metadata,
    orphanedNodes: fleetState.orphaned,
    ...unconfirmedOf(counted, grants),
    wakeAt: earliest(wakes, now),
  };
}

/** True for a node that can only be drained if its cordon opens disruption budgets. */
function mayOpen(candidate: Candidate, fleetState: FleetState): boolean {
  return fleetState.drains.known(candidate.node, policyFor(candidate, fleetState)).mayOpen;
}

function podsNow({ workloads, quorums }: FleetState): Pick<Plan, 'allPods' | 'members' | 'quorums'> {
  const used = workloads.isDue ? 'list' : 'keep';
  return { allPods: workloads.isRequested ? used : 'forget', members: quorums.wanted, quorums: quorums.counts };
}

/** When the state of the fleet may change by time alone. */
function timesOf(
  { slots, policy, canaries, checks, workloads, quorums, metadata, now }: FleetState,
  { watchLags, pods }: Snapshot,
): (number | undefined)[] {
  const deadlines = [...slots.values()].map(({ deadline }) => deadline);
  const retries = [...pods.values()].map(({ retryAt }) => retryAt);
  return [
    ...deadlines,
    ...retries,
    ...checks.times,
    ...workloads.times,
    ...quorums.times,
    ...metadata.times,
    ...canaries.times,
    policy.rollout.resumeMs,
    ...staleCheckTimes(watchLags, now),
  ];
}

const MAX_LOOK_UPS = 10;

/** Asks the gates for one candidate after the other, since each that starts reserves a slot. */
function admit(
  candidates: readonly Candidate[],
  fleetState: FleetState,
  { pods, ownNode }: Snapshot,
): Map<Candidate, Blocked | undefined> {
  const { capacity, controlPlane, drains, quorums, room, now } = fleetState;
  const isBlocked = (one: Candidate): boolean => mayOpen(one, fleetState);
  const noListWorks = [...pods.values()].filter(({ problem }) => problem !== undefined).length > MAX_LOOK_UPS;
  return new Map(
    inOrder(candidates, { ownNode, isBlocked, isLast: (node) => quorums.isLast(node), now }).map((candidate) => {
      const { node, shadow } = candidate;
      const policy = policyFor(candidate, fleetState);
      const estimate = estimateFor(fleetState.estimate, policy.maintenance);
      const needMs = expectedMs(shadow, estimate) + estimate.marginMs;
      const drain = (): Drainable => drains.of(node, policy);
      const limits = limitsOf(candidate, fleetState);
      const input = { ...fleetState, ...candidate, ...limits, fleet: fleetState.policy, policy, drain, needMs };
      const blocked = whyNot(input);
      // A node whose pods must be listed first keeps its position, unless only its own list fails.
      const isLookedUp = blocked?.lookUp === true && (noListWorks || drain().problem === undefined);
      const keepsPosition = isLookedUp || blocked?.keepsPosition === true;
      const holdsSlot = candidate.isRollback;
      if (blocked === undefined || keepsPosition || blocked.isUnknown === true) {
        room.reserve(node);
        controlPlane.starts(node);
        quorums.starts(node);
        if (holdsSlot) return [candidate, blocked];
        capacity.reserve(candidate, true);
        reserve(candidate, fleetState);
      } else letFirst(input, blocked);
      return [candidate, blocked];
    }),
  );
}

type AskedLimits = Pick<GateInput, 'capacity' | 'canary' | 'earlierGroups' | 'reboot' | 'controlPlane'>;

/** The order of nodes with a new version says nothing about settings. */
function limitsOf(candidate: Candidate, fleetState: FleetState): AskedLimits {
  const { node, version, isReboot, isRollback } = candidate;
  const { canaries, groupOrder, settingsRollouts } = fleetState;
  const capacity = fleetState.capacity.check(candidate);
  // The slot of a rollback is that of the update that failed.
  const controlPlane = isRollback
    ? fleetState.controlPlane.whyNotDrained(candidate)
    : fleetState.controlPlane.whyNotStarted(candidate);
  const none = { canary: undefined, earlierGroups: undefined, reboot: undefined, controlPlane };
  if (isReboot)
    return { ...none, capacity, reboot: isRollback ? undefined : settingsRollouts.whyNotRebooted(candidate) };
  const earlierGroups = groupOrder.check(candidate, version);
  return { ...none, capacity, canary: canaries.check(node, version), earlierGroups };
}

function reserve(candidate: Candidate, { canaries, settingsRollouts }: FleetState): void {
  if (candidate.isReboot) settingsRollouts.reboots(candidate);
  else canaries.reserve(candidate.node, candidate.version);
}

function decide(
  assessment: Assessment,
  admitted: ReadonlyMap<Candidate, Blocked | undefined>,
  fleetState: FleetState,
): Decision {
  const { candidate } = assessment;
  if (candidate === undefined) return assessment;
  const blocked = admitted.get(candidate);
  if (blocked !== undefined) {
    // What is about to be known leaves the condition as it is.
    const progressing = blocked.isUnknown === true ? undefined : waiting(blocked);
    return { ...assessment, lookUp: blocked.lookUp ?? false, blocked, progressing };
  }
  const policy = policyFor(candidate, fleetState);
  const jobs = recordsAtStart(policy, candidate.status.current_version, candidate.version);
  const settings = fleetState.settings.get(candidate.name);
  const spec = startSpec(candidate.version, policy, fleetState.now, settings);
  const isBlocked = mayOpen(candidate, fleetState);
  const { node, group } = candidate;
  const members = fleetState.quorums.records.recordOf({ node, pods: fleetState.drains.known(node, policy).pods });
  const change = { spec, outcome: 'Started', jobs, members, group: group?.name, isBlocked } as const;
  const progressing = candidate.isReboot ? rebooting() : updating(candidate.version);
  return { ...assessment, change, progressing, phase: 'updating' };
}

/** Grants settings after the updates that start. */
function decideAll(
  assessments: readonly Assessment[],
  admitted: ReadonlyMap<Candidate, Blocked | undefined>,
  fleetState: FleetState,
): { readonly decisions: readonly Decision[]; readonly grants: Grants } {
  const decided = assessments.map((assessment) => decide(assessment, admitted, fleetState));
  const grants = grantsOf(decided, fleetState);
  return { decisions: decided.map((decision) => withGrant(decision, grants, fleetState)), grants };
}

function withGrant(decision: Decision, { granted, waiting: blocked }: Grants, fleetState: FleetState): Decision {
  const { managedNode } = decision;
  const waits = blocked.get(managedNode.name);
  const isChanging = decision.phase === 'upToDate' && decision.progressing?.reason === 'ChangingSettings';
  if (waits !== undefined && isChanging)
    return { ...decision, ...needsPodsFor(waits), progressing: waits.isUnknown === true ? undefined : waiting(waits) };
  const allow = granted.get(managedNode.name);
  if (allow === undefined || !isPair(managedNode)) return decision;
  const policy = policyFor(managedNode, fleetState);
  return { ...decision, change: grant({ policy, now: fleetState.now }, allow), pending: true };
}

function needsPodsFor({ lookUp }: Blocked): Pick<Decision, 'lookUp'> {
  return lookUp === undefined ? {} : { lookUp };
}

/** A node whose pods are listed for the first time gets no condition, since that takes a moment. */
function lookUpsOf(
  decisions: readonly Decision[],
  others: readonly NodeView[],
  { pods }: Snapshot,
  now: number,
): Pick<Plan, 'lookUps' | 'conditions'> {
  const wanted = decisions.flatMap(({ lookUp, managedNode: { node } }) => (lookUp === true ? (node ?? []) : []));
  const nodes = [...new Set([...wanted, ...others])];
  const seenAt = ({ metadata: { name } }: NodeView): number => pods.get(name)?.seenAt ?? 0;
  const due = nodes
    .filter(({ metadata: { name } }) => (pods.get(name)?.retryAt ?? 0) <= now)
    .toSorted((a, b) => seenAt(a) - seenAt(b));
  const said = decisions.filter(
    ({ lookUp, blocked, managedNode }) =>
      blocked?.isUnknown !== true && (lookUp !== true || pods.get(managedNode.name)?.problem !== undefined),
  );
  return { lookUps: due.slice(0, MAX_LOOK_UPS), conditions: said.flatMap((one) => nodeConditions(one, now)) };
}

function taintChanges(decision: Decision): TaintChange[] {
  const { managedNode, isStarting = false } = decision;
  const { node } = managedNode;
  const { drain } = managedNode.policy;
  if (node === undefined) return [];
  const waiting = drain.taintWaitingNodes && isManaged(node) && isWaiting(decision);
  const startup = drain.startupTaint && isManaged(node) && isStarting;
  const isSame = node.hasWaitingTaint === waiting && node.hasStartupTaint === startup;
  return isSame ? [] : [{ node, waiting, startup }];
}

/** True for nodes that wait or are updating; not for failed ones, nor for new ones without a report. */
function isWaiting({ phase, candidate, blocked }: Decision): boolean {
  const isTainted = blocked === undefined || traitsOf(blocked.reason).withoutTaint !== true;
  return phase === 'updating' || (phase === 'waiting' && candidate !== undefined && isTainted);
}

/** Hosts that get other settings in one plan, so that updates do not wait for a large fleet. */
const MAX_CONFIGURED = 100;

function specsOf(decisions: readonly Decision[]): Pick<Plan, 'specs' | 'moreSpecs'> {
  const all = decisions.flatMap(specChanges);
  const configured = all.filter(({ outcome }) => outcome === 'Configured');
  const others = all.filter(({ outcome }) => outcome !== 'Configured');
  return { specs: [...others, ...configured.slice(0, MAX_CONFIGURED)], moreSpecs: configured.length > MAX_CONFIGURED };
}

function specChanges({ managedNode, change }: Decision): SpecChange[] {
  return change === undefined || !isPair(managedNode) ? [] : [specChange(change, managedNode)];
}

function nodeConditions({ managedNode, progressing, change, neverConnected }: Decision, now: number): NodeCondition[] {
  if (progressing === undefined || !isPair(managedNode)) return [];
  // The write that cancels an update has its own Event.
  const deadline = change?.outcome === 'Cancelled' ? undefined : deadlineEvent(managedNode, progressing);
  const { node, shadow, group } = managedNode;
  const health = healthOf(progressing, neverConnected === true);
  const waits = waitEvent(managedNode, progressing, { isStalled: health === 'Stalled', now });
  const event = deadline ?? keptEvent(managedNode, progressing, now) ?? waits;
  return [{ shadow, node, progressing, health, event, group: group?.name ?? '' }];
}

function earliest(candidates: readonly (number | undefined)[], now: number): number | undefined {
  const later = candidates.filter((time): time is number => time !== undefined && time > now);
  return later.length === 0 ? undefined : later.reduce((a, b) => Math.min(a, b));
}
