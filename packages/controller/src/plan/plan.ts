/**
 * Decides what happens next in the fleet: assesses each node, sends the candidates through the gates
 * in their order, and collects what is to be written and why the other nodes wait. The controller
 * calls {@link plan} in each reconcile and `apply/` sends the result. It is pure: the same snapshot
 * and time give the same plan. Whatever users and agents do, no node starts or is drained beyond the
 * limits, outside the windows or while a watch is stale, and a drained node continues to the end.
 */
import type { NodeRecord } from '@brupop/shared/api/record';
import type { EventSource } from '@brupop/shared/kube/events';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { isManaged, type NodeView } from '../cluster/node.ts';
import type { ShadowView } from '../cluster/shadow.ts';
import { isPair, type NodePair, type Snapshot } from '../cluster/snapshot.ts';
import { admit } from './gates/admission.ts';
import { assess, type Assessment, type Decision } from './assess.ts';
import { decideAll, type Grants, KeptDecisions } from './decide.ts';
import { describeSuspects } from './facts/suspects.ts';
import { KeptEach, ofParts, type Parts, Splitter } from '../kept/parts.ts';
import { type FleetState, fleetStateOf, type KeptFactsOfNodes, type NodeFacts } from './fleet/fleet-state.ts';
import { type Blocked, type Candidate, traitsOf } from './facts/reasons.ts';
import type { SuspectsChange } from './fleet/observation.ts';
import { hasRequest, type Refusal, refusedRequest, withoutRequest, withRequestTime } from './facts/requests.ts';
import { eventOn, type SpecChange, specChange } from './specs/spec-change.ts';

/** Which of the taints a Node is to have: while it waits for its update or is updating, and once it has booted the new version. */
export interface TaintChange {
  readonly node: NodeView;
  readonly waiting: boolean;
  readonly startup: boolean;
}

/**
 * What is written to the annotations of a node whose spec stays: the workloads that fail on it, since when it waits for
 * unhealthy pods and a request of a user waits for it, and a request that is refused.
 */
export interface RecordChange {
  readonly shadow: ShadowView;
  readonly node: NodeView;
  readonly record: NodeRecord;
  /** The annotation of a request, which is removed. */
  readonly refused?: string;
  readonly event: EventSource | undefined;
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
  const suspects = new Map(observation.changes.map((one) => [one.pair.name, one]));
  const isSuspect = ({ managedNode: { name } }: Decision): boolean => suspects.has(name);
  const others = suspects.size === 0 ? [] : decisions.flat().filter(isSuspect);
  return [...new Set([...concernedIn(decisions).flat(), ...others])].flatMap((decision) => {
    const { managedNode, change, jobs, next } = decision;
    if (change !== undefined || !isPair(managedNode)) return [];
    const refused = refusedRequest(managedNode.shadow, { next, because: waitsFor(decision, managedNode), now });
    if (refused !== undefined) return [withRefusal(managedNode, refused)];
    if (jobs !== undefined) return [];
    // A user is needed, and must see what could not be read.
    if (managedNode.shadow.record.isUnreadable === true) return [];
    return noted(managedNode, decision, suspects.get(managedNode.name), now);
  });
}

/** Of the others only suspects may change. */
const concernedIn = ofParts((part: readonly Decision[]) =>
  part.filter(
    ({ managedNode: { shadow }, blocked }) =>
      shadow !== undefined && (hasRequest(shadow) || blocked?.startsWaiting === true),
  ),
);

/** Without what a condition says of the request itself, if that is known. */
function waitsFor(
  { blocked, progressing }: Decision,
  { shadow }: NodePair,
): Pick<Blocked, 'reason' | 'message'> | undefined {
  return blocked ?? progressing ?? (shadow.progressing as Pick<Blocked, 'reason' | 'message'> | undefined);
}

/** Since when a request waits is written with what is written anyway, or alone. */
function noted(
  { shadow, node }: NodePair,
  { blocked }: Decision,
  suspects: SuspectsChange | undefined,
  now: number,
): RecordChange[] {
  const record = withRequestTime(shadow, now);
  if (suspects !== undefined) return [withSuspects(suspects, record)];
  const next = blocked?.startsWaiting === true ? { ...record, podsWaitSince: rfc3339(now) } : record;
  return next === shadow.record ? [] : [{ shadow, node, record: next, event: undefined }];
}

/** One Event for each request: a refusal is written once, with the resourceVersion that it was found with. */
function withRefusal({ shadow, node }: NodePair, refusal: Refusal): RecordChange {
  const { annotation, reason, message } = refusal;
  const { uid, resourceVersion } = shadow.metadata;
  const event = eventOn(node, shadow, { reason, message, key: `${uid}/${annotation}/${resourceVersion}` });
  return { shadow, node, record: withoutRequest(shadow, refusal), refused: annotation, event };
}

function withSuspects({ pair: { shadow, node }, suspects }: SuspectsChange, before: NodeRecord): RecordChange {
  const record = { ...before, suspects: suspects.length === 0 ? undefined : suspects };
  const since = suspects[0]?.at ?? shadow.record.suspects?.[0]?.at ?? '';
  const version = shadow.updated?.version ?? '?';
  const event =
    suspects.length > 0
      ? { reason: 'Suspect' as const, message: `Since its update to ${version}, ${describeSuspects(suspects)}` }
      : { reason: 'SuspectEnded' as const, message: 'No workload fails on the node any more' };
  const key = `${shadow.metadata.uid}/${since}/${suspects.map(({ workload }) => workload).join(' ')}`;
  return { shadow, node, record, event: eventOn(node, shadow, { ...event, key }) };
}
