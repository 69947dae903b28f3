import type { Wait } from '../reasons.ts';
import { allowedVersion, offeredVersion } from './allowed-version.ts';
import { backoff } from './backoff.ts';
import { capacity } from './capacity.ts';
import { notCordonedByOthers, restored } from './cordon.ts';
import { notHopeless, podsSeen } from './drainable.ts';
import { freshView } from './fresh-view.ts';
import type { Gate, GateInput } from './gate.ts';
import { nodeReady } from './node-ready.ts';
import { paused } from './paused.ts';
import { readableVersion } from './readable-version.ts';
import { notSkipped, selected } from './skipped.ts';
import { validConfig } from './valid-config.ts';
import { windowOpen } from './window.ts';
import { writable } from './writable.ts';

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
export function whyNot(input: GateInput): Wait | undefined {
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
export function whyNotDrained(input: GateInput): Wait | undefined {
  return firstOf(DRAIN_GATES, input);
}

function firstOf(gates: readonly Gate[], input: GateInput): Wait | undefined {
  for (const gate of gates) {
    const wait = gate(input);
    if (wait !== undefined) return wait;
  }
  return undefined;
}
