import type { Wait } from '../reasons.ts';
import { backoff } from './backoff.ts';
import { capacity } from './capacity.ts';
import { notCordonedByOthers, restored } from './cordon.ts';
import { notHopeless, podsSeen } from './drainable.ts';
import { freshView } from './fresh-view.ts';
import type { Gate, GateInput } from './gate.ts';
import { nodeReady } from './node-ready.ts';
import { paused } from './paused.ts';
import { readableVersion } from './readable-version.ts';
import { validConfig } from './valid-config.ts';
import { writable } from './writable.ts';

export type { Candidate, GateInput } from './gate.ts';

/** The policy: a node begins its update when it passes all of these; the first that holds it back is the reason shown. */
export const GATES: readonly Gate[] = [
  freshView,
  paused,
  validConfig,
  readableVersion,
  nodeReady,
  notCordonedByOthers,
  restored,
  backoff,
  writable,
  notHopeless,
  capacity,
  podsSeen,
];

/** Why the node does not begin its update now, or undefined: it does. */
export function whyNot(input: GateInput): Wait | undefined {
  for (const gate of GATES) {
    const wait = gate(input);
    if (wait !== undefined) return wait;
  }
  return undefined;
}
