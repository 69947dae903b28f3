import type { NodeView } from '../cluster/node.ts';
import type { ShadowView } from '../cluster/shadow.ts';
import { type ManagedNode, type Snapshot, viewTimes } from '../cluster/snapshot.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import { assess, type Assessment, type Decision, type NodePhase } from './assess.ts';
import { expectedMs, startedAt } from './attempts.ts';
import type { Capacity } from './capacity.ts';
import type { Cleanup } from './cleanup.ts';
import { updating, type ProgressingCondition, waiting } from './condition.ts';
import { isOverdue } from './deadlines.ts';
import { type FleetState, fleetStateOf } from './fleet.ts';
import { type Forecast, forecastOf } from './forecast.ts';
import { type Candidate, whyNot, whyNotDrained } from './gates/index.ts';
import { isConcerned } from './gates/selection.ts';
import { inOrder } from './order.ts';
import { type Blocked, traitsOf } from './reasons.ts';
import { type SpecChange, specChange } from './spec-change.ts';
import { startSpec } from './transition.ts';

export interface NodeCondition {
  readonly shadow: ShadowView;
  readonly node: NodeView;
  readonly progressing: ProgressingCondition;
  /** It is about an update that the same plan calls off. */
  readonly calledOff: boolean;
}

/** Managed nodes by standing; `managed` is the sum of the others. */
export type NodeCounts = Readonly<Record<NodePhase | 'managed', number>>;

/** What is to be written, and why everything else waits. */
export interface Plan {
  readonly specs: readonly SpecChange[];
  /** More hosts are to be set otherwise than `specs` says: the next plan goes on with them. */
  readonly moreSpecs: boolean;
  readonly conditions: readonly NodeCondition[];
  /** Those that are due. */
  readonly cleanups: readonly Cleanup[];
  /** Nodes whose pods are to be looked up before it goes on. */
  readonly lookUps: readonly NodeView[];
  readonly taints: readonly TaintChange[];
  readonly policy: UpdatePolicy;
  /** Resources of which nothing was heard for too long: nothing starts. */
  readonly stale: readonly string[];
  readonly counts: NodeCounts;
  readonly forecast: Forecast;
  /** The configuration has taken effect on all hosts that are heard of. */
  readonly isInEffect: boolean;
  /** When to plan again even if nothing changes, epoch milliseconds. */
  readonly wakeAt: number | undefined;
}

/** Decides what happens next in the whole fleet. Pure: the same snapshot and time give the same plan. */
export function plan(snapshot: Snapshot, now: number): Plan {
  const fleetState = fleetStateOf(snapshot, now);
  const { policy, stale, drainOf, capacity, slots } = fleetState;
  const assessments = snapshot.managedNodes.map((managedNode) =>
    assess(managedNode, {
      policy: policyFor(managedNode, fleetState),
      drainOf,
      whyNotDrained: (candidate) => holdsDrain(candidate, fleetState),
      now,
    }),
  );
  const queuedCandidates = inOrder(assessments.flatMap(queuedCandidate), snapshot.ownNode, policy.order);
  const admitted = admit(queuedCandidates, fleetState, capacity);
  const decisions = assessments.map((assessment) => admitted.get(assessment) ?? { ...assessment, assessment });
  const counted = decisions.filter(({ assessment }) => isCounted(assessment, policy));
  const forecast = forecastOf({
    fleetState,
    counted,
    waiting: queuedCandidates.flatMap((one) => admitted.get(one.assessment) ?? []),
  });
  const wakes = [
    ...decisions.flatMap(times),
    ...[...slots.values()].map(({ deadline }) => deadline),
    ...forecast.times,
  ];
  return {
    ...specsOf(decisions),
    cleanups: assessments.flatMap(({ cleanup }) => (cleanup !== undefined && cleanup.dueAt <= now ? [cleanup] : [])),
    ...lookUpsOf(
      decisions.map((decision) => (snapshot.config === undefined ? decision : withExpectation(decision, forecast))),
      snapshot,
      now,
    ),
    taints: decisions.flatMap((decision) => taintChange(decision.assessment.managedNode, wantsTaint(decision, policy))),
    policy,
    stale,
    counts: count(counted),
    forecast,
    isInEffect: !counted.some(({ assessment }) => assessment.pending === true),
    wakeAt: earliest([...wakes, ...viewTimes(snapshot.watchLags, now), ...retries(snapshot)], now),
  };
}

/** Hosts that the configuration is not about keep their settings, or get them back. */
function policyFor({ node }: ManagedNode, { policy }: FleetState): UpdatePolicy {
  return node === undefined || isConcerned(node, policy) ? policy : { ...policy, hostSettings: undefined };
}

interface QueuedCandidate {
  readonly assessment: Assessment;
  readonly candidate: Candidate;
}

function queuedCandidate(assessment: Assessment): QueuedCandidate[] {
  const { candidate } = assessment;
  return candidate === undefined ? [] : [{ assessment, candidate }];
}

function isCounted({ managedNode: { node } }: Assessment, policy: UpdatePolicy): boolean {
  return node !== undefined && isConcerned(node, policy);
}

/** Sends the candidates through the gates, in their order, until the free places are taken. */
function admit(
  queuedCandidates: readonly QueuedCandidate[],
  fleetState: FleetState,
  capacity: Capacity,
): Map<Assessment, Decision> {
  const decisions = new Map<Assessment, Decision>();
  for (const { assessment, candidate } of queuedCandidates) {
    const { node, shadow } = candidate;
    const needMs = expectedMs(shadow, fleetState.estimate) + fleetState.estimate.marginMs;
    const drain = fleetState.drainOf(node);
    const blocked = whyNot({ ...fleetState, candidate, drain, capacity: capacity.check(node), needMs });
    // The place is kept for a node whose pods are being looked up.
    if (blocked === undefined || blocked.lookUp === true) capacity.reserve(node, true);
    decisions.set(
      assessment,
      blocked === undefined ? start(assessment, candidate, fleetState) : blockedBy(assessment, blocked),
    );
  }
  return decisions;
}

/** Why a staged node is not drained. The window must still be open for what is left of its update. */
function holdsDrain(candidate: Candidate, fleetState: FleetState): Blocked | undefined {
  const { node, shadow } = candidate;
  const { estimate, now } = fleetState;
  const since = startedAt(shadow) ?? now;
  const needMs = Math.max(1, estimate.marginMs + Math.max(0, expectedMs(shadow, estimate) - (now - since)));
  const yields = fleetState.nodesOverLimit.has(node.metadata.name) ? TOO_MANY_AWAY : undefined;
  const late = isOverdue(shadow, fleetState.policy, now) ? LATE : undefined;
  return (
    whyNotDrained({ ...fleetState, candidate, drain: fleetState.drainOf(node), capacity: undefined, needMs }) ??
    yields ??
    late
  );
}

/** It releases its slot, so that a node whose pods cannot be listed does not stop the fleet. */
const LATE: Blocked = {
  reason: 'WaitingForCapacity',
  message: 'Its drain could not start before the deadline of its staging',
};
const TOO_MANY_AWAY: Blocked = { reason: 'WaitingForCapacity', message: 'More nodes are away than may be at once' };

function start(assessment: Assessment, { version }: Candidate, { policy, now }: FleetState): Decision {
  const change = { spec: startSpec(version, policy, now), outcome: 'Started' } as const;
  return { assessment, change, progressing: updating(version), phase: 'updating' };
}

function blockedBy(assessment: Assessment, blocked: Blocked): Decision {
  const { phase = 'waiting' } = assessment;
  return { assessment, phase, lookUp: blocked.lookUp ?? false, blocked, progressing: waiting(blocked) };
}

/** The nodes that update next are told when that is expected to be. The status of the configuration keeps what they were told before. */
function withExpectation(decision: Decision, { queue }: Forecast): Decision {
  const { assessment, progressing } = decision;
  const time = queue.find(({ node }) => node === assessment.managedNode.name)?.expectedTime;
  if (time === undefined || progressing === undefined || assessment.candidate === undefined) return decision;
  return {
    ...decision,
    progressing: { ...progressing, message: `${progressing.message}; expected to be up to date by ${time}` },
  };
}

/** In one turn; the next one goes on with the others at once. */
const MAX_LOOK_UPS = 10;

/** A node whose pods are looked up for the first time is not said to wait for that: it takes a moment. */
function lookUpsOf(
  decisions: readonly Decision[],
  { pods }: Snapshot,
  now: number,
): Pick<Plan, 'lookUps' | 'conditions'> {
  const wanted = decisions.filter(({ lookUp }) => lookUp === true);
  const nodes = wanted.flatMap(({ assessment: { managedNode } }) =>
    managedNode.node === undefined ? [] : [managedNode.node],
  );
  const due = nodes.filter(({ metadata: { name } }) => (pods.get(name)?.retryAt ?? 0) <= now);
  const troubled = ({ assessment: { managedNode } }: Decision): boolean =>
    pods.get(managedNode.name)?.problem !== undefined;
  const said = decisions.filter((decision) => decision.lookUp !== true || troubled(decision));
  return { lookUps: due.slice(0, MAX_LOOK_UPS), conditions: said.flatMap(nodeConditions) };
}

function retries({ pods }: Snapshot): number[] {
  return [...pods.values()].map(({ retryAt }) => retryAt);
}

/** Nodes that could run a newer version, or are on their way to it; not those that failed, nor new ones of which nothing is known. */
function wantsTaint({ phase, assessment, blocked }: Decision, { drain }: UpdatePolicy): boolean {
  const isBlocked = phase === 'waiting' && assessment.candidate !== undefined;
  const goes = blocked === undefined || traitsOf(blocked.reason).withoutTaint !== true;
  return drain.taintWaitingNodes && assessment.managed && ((isBlocked && goes) || phase === 'updating');
}

/** So many hosts are set otherwise in one turn, so that the specs of updates under way never wait long for those of a large fleet. */
const MAX_CONFIGURED = 100;

function specsOf(decisions: readonly Decision[]): Pick<Plan, 'specs' | 'moreSpecs'> {
  const all = decisions.flatMap(specChanges);
  const configured = all.filter(({ outcome }) => outcome === 'Configured');
  const others = all.filter(({ outcome }) => outcome !== 'Configured');
  return { specs: [...others, ...configured.slice(0, MAX_CONFIGURED)], moreSpecs: configured.length > MAX_CONFIGURED };
}

function specChanges({ assessment: { managedNode }, change }: Decision): SpecChange[] {
  const { node, shadow } = managedNode;
  return change === undefined || node === undefined || shadow === undefined ? [] : [specChange(change, shadow, node)];
}

function nodeConditions({ assessment: { managedNode }, progressing, change }: Decision): NodeCondition[] {
  const { node, shadow } = managedNode;
  if (progressing === undefined || node === undefined || shadow === undefined) return [];
  return [{ shadow, node, progressing, calledOff: change?.outcome === 'Cancelled' }];
}

function count(counted: readonly Decision[]): NodeCounts {
  const counts = { managed: counted.length, upToDate: 0, updating: 0, waiting: 0, failed: 0 };
  for (const { phase = 'waiting' } of counted) counts[phase] += 1;
  return counts;
}

function times({ assessment, blocked }: Decision): (number | undefined)[] {
  return [...assessment.times, assessment.cleanup?.dueAt, blocked?.retryAt];
}

function earliest(candidates: readonly (number | undefined)[], now: number): number | undefined {
  const later = candidates.filter((time): time is number => time !== undefined && time > now);
  return later.length === 0 ? undefined : later.reduce((a, b) => Math.min(a, b));
}

/** A Node that is to get or to lose the taint of nodes that wait. */
export interface TaintChange {
  readonly node: NodeView;
  readonly wanted: boolean;
}

/** The change that a member needs, or none. A Node without a shadow may be one that is no longer ours. */
export function taintChange({ node }: ManagedNode, wanted: boolean): readonly TaintChange[] {
  return node === undefined || node.hasWaitingTaint === wanted ? [] : [{ node, wanted }];
}
