/**
 * What may disrupt a node without an update: other settings of its host, and taints of its group that evict pods, of which
 * `upkeep/evicting-taints.ts` decides. What disrupts a node takes a slot as an update does.
 *
 * After the updates that start, hosts at rest may change their settings. Their agents have reported what each change
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
 * lost, or with a mistake in the configuration or the group. What needs a reboot is a candidate, as an update is.
 */
import type { NodePair } from '../../cluster/snapshot.ts';
import { type Blocked, firstOf } from '../facts/reasons.ts';
import { type Grant, replacesUnproved } from '../facts/settings.ts';
import type { FleetState } from '../fleet/fleet-state.ts';
import { clockRight, connected, paused, validConfig, watchFresh, windowOpen } from './fleet.ts';
import { notSkipped, podsUnknown, writable } from './node.ts';

/** What speaks against any disruption. */
export const DISRUPTION_GATES = [watchFresh, clockRight, connected, paused, validConfig];

type Member = Pick<NodePair, 'node' | 'group' | 'policy'>;

/** Returns why no slot is free for a node. */
export function whyNoSlot(member: Member, fleetState: FleetState): Blocked | undefined {
  const { controlPlane, capacity } = fleetState;
  return controlPlane.whyNotStarted(member) ?? capacity.check(member) ?? quorumKept(member, fleetState);
}

/** The pods on the node, which show whether it has a member, are listed just before. */
function quorumKept({ node, policy }: Member, { quorums, drains }: FleetState): Blocked | undefined {
  if (!quorums.isUsed) return undefined;
  const found = drains.of(node, policy);
  return found.fresh ? quorums.whyNotStarted({ node, pods: found.pods }) : podsUnknown(found);
}

/** Counts a node that is disrupted. */
export function takeSlot(member: Omit<Member, 'policy'>, { capacity, controlPlane, quorums }: FleetState): void {
  capacity.reserve(member, true);
  controlPlane.starts(member.node);
  quorums.starts(member.node);
}

export interface Grants {
  /** By the name of the node. */
  readonly granted: ReadonlyMap<string, Grant>;
  /** Why others wait, by the name of the node. */
  readonly waiting: ReadonlyMap<string, Blocked>;
}

/** Hosts that get a grant in one plan. */
const MAX_GRANTS = 100;
/** What a restart of services needs of a window. */
const RESTART_MS = 5 * 60_000;

type Due = NodePair & { readonly grant: Grant };

/** @param due - the nodes whose hosts wait for a grant, after the updates that start have reserved their slots */
export function grantsOf(due: readonly Due[], fleetState: FleetState): Grants {
  const granted = new Map<string, Grant>();
  const waiting = new Map<string, Blocked>();
  const inOrder = due.toSorted((a, b) => Number(b.node.ready) - Number(a.node.ready) || (a.name < b.name ? -1 : 1));
  for (const one of inOrder) {
    const blocked = whyNotGranted(one, fleetState);
    if (blocked !== undefined) waiting.set(one.name, blocked);
    else if (granted.size < MAX_GRANTS) {
      granted.set(one.name, one.grant);
      fleetState.settingsRollouts.reserve(one, 'AtRest');
      if (one.grant !== 'Live') takeSlot(one, fleetState);
    }
  }
  return { granted, waiting };
}

function whyNotGranted({ grant, ...one }: Due, fleetState: FleetState): Blocked | undefined {
  const input = { ...fleetState, ...one, needMs: RESTART_MS };
  const isLive = grant === 'Live';
  const gates = [...DISRUPTION_GATES, ready, writable, ...(isLive ? [] : [notSkipped])];
  const blocked = firstOf(gates, input) ?? fleetState.settingsRollouts.check(one, 'AtRest');
  return blocked !== undefined || isLive ? blocked : (windowOpen(input) ?? whyNoSlot(one, fleetState));
}

/** A Node that is not Ready may be so because of what its host has, and only other settings can repair that. */
function ready({ node, shadow }: Pick<NodePair, 'node' | 'shadow'>): Blocked | undefined {
  if (node.ready || replacesUnproved(shadow)) return undefined;
  return { reason: 'NodeNotReady', message: 'The Node is not Ready' };
}
