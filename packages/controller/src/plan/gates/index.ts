/**
 * The update policy as an ordered list. A node starts its update when it passes all gates; the first
 * that blocks it is the reason shown. `plan.ts` asks for each candidate in its order, and again, with
 * fewer gates, before a staged node is drained. A gate depends on nothing but its input.
 */
import { capacity, connected, notFrozen, paused, validConfig, watchFresh, windowOpen } from './fleet.ts';
import {
  allowedVersion,
  drainNotBlocked,
  nodeHealthy,
  nodeReady,
  notCordonedExternally,
  notSkipped,
  offeredVersion,
  podsListed,
  restored,
  selected,
  validVersion,
  writable,
} from './node.ts';
import type { Blocked, Gate, GateInput } from './reasons.ts';
import { backoff } from './retry.ts';

const GATES: readonly Gate[] = [
  watchFresh,
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
  writable,
  notFrozen,
  windowOpen,
  drainNotBlocked,
  capacity,
  podsListed,
];

export function whyNot(input: GateInput): Blocked | undefined {
  return firstOf(GATES, input);
}

const DRAIN_GATES: readonly Gate[] = [
  watchFresh,
  connected,
  notFrozen,
  selected,
  notSkipped,
  allowedVersion,
  nodeReady,
  nodeHealthy,
  notCordonedExternally,
  windowOpen,
];

export function whyNotDrained(input: GateInput): Blocked | undefined {
  return firstOf(DRAIN_GATES, input);
}

function firstOf(gates: readonly Gate[], input: GateInput): Blocked | undefined {
  for (const gate of gates) {
    const blocked = gate(input);
    if (blocked !== undefined) return blocked;
  }
  return undefined;
}
