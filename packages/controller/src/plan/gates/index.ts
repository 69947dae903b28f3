import type { Blocked } from '../reasons.ts';
import { notHopeless, podsSeen } from './drain.ts';
import { capacity, freshView, paused, validConfig } from './fleet.ts';
import type { Gate, GateInput } from './gate.ts';
import { nodeReady, notCordonedByOthers, restored, writable } from './node.ts';
import { backoff } from './retry.ts';
import { notSkipped, selected } from './selection.ts';
import { allowedVersion, offeredVersion, readableVersion } from './version.ts';
import { windowOpen } from './window.ts';

export type { Candidate, GateInput } from './gate.ts';

/** The policy: a node begins its update when it passes all of these; the first that holds it back is the reason shown. */
export const GATES: readonly Gate[] = [
  freshView,
  paused,
  validConfig,
  selected,
  notSkipped,
  readableVersion,
  allowedVersion,
  offeredVersion,
  nodeReady,
  notCordonedByOthers,
  restored,
  backoff,
  writable,
  windowOpen,
  notHopeless,
  capacity,
  podsSeen,
];

/** Why the node does not begin its update now, or undefined: it does. */
export function whyNot(input: GateInput): Blocked | undefined {
  return firstOf(GATES, input);
}

/** What has changed since a node began to stage its version may keep it from being drained: these are asked again. */
const DRAIN_GATES: readonly Gate[] = [
  freshView,
  selected,
  notSkipped,
  allowedVersion,
  nodeReady,
  notCordonedByOthers,
  windowOpen,
];

/** Why a node that has staged its version must not be drained now, or undefined. */
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
