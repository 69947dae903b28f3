/**
 * The update policy as an ordered list. A node starts its update when it passes all gates; the first
 * that blocks it is the reason shown. `plan.ts` asks for each candidate in its order, and again, with
 * fewer gates, before a staged node is drained. A gate depends on nothing but its input.
 *
 * A rollback holds its slot, and what it goes back to was good: only what makes any disruption unsafe or impossible stops
 * it, at its start as before its drain.
 */
import * as applications from './applications.ts';
import * as fleet from './fleet.ts';
import * as node from './node.ts';
import { type Blocked, firstOf } from '../facts/reasons.ts';
import type { Gate, GateInput } from './gate.ts';
import * as retry from './retry.ts';

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
  return firstOf(ASKED[input.isRollback ? 'StartOfRollback' : 'Start'], input);
}

/** What each gate says at a start, in their order, by its name; also those after the first that blocks. */
export function answersAtStart(input: GateInput): [gate: string, answer: Blocked | undefined][] {
  return ASKED[input.isRollback ? 'StartOfRollback' : 'Start'].map((gate) => [gate.name, gate(input)]);
}

export function whyNotDrained(input: GateInput): Blocked | undefined {
  return firstOf(ASKED[input.isRollback ? 'DrainOfRollback' : 'Drain'], input);
}
