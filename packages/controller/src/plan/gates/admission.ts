/**
 * The update policy as an ordered list of gates, and who passes them. A node starts its update when it passes all; the first
 * that blocks it is the reason shown. They are asked for each candidate in its order, and again, with fewer gates, before a
 * staged node is drained. A gate depends on nothing but its input. A node that starts, or whose drain begins, takes its slot
 * at once, so one plan never exceeds the limits.
 *
 * A rollback holds its slot, and what it goes back to was good: only what makes any disruption unsafe or impossible stops
 * it, at its start as before its drain.
 */
import { createHash } from 'node:crypto';
import { isFromFuture } from '@brupop/shared/api/deadlines';
import { PRIORITY_ANNOTATION } from '@brupop/shared/api/names';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { NodeView } from '../../cluster/node.ts';
import { endedByConfig, groupAtStart } from '../../cluster/shadow.ts';
import type { Snapshot } from '../../cluster/snapshot.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import { failures } from '../facts/attempts.ts';
import { isOverdue } from '../facts/deadlines.ts';
import type { Drains } from '../facts/drainability.ts';
import { expectedMs, usualMsOf } from '../facts/estimates.ts';
import type { FrozenVersion } from '../facts/freezes.ts';
import { problemCondition } from '../facts/health.ts';
import type { FleetState } from '../fleet/fleet-state.ts';
import * as applications from './applications.ts';
import * as fleet from './fleet.ts';
import * as node from './node.ts';
import * as retry from './retry.ts';
import { type Blocked, type Candidate, firstOf } from '../facts/reasons.ts';
import type { Gate, GateInput } from './gate.ts';

type Point = 'Start' | 'Drain' | 'StartOfRollback' | 'DrainOfRollback';

const ALWAYS: readonly Point[] = ['Start', 'Drain', 'StartOfRollback', 'DrainOfRollback'];
const UPDATES: readonly Point[] = ['Start', 'Drain'];
const ROLLBACKS: readonly Point[] = ['StartOfRollback', 'DrainOfRollback'];
/** What is asked before a start was true then, or is asked otherwise before the drain. */
const STARTS: readonly Point[] = ['Start', 'StartOfRollback'];
const DRAINS: readonly Point[] = ['Drain', 'DrainOfRollback'];

/** In the order in which they are asked, and where each is. */
const GATES: readonly (readonly [gate: Gate, at: readonly Point[]])[] = [
  [fleet.watchFresh, ALWAYS],
  [fleet.clockRight, ALWAYS],
  [fleet.connected, ALWAYS],
  [fleet.validGroup, ['Drain']],
  // Before its drain, a version that has been frozen meanwhile comes first.
  [fleet.notFrozen, ['Drain']],
  [applications.notHeld, ['Drain']],
  [fleet.paused, STARTS],
  [fleet.validConfig, STARTS],
  [node.selected, ALWAYS],
  [node.notSkipped, ALWAYS],
  [node.validVersion, ['Start']],
  [node.allowedVersion, UPDATES],
  [node.offeredVersion, STARTS],
  [node.agentCurrent, ROLLBACKS],
  [node.nodeReady, UPDATES],
  [node.nodeHealthy, UPDATES],
  [node.notCordonedExternally, ALWAYS],
  [node.restored, STARTS],
  [retry.backoff, STARTS],
  [retry.notRolledBack, ['Start']],
  [retry.notAborted, STARTS],
  [node.writable, STARTS],
  [fleet.notFrozen, ['Start']],
  [applications.notHeld, ['Start']],
  [fleet.inTurn, ['Start']],
  [fleet.windowOpen, UPDATES],
  [node.drainNotBlocked, STARTS],
  [node.podsHealthy, ['Start']],
  [fleet.controlPlaneFree, ALWAYS],
  [fleet.capacity, ['Start']],
  [applications.firstNodesObserved, ['Start']],
  [applications.checksPass, ['Start']],
  [applications.workloadsReady, UPDATES],
  [applications.quorumKept, STARTS],
  [applications.quorumKeptByDrain, DRAINS],
  [node.podsListed, STARTS],
];

const gatesAt = (point: Point): readonly Gate[] => GATES.flatMap(([gate, at]) => (at.includes(point) ? [gate] : []));
const ASKED: Readonly<Record<Point, readonly Gate[]>> = {
  Start: gatesAt('Start'),
  Drain: gatesAt('Drain'),
  StartOfRollback: gatesAt('StartOfRollback'),
  DrainOfRollback: gatesAt('DrainOfRollback'),
};

export function whyNot(input: GateInput): Blocked | undefined {
  return firstOf(gatesAtStart(input), input);
}

function gatesAtStart({ isRollback }: GateInput): readonly Gate[] {
  return ASKED[isRollback ? 'StartOfRollback' : 'Start'];
}

/** Asks the gates for one candidate after the other, since each that starts reserves a slot. */
export function admit(
  candidates: readonly Candidate[],
  fleetState: FleetState,
  { ownNode }: Pick<Snapshot, 'ownNode'>,
): Map<Candidate, Blocked | undefined> {
  const { quorums, drains, now } = fleetState;
  // Its drain can only succeed if its cordon opens disruption budgets.
  const isBlocked = ({ node, policy }: Candidate): boolean => drains.known(node, policy).mayOpen;
  return new Map(
    inOrder(candidates, { ownNode, isBlocked, isLast: (node) => quorums.isLast(node), now }).map((candidate) => {
      const input = inputAtStart(candidate, fleetState);
      const blocked = whyNot(input);
      if (blocked === undefined || holdsPosition(blocked, input, drains)) reserve(candidate, fleetState);
      else applications.goesBeforeLast(input, blocked);
      return [candidate, blocked];
    }),
  );
}

/** True for a node whose pods must be listed first, unless only its own list fails, or they keep it from starting anyway. */
function holdsPosition(blocked: Blocked, input: GateInput, { noListWorks }: Drains): boolean {
  const { lookUp = false, keepsPosition = false, isUnknown = false } = blocked;
  if (lookUp && node.isKeptByPods(input, blocked)) return false;
  return keepsPosition || isUnknown || (lookUp && noListWorks);
}

/**
 * For users: what each gate says of a candidate that the plan has not started, after those that it has. In their order, by
 * the name of the gate, also those after the first that blocks.
 */
export function gatesOf(candidate: Candidate, fleetState: FleetState): [gate: string, answer: Blocked | undefined][] {
  const input = inputAtStart(candidate, fleetState);
  return gatesAtStart(input).map((gate) => [gate.name, gate(input)]);
}

function inputAtStart(candidate: Candidate, fleetState: FleetState): GateInput {
  const { shadow, policy, isRollback } = candidate;
  const { capacity, controlPlane } = fleetState;
  return gateInput(candidate, fleetState, {
    needMs: expectedMs(shadow, usualMsOf(policy, fleetState.measuredMs)) + policy.maintenance.marginMs,
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

/** The rest of its update has to fit into the window. */
export function whyNotDrainedNow(candidate: Candidate, fleetState: FleetState): Blocked | undefined {
  const { name, node, shadow, policy } = candidate;
  const { now } = fleetState;
  const since = shadow.times.startedAt ?? now;
  const expected = expectedMs(shadow, usualMsOf(policy, fleetState.measuredMs));
  const needMs = Math.max(1, policy.maintenance.marginMs + Math.max(0, expected - (now - since)));
  // The slot of a rollback is that of the update that failed.
  const overLimit = fleetState.nodesOverLimit.has(name) && !candidate.isRollback ? OVER_LIMIT : undefined;
  const late = isOverdue(shadow, policy, fleetState.moment) ? LATE : undefined;
  const controlPlane = fleetState.controlPlane.whyNotDrained(candidate);
  const input = gateInput(candidate, fleetState, { ...NO_LIMITS, controlPlane, needMs });
  const gates = ASKED[candidate.isRollback ? 'DrainOfRollback' : 'Drain'];
  const blocked = firstOf(gates, input) ?? overLimit ?? late;
  // Its pods count as gone for the nodes that are assessed after it.
  if (blocked === undefined) {
    fleetState.workloads.drains(node);
    fleetState.controlPlane.drains(node);
    fleetState.quorums.drains(node);
  }
  return blocked;
}

/** What gates ask, of the node and of the fleet. */
function gateInput(
  candidate: Candidate,
  fleetState: FleetState,
  limits: Pick<GateInput, 'capacity' | 'othersFirst' | 'controlPlane' | 'needMs'>,
): GateInput {
  const { policy: fleet, stale, connectivity, clockSkewMs, offeredSince, ownNamespace, now, moment } = fleetState;
  const { checks, workloads, quorums, observation, drains } = fleetState;
  const { capacity, othersFirst, controlPlane, needMs } = limits;
  // One field after the other: of all nodes that wait, spread syntax takes longer than most gates.
  return {
    ...candidate,
    fleet,
    stale,
    connectivity,
    clockSkewMs,
    frozen: frozenFor(candidate, fleetState),
    offeredSince,
    checks,
    workloads,
    quorums,
    held: observation.heldFor(candidate),
    unobserved: () => observation.unknownFor(candidate),
    ownNamespace,
    capacity,
    othersFirst,
    controlPlane,
    needMs,
    drain: () => drains.of(candidate.node, candidate.policy),
    now,
    moment,
  };
}

/** What is frozen for the fleet, and for the group. */
function frozenFor(
  { group }: Pick<Candidate, 'group'>,
  { frozen, groupFreezes: ofGroups }: Pick<FleetState, 'frozen' | 'groupFreezes'>,
): readonly FrozenVersion[] {
  const own = group && ofGroups.get(group.name)?.frozen;
  return own === undefined || own.length === 0 ? frozen : [...frozen, ...own];
}

/** It releases its slot, so that a node whose pods cannot be listed does not stop the fleet. */
const LATE: Blocked = {
  reason: 'WaitingForCapacity',
  message: 'Its drain could not start before the deadline of its staging',
};
/** They were asked before the node started. */
const NO_LIMITS = { capacity: undefined, othersFirst: undefined };
const OVER_LIMIT: Blocked = {
  reason: 'WaitingForCapacity',
  message: 'More nodes are unavailable than the limits allow',
};

/** Compared value by value; the smaller one is first. */
type Rank = readonly [
  blocked: number,
  last: number,
  requested: number,
  lastAttempt: number,
  own: number,
  health: number,
  priority: number,
  failures: number,
  order: string,
  name: string,
];

/** A node whose latest attempt started within this time goes behind the nodes that had none. */
const RECENT_MS = 24 * 60 * 60_000;

interface Ordering {
  readonly ownNode: string;
  /** Its drain can only succeed if its cordon opens disruption budgets. */
  readonly isBlocked?: (candidate: Candidate) => boolean;
  /** A member of a quorum on it goes after the others. */
  readonly isLast?: (node: NodeView) => boolean;
  readonly now: number;
}

/**
 * Sorts candidates: the nodes whose pods disruption budgets hold go last, and before them those with the last members of
 * quorums. Of the others, first those that a user asks for now, also of nodes with such pods; then those
 * without a recent attempt, then by the start of their latest attempt. After that, the node of the
 * controller goes last, and the rest is sorted by health, priority, fewest failures, `order` and name. A
 * kubelet may set its priority, and an agent may report any failure or success, so neither moves a node
 * before one without a recent attempt.
 */
export function inOrder(candidates: readonly Candidate[], ordering: Ordering): Candidate[] {
  return candidates
    .map((candidate) => ({ candidate, rank: rankOf(candidate, ordering) }))
    .toSorted((a, b) => compare(a.rank, b.rank))
    .map(({ candidate }) => candidate);
}

function rankOf(candidate: Candidate, { ownNode, isBlocked, isLast, now }: Ordering): Rank {
  const { node, shadow, version, status, policy, isRequested = false } = candidate;
  const { order } = policy;
  const { name, uid, annotations = {} } = node.metadata;
  // A hash costs more than all the rest: only if it decides.
  const positions = { Name: () => '', Random: () => shuffled(uid, version), OldestBoot: () => byTime(status.bootTime) };
  const position = positions[order]();
  const own = name === ownNode ? 1 : 0;
  return [
    isBlocked?.(candidate) === true && !isRequested ? 1 : 0,
    isLast?.(node) === true ? 1 : 0,
    isRequested ? 0 : 1,
    lastAttempt(candidate, now),
    own,
    healthRank(node, policy),
    -priority(annotations[PRIORITY_ANNOTATION]),
    failures(shadow),
    position,
    name,
  ];
}

/** As `spec.health.unhealthyNodes` says. */
function healthRank(node: NodeView, { health }: Pick<UpdatePolicy, 'health'>): number {
  if (health.unhealthyNodes === 'Wait' || problemCondition(node, { health }) === undefined) return 0;
  return health.unhealthyNodes === 'First' ? -1 : 1;
}

/** Sorts like the time, an unknown one last: groups may have different orders. */
function byTime(time: string | null | undefined): string {
  return String(parseTime(time) ?? Number.MAX_SAFE_INTEGER).padStart(16, '0');
}

/** When the latest attempt started, epoch milliseconds; 0: not within RECENT_MS. */
function lastAttempt({ shadow, former, group }: Candidate, now: number): number {
  // A kubelet may move its Node to a group whose window closes, to try again in another one.
  const isExcused = endedByConfig(shadow) && groupAtStart(shadow) === (group?.name ?? '');
  const since = Math.max(isExcused ? 0 : (shadow.times.startedAt ?? 0), former?.startedAt ?? 0);
  return since > now - RECENT_MS && !isFromFuture(since, now) ? since : 0;
}

/** The same order for as long as the fleet goes to the same version. */
function shuffled(uid: string, version: string): string {
  return createHash('sha256').update(`${uid}/${version}`).digest('hex');
}

function priority(text: string | undefined): number {
  return text !== undefined && /^-?\d{1,9}$/u.test(text) ? Number(text) : 0;
}

function compare(a: Rank, b: Rank): number {
  // One value after the other: of all nodes that wait, a callback for each takes longer than the ranks.
  for (let at = 0; at < a.length; at += 1) {
    const [x = 0, y = 0] = [a[at], b[at]];
    if (x !== y) return x < y ? -1 : 1;
  }
  return 0;
}
