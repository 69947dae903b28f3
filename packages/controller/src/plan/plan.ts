/**
 * Decides what happens next in the fleet: assesses each node, sends the candidates through the gates in their order, and
 * collects what is to be written and why the other nodes wait. The controller calls {@link plan} in each reconcile and
 * `apply/` sends the result. It is pure: the same snapshot and time give the same plan. Whatever users and agents do, no
 * node starts or is drained beyond the limits, outside the windows or while a watch is stale, and a drained node continues
 * to the end.
 *
 * Once the gates have been asked, each node starts, waits and says why, or goes on as assessed. A decision that is the same
 * as in the plan before is the same object, and so is a part of the nodes with no other ones.
 */
import type { Allowed } from '@brupop/shared/api/shadow';
import { isManaged, type NodeView } from '../cluster/node.ts';
import { isPair, type NodePair, type Snapshot } from '../cluster/snapshot.ts';
import { KeptEach, ofParts, type Parts, Splitter } from '../kept/parts.ts';
import { assess, type Assessment, type Decision } from './assess.ts';
import { type ProgressingCondition, rebooting, updating, waiting } from './condition.ts';
import { problemBefore } from './facts/health.ts';
import { recordsAtStart } from './facts/jobs.ts';
import { type Blocked, type Candidate, specRejected, traitsOf } from './facts/reasons.ts';
import { hasRequest, withRequest } from './facts/requests.ts';
import { allowedAtReboot, type SettingsFacts } from './facts/settings.ts';
import {
  type FleetState,
  fleetStateOf,
  type KeptFactsOfNodes,
  type NodeFacts,
  policyFor,
} from './fleet/fleet-state.ts';
import { admit } from './gates/admission.ts';
import { type Grants, grantsOf } from './gates/without-update.ts';
import { type RecordChange, recordChange } from './specs/record-change.ts';
import { type SpecChange, specChange } from './specs/spec-change.ts';
import { grant, startSpec } from './specs/transition.ts';

/** Which of the taints a Node is to have: while it waits for its update or is updating, and once it has booted the new version. */
export interface TaintChange {
  readonly node: NodeView;
  readonly waiting: boolean;
  readonly startup: boolean;
}

export interface Plan {
  readonly specs: readonly SpecChange[];
  readonly fleetState: FleetState;
  readonly decisions: Parts<Decision>;
  /** The candidates in their order; undefined: it starts. */
  readonly admitted: ReadonlyMap<Candidate, Blocked | undefined>;
  /** The settings that hosts may be given now. */
  readonly grants: Grants;
  readonly taints: readonly TaintChange[];
  readonly records: readonly RecordChange[];
}

/** Why nodes wait, and what their conditions say of it. */
interface Answer {
  readonly blocked: Blocked;
  readonly progressing: ProgressingCondition;
}

/** The latest decisions about nodes that wait. */
class KeptDecisions {
  readonly #waiting = new WeakMap<Assessment, Decision>();
  readonly #parts = new WeakMap<readonly Assessment[], readonly Decision[]>();
  /** Of this plan and the one before it. By their text, since most nodes wait for the same. */
  #answers = new Map<string, Answer>();
  #before: ReadonlyMap<string, Answer> = new Map();
  /** The same ones, which need no text. */
  readonly #known = new WeakMap<Blocked, Answer>();

  /** Begins a plan. */
  begin(): void {
    this.#before = this.#answers;
    this.#answers = new Map();
  }

  /** Returns the decision of the plan before, if that was the same. */
  waits(assessment: Assessment, why: Blocked, candidate: Candidate): Decision {
    const { blocked } = this.#answerOf(why);
    // What is about to be known leaves the condition as it is.
    const progressing =
      blocked.isUnknown === true ? undefined : this.#answerOf(withRequest(blocked, candidate)).progressing;
    const before = this.#waiting.get(assessment);
    if (before?.blocked === blocked && before.progressing === progressing) return before;
    const decision = { ...assessment, lookUp: blocked.lookUp ?? false, blocked, progressing };
    this.#waiting.set(assessment, decision);
    return decision;
  }

  /** One object for all that says the same. */
  #answerOf(blocked: Blocked): Answer {
    const known = this.#known.get(blocked);
    if (known !== undefined) return known;
    const text = JSON.stringify(blocked);
    const answer = this.#answers.get(text) ?? this.#before.get(text) ?? { blocked, progressing: waiting(blocked) };
    this.#answers.set(text, answer);
    this.#known.set(answer.blocked, answer);
    return answer;
  }

  /** The same for a part. */
  part(assessed: readonly Assessment[], decisions: readonly Decision[]): readonly Decision[] {
    const before = this.#parts.get(assessed);
    if (before !== undefined && before.every((one, i) => one === decisions[i])) return before;
    this.#parts.set(assessed, decisions);
    return decisions;
  }
}

/** What was found of nodes, and decided about them, in earlier plans of this process. */
export class KeptFacts {
  readonly facts: KeptFactsOfNodes;
  readonly assessments = new KeptEach<NodeFacts, Assessment>();
  readonly decisions = new KeptDecisions();

  /** @param size - how many nodes a part has */
  constructor(size?: number) {
    this.facts = {
      managedNodes: new Splitter(size),
      nodes: new Splitter(size),
      found: new KeptEach(),
    };
  }
}

export function plan(snapshot: Snapshot, now: number, kept = new KeptFacts()): Plan {
  const fleetState = fleetStateOf(snapshot, now, kept.facts);
  const assessments = kept.assessments.of(fleetState.facts, now, (one, at) => assess(one, fleetState, at));
  const admitted = admit(candidatesIn(assessments).flat(), fleetState, snapshot);
  const { decisions, grants } = decideAll(assessments, admitted, fleetState, kept.decisions);
  return {
    fleetState,
    decisions,
    admitted,
    grants,
    specs: inWriteOrder(specChangesIn(decisions).flat(), [...admitted.keys()]),
    taints: taintChangesIn(decisions).flat(),
    records: recordChanges(decisions, fleetState),
  };
}

const candidatesIn = ofParts((part: readonly Assessment[]) => part.flatMap(({ candidate }) => candidate ?? []));

/** In the other parts, no step of {@link decideAll} changes what the assessments say. */
const isOpenIn = ofParts((part: readonly Assessment[]) =>
  part.some(({ candidate, grant, change, managedNode: { writeFailure } }) => {
    const isRetried = change !== undefined && writeFailure !== undefined;
    return candidate !== undefined || grant !== undefined || isRetried;
  }),
);

/** Grants settings after the updates that start. */
function decideAll(
  assessments: Parts<Assessment>,
  admitted: ReadonlyMap<Candidate, Blocked | undefined>,
  fleetState: FleetState,
  kept: KeptDecisions,
): { readonly decisions: Parts<Decision>; readonly grants: Grants } {
  kept.begin();
  const isOpen = isOpenIn(assessments);
  const ofEach = (parts: Parts<Decision>, step: (one: Decision) => Decision): Parts<Decision> =>
    parts.map((part, i) => (isOpen[i] === true ? part.map(step) : part));
  const decided = ofEach(assessments, (one) => decide(one, admitted, fleetState, kept));
  const grants = grantsOf(decided.filter((_, i) => isOpen[i] === true).flatMap(dueOf), fleetState);
  const decisions = ofEach(decided, (one) => withFailure(withGrant(one, grants, fleetState)));
  return { decisions: decisions.map((part, i) => kept.part(assessments[i] ?? part, part)), grants };
}

/** The nodes that wait for a grant, and do not start. */
function dueOf(decisions: readonly Decision[]): Parameters<typeof grantsOf>[0] {
  return decisions.flatMap(({ managedNode, grant, change }) =>
    grant !== undefined && change === undefined && isPair(managedNode) ? [{ ...managedNode, grant }] : [],
  );
}

function decide(
  assessment: Assessment,
  admitted: ReadonlyMap<Candidate, Blocked | undefined>,
  fleetState: FleetState,
  kept: KeptDecisions,
): Decision {
  const { candidate, settings } = assessment;
  if (candidate === undefined) return assessment;
  const blocked = admitted.get(candidate);
  if (blocked !== undefined) return kept.waits(assessment, blocked, candidate);
  const { node, group, policy } = candidate;
  const jobs = recordsAtStart(policy, candidate.status.current_version, candidate.version);
  const spec = startSpec(candidate.version, policy, fleetState.moment, allowedAtStart(candidate, settings, fleetState));
  const { mayOpen: isBlocked, pods } = fleetState.drains.known(node, policy);
  const members = fleetState.quorums.recordOf({ node, pods });
  const restores = settings?.state === 'failed';
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

function allowedAtStart(
  candidate: Candidate,
  facts: SettingsFacts | undefined,
  { settingsRollouts }: FleetState,
): Allowed {
  return facts === undefined || settingsRollouts.areStopped(candidate) ? 'None' : allowedAtReboot(facts);
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
    return {
      ...decision,
      ...(waits.lookUp !== undefined && { lookUp: waits.lookUp }),
      ...(isChanging && { progressing }),
    };
  }
  const allow = granted.get(managedNode.name);
  if (allow === undefined || !isPair(managedNode)) return decision;
  const policy = policyFor(managedNode, fleetState.moment);
  const restores = decision.settings?.state === 'failed';
  return { ...decision, change: { ...grant({ policy, now: fleetState.moment }, allow), restores }, pending: true };
}

const specChangesIn = ofParts((part: readonly Decision[]) =>
  part.flatMap(({ managedNode, change }): SpecChange[] =>
    change === undefined || !isPair(managedNode) ? [] : [specChange(change, managedNode)],
  ),
);

const taintChangesIn = ofParts((part: readonly Decision[]) => part.flatMap(taintChanges));

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

/** Kinds of changes that are written after all others, in this order. */
const LATER: readonly SpecChange['outcome'][] = ['Started', 'Configured'];

/** Smaller numbers are written first: next steps and ends, then starts, then other settings. */
export function writeGroupOf({ outcome }: Pick<SpecChange, 'outcome'>): number {
  return LATER.indexOf(outcome);
}

/**
 * The order in which specs are written, since the time for it may be too short: of next steps those that have waited longest
 * first, of starts those that the gates have admitted first.
 */
export function inWriteOrder(changes: readonly SpecChange[], admitted: readonly Candidate[]): SpecChange[] {
  const places = new Map(admitted.map(({ name }, place) => [name, place]));
  const placeOf = ({ outcome, node, shadow }: SpecChange): number =>
    outcome === 'Started' ? (places.get(node.metadata.name) ?? 0) : (shadow.times.stateSince ?? 0);
  return changes.toSorted((a, b) => writeGroupOf(a) - writeGroupOf(b) || placeOf(a) - placeOf(b));
}

/** The write of a spec comes first, and has a record of its own. */
function recordChanges(decisions: Parts<Decision>, { observation, now }: FleetState): RecordChange[] {
  const suspectsOf = new Map(observation.changes.map(({ pair, suspects }) => [pair.name, suspects]));
  const isSuspect = ({ managedNode: { name } }: Decision): boolean => suspectsOf.has(name);
  const others = suspectsOf.size === 0 ? [] : decisions.flat().filter(isSuspect);
  return [...new Set([...concernedIn(decisions).flat(), ...others])].flatMap((decision) => {
    const { managedNode, change, jobs, next, blocked } = decision;
    if (change !== undefined || !isPair(managedNode)) return [];
    const suspects = suspectsOf.get(managedNode.name);
    const found = { next, because: waitsFor(decision, managedNode), hasJobs: jobs !== undefined, suspects, now };
    return recordChange(managedNode, { ...found, startsWaiting: blocked?.startsWaiting === true }) ?? [];
  });
}

/** Of the others only suspects may change. */
const concernedIn = ofParts((part: readonly Decision[]) =>
  part.filter(
    ({ managedNode: { shadow }, blocked }) =>
      shadow !== undefined && (hasRequest(shadow) || blocked?.startsWaiting === true),
  ),
);

type Why = Pick<Blocked, 'reason' | 'message'>;

/** Without what a condition says of the request itself, if that is known. */
function waitsFor({ blocked, progressing }: Decision, { shadow }: NodePair): Why | undefined {
  return blocked ?? progressing ?? (shadow.progressing as Why | undefined);
}
