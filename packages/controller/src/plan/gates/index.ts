import type { Blocked } from '../reasons.ts';
import { capacity, paused, validConfig, watchFresh, windowOpen } from './fleet.ts';
import type { Gate, GateInput } from './gate.ts';
import {
  drainNotBlocked,
  nodeReady,
  notCordonedExternally,
  notSkipped,
  podsListed,
  restored,
  selected,
  writable,
} from './node.ts';
import { backoff } from './retry.ts';
import { allowedVersion, offeredVersion, validVersion } from './version.ts';

export type { Candidate, GateInput } from './gate.ts';

/** A node starts its update when it passes all gates; the first that blocks it is the reason shown. */
export const GATES: readonly Gate[] = [
  watchFresh,
  paused,
  validConfig,
  selected,
  notSkipped,
  validVersion,
  allowedVersion,
  offeredVersion,
  nodeReady,
  notCordonedExternally,
  restored,
  backoff,
  writable,
  windowOpen,
  drainNotBlocked,
  capacity,
  podsListed,
];

/** Returns why the node does not start its update now; undefined: it starts. */
export function whyNot(input: GateInput): Blocked | undefined {
  return firstOf(GATES, input);
}

/** Checked again before a staged node is drained. */
const DRAIN_GATES: readonly Gate[] = [
  watchFresh,
  selected,
  notSkipped,
  allowedVersion,
  nodeReady,
  notCordonedExternally,
  windowOpen,
];

/** Returns why a staged node must not be drained now, or undefined. */
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
