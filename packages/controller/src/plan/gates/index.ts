/**
 * The update policy as an ordered list. A node starts its update when it passes all gates; the first
 * that blocks it is the reason shown. `plan.ts` asks for each candidate in its order, and again, with
 * fewer gates, before a staged node is drained. A gate depends on nothing but its input.
 *
 * A rollback holds its slot, and what it goes back to was good: only what makes any disruption unsafe or impossible stops
 * it, at its start as before its drain.
 */
import {
  checksPass,
  firstNodesObserved,
  notHeld,
  quorumKept,
  quorumKeptByDrain,
  workloadsReady,
} from './applications.ts';
import {
  capacity,
  clockRight,
  connected,
  controlPlaneFree,
  inTurn,
  notFrozen,
  paused,
  validConfig,
  validGroup,
  watchFresh,
  windowOpen,
} from './fleet.ts';
import {
  agentCurrent,
  allowedVersion,
  drainNotBlocked,
  nodeHealthy,
  nodeReady,
  notCordonedExternally,
  notSkipped,
  offeredVersion,
  podsHealthy,
  podsListed,
  restored,
  selected,
  validVersion,
  writable,
} from './node.ts';
import { type Blocked, firstOf, type Gate, type GateInput } from './reasons.ts';
import { backoff, notAborted, notRolledBack } from './retry.ts';

type Point = 'Start' | 'Drain' | 'StartOfRollback' | 'DrainOfRollback';

const ALWAYS: readonly Point[] = ['Start', 'Drain', 'StartOfRollback', 'DrainOfRollback'];
const UPDATES: readonly Point[] = ['Start', 'Drain'];
const ROLLBACKS: readonly Point[] = ['StartOfRollback', 'DrainOfRollback'];
/** What is asked before a start was true then, or is asked otherwise before the drain. */
const STARTS: readonly Point[] = ['Start', 'StartOfRollback'];
const DRAINS: readonly Point[] = ['Drain', 'DrainOfRollback'];

/** In the order in which they are asked, and where each is. */
const GATES: readonly (readonly [gate: Gate, at: readonly Point[]])[] = [
  [watchFresh, ALWAYS],
  [clockRight, ALWAYS],
  [connected, ALWAYS],
  [validGroup, ['Drain']],
  // Before its drain, a version that has been frozen meanwhile comes first.
  [notFrozen, ['Drain']],
  [notHeld, ['Drain']],
  [paused, STARTS],
  [validConfig, STARTS],
  [selected, ALWAYS],
  [notSkipped, ALWAYS],
  [validVersion, ['Start']],
  [allowedVersion, UPDATES],
  [offeredVersion, STARTS],
  [agentCurrent, ROLLBACKS],
  [nodeReady, UPDATES],
  [nodeHealthy, UPDATES],
  [notCordonedExternally, ALWAYS],
  [restored, STARTS],
  [backoff, STARTS],
  [notRolledBack, ['Start']],
  [notAborted, STARTS],
  [writable, STARTS],
  [notFrozen, ['Start']],
  [notHeld, ['Start']],
  [inTurn, ['Start']],
  [windowOpen, UPDATES],
  [drainNotBlocked, STARTS],
  [podsHealthy, ['Start']],
  [controlPlaneFree, ALWAYS],
  [capacity, ['Start']],
  [firstNodesObserved, ['Start']],
  [checksPass, ['Start']],
  [workloadsReady, UPDATES],
  [quorumKept, STARTS],
  [quorumKeptByDrain, DRAINS],
  [podsListed, STARTS],
];

const gatesAt = (point: Point): readonly Gate[] => GATES.flatMap(([gate, at]) => (at.includes(point) ? [gate] : []));
const ASKED: Readonly<Record<Point, readonly Gate[]>> = {
  Start: gatesAt('Start'),
  Drain: gatesAt('Drain'),
  StartOfRollback: gatesAt('StartOfRollback'),
  DrainOfRollback: gatesAt('DrainOfRollback'),
};

export function whyNot(input: GateInput): Blocked | undefined {
  return firstOf(ASKED[input.isRollback ? 'StartOfRollback' : 'Start'], input);
}

/** What each gate says at a start, in their order, by its name; also those after the first that blocks. */
export function answersAtStart(input: GateInput): [gate: string, answer: Blocked | undefined][] {
  return ASKED[input.isRollback ? 'StartOfRollback' : 'Start'].map((gate) => [gate.name, gate(input)]);
}

export function whyNotDrained(input: GateInput): Blocked | undefined {
  return firstOf(ASKED[input.isRollback ? 'DrainOfRollback' : 'Drain'], input);
}
