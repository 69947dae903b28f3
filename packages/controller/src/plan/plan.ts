/**
 * Decides what happens next in the fleet: assesses each node, sends the candidates through the gates
 * in their order, and collects what is to be written and why the other nodes wait. The controller
 * calls {@link plan} in each reconcile and `apply/` sends the result. It is pure: the same snapshot
 * and time give the same plan. Whatever users and agents do, no node starts or is drained beyond the
 * limits, outside the windows or while a watch is stale, and a drained node continues to the end.
 *
 * After the updates that start, hosts at rest may change their settings. Their agents have reported what each change
 * disrupts (`facts/settings.ts`). In each group, for the same settings:
 *
 *     until one node has proved them    one node at a time
 *     then, if nothing restarts         many nodes at once
 *     then, if services restart         within the limits of spec.concurrency, inside the windows, one node of
 *                                       the control plane at a time, while quorums can do without it, and
 *                                       not on nodes that a user has left out with the annotation skip
 *     too many nodes have failed        none, until the settings change or a user sets rollout.resume
 *
 * Nothing is granted during a pause, while watches are stale, the clock is wrong or connectivity is
 * lost, or with a mistake in the configuration or the group. What needs a reboot is a candidate, as an update is.
 */
import type { Allowed } from '@brupop/shared/api/shadow';
import { isPair, type NodePair, type Snapshot } from '../cluster/snapshot.ts';
import { assess, type Assessment, type Decision } from './assess.ts';
import { type ProgressingCondition, rebooting, updating, waiting } from './condition.ts';
import { estimateFor, expectedMs } from './facts/estimates.ts';
import { noListWorks } from './facts/drainability.ts';
import { problemBefore } from './facts/health.ts';
import { allowedAtReboot } from './facts/settings.ts';
import { type FleetState, fleetStateOf, gateInput, type KeptFactsOfNodes, type NodeFacts, policyFor } from './fleet.ts';
import { inOrder, inWriteOrder } from './order.ts';
import { recordsAtStart } from './facts/jobs.ts';
import { answersAtStart, whyNot } from './gates/index.ts';
import { goesBeforeLast, quorumKeptOtherwise } from './gates/applications.ts';
import { type Blocked, type Candidate, firstOf, type GateInput, specRejected } from './gates/reasons.ts';
import { withRequest } from './requests.ts';
import { type SpecChange, specChange } from './spec-change.ts';
import { type RecordChange, recordChanges } from './record-changes.ts';
import { type TaintChange, taintChanges } from './taints.ts';
import { grant, startSpec } from './transition.ts';
import type { Kept } from './facts/moment.ts';
import { clockRight, connected, paused, validConfig, watchFresh, windowOpen } from './gates/fleet.ts';
import { notSkipped, writable } from './gates/node.ts';

export interface Plan {
  readonly specs: readonly SpecChange[];
  readonly fleetState: FleetState;
  readonly decisions: readonly Decision[];
  /** The candidates in their order; undefined: it starts. */
  readonly admitted: ReadonlyMap<Candidate, Blocked | undefined>;
  /** The settings that hosts may be given now. */
  readonly grants: Grants;
  readonly taints: readonly TaintChange[];
  readonly records: readonly RecordChange[];
}

type Grant = 'Live' | 'RestartsService';

export interface Grants {
  /** By the name of the node. */
  readonly granted: ReadonlyMap<string, Grant>;
  /** Why others wait, by the name of the node. */
  readonly waiting: ReadonlyMap<string, Blocked>;
}

/** What was found of each node in earlier plans. */
export interface KeptOfPlan {
  readonly facts: KeptFactsOfNodes;
  readonly assessments: Kept<NodeFacts, Assessment>;
}

export function plan(snapshot: Snapshot, now: number, kept: KeptOfPlan): Plan {
  const fleetState = fleetStateOf(snapshot, now, kept.facts);
  const assessments = [...fleetState.facts].map(([one, facts]) =>
    kept.assessments.of(facts, now, (moment) => assess(one, fleetState, moment)),
  );
  const candidates = assessments.flatMap(({ candidate }) => candidate ?? []);
  const admitted = admit(candidates, fleetState, snapshot);
  const { decisions, grants } = decideAll(assessments, admitted, fleetState);
  return {
    fleetState,
    decisions,
    admitted,
    grants,
    specs: inWriteOrder(decisions.flatMap(specChanges), [...admitted.keys()]),
    taints: decisions.flatMap(taintChanges),
    records: recordChanges(decisions, fleetState),
  };
}

/** True for a node that can only be drained if its cordon opens disruption budgets. */
function mayOpen({ node, policy }: Candidate, { drains }: FleetState): boolean {
  return drains.known(node, policy).mayOpen;
}

/** Asks the gates for one candidate after the other, since each that starts reserves a slot. */
function admit(
  candidates: readonly Candidate[],
  fleetState: FleetState,
  { pods, ownNode }: Snapshot,
): Map<Candidate, Blocked | undefined> {
  const { quorums, now } = fleetState;
  const isBlocked = (one: Candidate): boolean => mayOpen(one, fleetState);
  const noneWorks = noListWorks(pods, now);
  return new Map(
    inOrder(candidates, { ownNode, isBlocked, isLast: (node) => quorums.isLast(node), now }).map((candidate) => {
      const input = inputAtStart(candidate, fleetState);
      const blocked = whyNot(input);
      // A node whose pods must be listed first keeps its position, unless only its own list fails.
      const isLookedUp = blocked?.lookUp === true && (noneWorks || input.drain().problem === undefined);
      const keepsPosition = isLookedUp || blocked?.keepsPosition === true;
      if (blocked === undefined || keepsPosition || blocked.isUnknown === true) reserve(candidate, fleetState);
      else goesBeforeLast(input, blocked);
      return [candidate, blocked];
    }),
  );
}

/** For users: what each gate says of a candidate that the plan has not started, after those that it has. */
export function gatesOf(candidate: Candidate, { fleetState }: Plan): ReturnType<typeof answersAtStart> {
  return answersAtStart(inputAtStart(candidate, fleetState));
}

function inputAtStart(candidate: Candidate, fleetState: FleetState): GateInput {
  const { shadow, policy, isRollback } = candidate;
  const { capacity, controlPlane } = fleetState;
  const estimate = estimateFor(fleetState.estimate, policy.maintenance);
  return gateInput(candidate, fleetState, {
    needMs: expectedMs(shadow, estimate) + estimate.marginMs,
    // The slot of a rollback is that of the update that failed.
    capacity: isRollback ? undefined : capacity.check(candidate),
    controlPlane: isRollback ? controlPlane.whyNotDrained(candidate) : controlPlane.whyNotStarted(candidate),
    othersFirst: othersBefore(candidate, fleetState),
  });
}

/** The order of nodes with a new version says nothing about settings. */
function othersBefore(candidate: Candidate, fleetState: FleetState): Blocked | undefined {
  const { canaries, groupOrder, settingsRollouts } = fleetState;
  if (candidate.isReboot) return settingsRollouts.check(candidate, 'InReboot');
  // Asked in any case, since the status of its group names what it waits for.
  const earlier = groupOrder.check(candidate, candidate.version);
  return canaries.check(candidate, candidate.version) ?? earlier;
}

function reserve(candidate: Candidate, fleetState: FleetState): void {
  const { node, version, isReboot, isRollback } = candidate;
  fleetState.controlPlane.starts(node);
  fleetState.quorums.starts(node);
  if (isRollback) return;
  fleetState.capacity.reserve(candidate, true);
  if (isReboot) fleetState.settingsRollouts.reserve(candidate, 'InReboot');
  else fleetState.canaries.reserve(candidate, version);
}

/** Most nodes that wait do so for the same reason. */
class WaitingConditions {
  readonly #made = new Map<Blocked, ProgressingCondition>();

  of(blocked: Blocked): ProgressingCondition {
    const made = this.#made.get(blocked) ?? waiting(blocked);
    this.#made.set(blocked, made);
    return made;
  }
}

function decide(
  assessment: Assessment,
  admitted: ReadonlyMap<Candidate, Blocked | undefined>,
  fleetState: FleetState,
  conditions: WaitingConditions,
): Decision {
  const { candidate } = assessment;
  if (candidate === undefined) return assessment;
  const blocked = admitted.get(candidate);
  if (blocked !== undefined) {
    // What is about to be known leaves the condition as it is.
    const progressing = blocked.isUnknown === true ? undefined : conditions.of(withRequest(blocked, candidate));
    return { ...assessment, lookUp: blocked.lookUp ?? false, blocked, progressing };
  }
  const { node, group, policy } = candidate;
  const jobs = recordsAtStart(policy, candidate.status.current_version, candidate.version);
  const spec = startSpec(candidate.version, policy, fleetState.moment, allowedAtStart(candidate, fleetState));
  const isBlocked = mayOpen(candidate, fleetState);
  const members = fleetState.quorums.records.recordOf({ node, pods: fleetState.drains.known(node, policy).pods });
  const restores = fleetState.settings.get(candidate.name)?.state === 'failed';
  const unhealthyPods = podsWaitedFor(candidate, fleetState);
  const change = {
    spec,
    outcome: 'Started',
    jobs,
    members,
    group: group?.name,
    isBlocked,
    restores,
    unhealthyPods,
    isRequested: candidate.isRequested,
  } as const;
  const progressing = candidate.isReboot ? rebooting() : updating(candidate.version);
  return { ...assessment, change, progressing, phase: 'updating' };
}

/** What is wrong with the pods of a node that has waited for them. */
function podsWaitedFor({ node, shadow, policy }: Candidate, { drains, moment }: FleetState): string | undefined {
  if (shadow.record.podsWaitSince === undefined) return undefined;
  return problemBefore(drains.known(node, policy).podHealth(), policy, moment);
}

function allowedAtStart(candidate: Candidate, { settings, settingsRollouts }: FleetState): Allowed {
  const facts = settings.get(candidate.name);
  return facts === undefined || settingsRollouts.areStopped(candidate) ? 'None' : allowedAtReboot(facts);
}

/** Grants settings after the updates that start. */
function decideAll(
  assessments: readonly Assessment[],
  admitted: ReadonlyMap<Candidate, Blocked | undefined>,
  fleetState: FleetState,
): { readonly decisions: readonly Decision[]; readonly grants: Grants } {
  const conditions = new WaitingConditions();
  const decided = assessments.map((assessment) => decide(assessment, admitted, fleetState, conditions));
  const grants = grantsOf(decided, fleetState);
  const decisions = decided.map((decision) => withFailure(withGrant(decision, grants, fleetState)));
  return { decisions, grants };
}

/** Hosts that get a grant in one plan. */
const MAX_GRANTS = 100;
/** What a restart of services needs of a window. */
const RESTART_MS = 5 * 60_000;

/** @param decisions - after the updates that start have reserved their slots */
function grantsOf(decisions: readonly Decision[], fleetState: FleetState): Grants {
  const { settingsRollouts, capacity, controlPlane, quorums } = fleetState;
  const granted = new Map<string, Grant>();
  const waiting = new Map<string, Blocked>();
  const due = decisions.flatMap(({ managedNode, grant, change }) =>
    grant !== undefined && change === undefined && isPair(managedNode) ? [{ ...managedNode, grant }] : [],
  );
  for (const one of due.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const blocked = whyNotGranted(one, fleetState);
    if (blocked !== undefined) waiting.set(one.name, blocked);
    else if (granted.size < MAX_GRANTS) {
      granted.set(one.name, one.grant);
      settingsRollouts.reserve(one, 'AtRest');
      if (one.grant === 'Live') continue;
      capacity.reserve(one, true);
      controlPlane.starts(one.node);
      quorums.starts(one.node);
    }
  }
  return { granted, waiting };
}

function whyNotGranted(
  { grant, ...one }: NodePair & { readonly grant: Grant },
  fleetState: FleetState,
): Blocked | undefined {
  const input = { ...fleetState, ...one, needMs: RESTART_MS };
  const gates = grant === 'Live' ? GRANT_GATES : [...GRANT_GATES, notSkipped];
  const blocked = firstOf(gates, input) ?? fleetState.settingsRollouts.check(one, 'AtRest');
  if (blocked !== undefined || grant === 'Live') return blocked;
  return (
    windowOpen(input) ??
    fleetState.controlPlane.whyNotStarted(one) ??
    fleetState.capacity.check(one) ??
    quorumKeptOtherwise(fleetState, one.node, one.policy)
  );
}

/** What speaks against any disruption. */
const GRANT_GATES = [watchFresh, clockRight, connected, paused, validConfig, ready, writable];

function ready({ node }: Pick<NodePair, 'node'>): Blocked | undefined {
  return node.ready ? undefined : { reason: 'NodeNotReady', message: 'The Node is not Ready' };
}

/** Its write is tried again, and the node keeps its slot. */
function withFailure(decision: Decision): Decision {
  const { writeFailure } = decision.managedNode;
  if (writeFailure === undefined || decision.change === undefined) return decision;
  return { ...decision, progressing: waiting(specRejected(writeFailure)) };
}

function withGrant(decision: Decision, { granted, waiting: blocked }: Grants, fleetState: FleetState): Decision {
  const { managedNode } = decision;
  const waits = blocked.get(managedNode.name);
  const isChanging = decision.phase === 'upToDate' && decision.progressing?.reason === 'ChangingSettings';
  if (waits !== undefined) {
    const progressing = waits.isUnknown === true ? undefined : waiting(waits);
    return { ...decision, ...needsPodsFor(waits), ...(isChanging && { progressing }) };
  }
  const allow = granted.get(managedNode.name);
  if (allow === undefined || !isPair(managedNode)) return decision;
  const policy = policyFor(managedNode, fleetState.moment);
  return { ...decision, change: grant({ policy, now: fleetState.moment }, allow), pending: true };
}

function needsPodsFor({ lookUp }: Blocked): Pick<Decision, 'lookUp'> {
  return lookUp === undefined ? {} : { lookUp };
}

function specChanges({ managedNode, change }: Decision): SpecChange[] {
  return change === undefined || !isPair(managedNode) ? [] : [specChange(change, managedNode)];
}
