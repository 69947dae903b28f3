/**
 * The update policy as an ordered list. A node starts its update when it passes all gates; the first
 * that blocks it is the reason shown. `plan.ts` asks for each candidate in its order, and again, with
 * fewer gates, before a staged node is drained. A gate depends on nothing but its input.
 */
import { checksPass } from './checks.ts';
import {
  capacity,
  clockRight,
  connected,
  controlPlaneFree,
  groupsInOrder,
  notFrozen,
  paused,
  released,
  settingsProved,
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
import { quorumKept, quorumKeptByDrain } from './quorums.ts';
import { type Blocked, firstOf, type Gate, type GateInput } from './reasons.ts';
import { backoff, notRolledBack } from './retry.ts';
import { workloadsReady } from './workloads.ts';

const GATES: readonly Gate[] = [
  watchFresh,
  clockRight,
  connected,
  paused,
  validConfig,
  selected,
  notSkipped,
  validVersion,
  allowedVersion,
  offeredVersion,
  nodeReady,
  nodeHealthy,
  notCordonedExternally,
  restored,
  backoff,
  notRolledBack,
  writable,
  notFrozen,
  released,
  groupsInOrder,
  settingsProved,
  windowOpen,
  drainNotBlocked,
  podsHealthy,
  controlPlaneFree,
  capacity,
  checksPass,
  workloadsReady,
  quorumKept,
  podsListed,
];

/** A rollback holds its slot, and what it goes back to was good; only what makes any disruption unsafe or impossible stops it. */
const ROLLBACK_GATES: readonly Gate[] = [
  watchFresh,
  clockRight,
  connected,
  paused,
  validConfig,
  selected,
  notSkipped,
  offeredVersion,
  agentCurrent,
  notCordonedExternally,
  restored,
  backoff,
  writable,
  drainNotBlocked,
  controlPlaneFree,
  quorumKept,
  podsListed,
];

export function whyNot(input: GateInput): Blocked | undefined {
  return firstOf(input.isRollback ? ROLLBACK_GATES : GATES, input);
}

const DRAIN_GATES: readonly Gate[] = [
  watchFresh,
  clockRight,
  connected,
  validGroup,
  notFrozen,
  selected,
  notSkipped,
  allowedVersion,
  nodeReady,
  nodeHealthy,
  notCordonedExternally,
  windowOpen,
  controlPlaneFree,
  workloadsReady,
  quorumKeptByDrain,
];

const ROLLBACK_DRAIN_GATES: readonly Gate[] = [
  watchFresh,
  clockRight,
  connected,
  selected,
  notSkipped,
  agentCurrent,
  notCordonedExternally,
  controlPlaneFree,
  quorumKeptByDrain,
];

export function whyNotDrained(input: GateInput): Blocked | undefined {
  return firstOf(input.isRollback ? ROLLBACK_DRAIN_GATES : DRAIN_GATES, input);
}
