/**
 * Decides which hosts at rest may change their settings now. Their agents have told what each change
 * disrupts (`facts/settings.ts`). In each group, for the same settings:
 *
 *     until one node has proved them    one node at a time
 *     then, if nothing restarts         many nodes at once
 *     then, if services restart         within the limits of spec.concurrency, inside the windows, one node of
 *                                       the control plane at a time, while quorums can do without it, and
 *                                       not on nodes that a user has left out with the annotation skip
 *     too many nodes have failed        none, until the settings change or a user sets rollout.resume
 *
 * Nothing is granted during a pause, while watches are stale, the clock is wrong or connectivity is
 * lost, or with a mistake in the configuration or the group. What needs a reboot is a candidate in `plan.ts`, as an update is.
 */
import type { ManagedNode } from '../cluster/snapshot.ts';
import type { Decision } from './assess.ts';
import type { FleetState } from './fleet.ts';
import { clockRight, connected, paused, validConfig, watchFresh, windowOpen } from './gates/fleet.ts';
import { notSkipped, writable } from './gates/node.ts';
import { quorumKeptOtherwise } from './gates/quorums.ts';
import { type Blocked, firstOf } from './gates/reasons.ts';

/** Hosts that get a grant in one plan. */
const MAX_GRANTS = 100;
/** What a restart of services needs of a window. */
const RESTART_MS = 5 * 60_000;

export interface Grants {
  /** By the name of the node. */
  readonly granted: ReadonlyMap<string, 'Live' | 'RestartsService'>;
  /** Why others wait, by the name of the node. */
  readonly waiting: ReadonlyMap<string, Blocked>;
}

/** @param decisions - after the updates that start have reserved their slots */
export function grantsOf(decisions: readonly Decision[], fleetState: FleetState): Grants {
  const granted = new Map<string, 'Live' | 'RestartsService'>();
  const waiting = new Map<string, Blocked>();
  const due = decisions.filter(({ grant, change }) => grant !== undefined && change === undefined);
  if (due.length === 0) return { granted, waiting };
  for (const decision of due.toSorted((a, b) => (a.managedNode.name < b.managedNode.name ? -1 : 1))) {
    const { name, node, group } = decision.managedNode;
    if (decision.grant === undefined || node === undefined) continue;
    const blocked = whyNotGranted(decision, fleetState);
    if (blocked !== undefined) {
      waiting.set(name, blocked);
    } else if (granted.size < MAX_GRANTS) {
      granted.set(name, decision.grant);
      fleetState.settingsRollouts.changes(decision.managedNode);
      if (decision.grant === 'RestartsService') {
        fleetState.capacity.reserve({ node, group }, true);
        fleetState.controlPlane.starts(node);
        fleetState.quorums.starts(node);
      }
    }
  }
  return { granted, waiting };
}

function whyNotGranted({ managedNode, grant }: Decision, fleetState: FleetState): Blocked | undefined {
  const { node, group, policy } = managedNode;
  if (node === undefined) return undefined;
  const input = { ...fleetState, ...managedNode, node, policy, needMs: RESTART_MS };
  const gates = grant === 'Live' ? GATES : [...GATES, notSkipped];
  const blocked = firstOf(gates, input) ?? fleetState.settingsRollouts.whyNotChanged(managedNode);
  if (blocked !== undefined || grant === 'Live') return blocked;
  return (
    windowOpen(input) ??
    fleetState.controlPlane.whyNotStarted(input) ??
    fleetState.capacity.check({ node, group }) ??
    quorumKeptOtherwise(fleetState, node, policy)
  );
}

/** What speaks against any disruption. */
const GATES = [watchFresh, clockRight, connected, paused, validConfig, ready, writable];

function ready({ node }: Pick<ManagedNode, 'node'>): Blocked | undefined {
  return node?.ready === false ? { reason: 'NodeNotReady', message: 'The Node is not Ready' } : undefined;
}
