/**
 * Decides which Nodes may get a taint of their group now that evicts pods, which an eviction by the taint manager does
 * without disruption budgets. In each group, for the same taints:
 *
 *     until one node has had them for TAINT_PROVING_MS, and is Ready    one node at a time
 *     then                                                        within the limits of spec.concurrency
 *
 * Only inside the windows, and not during a pause, while watches are stale, the clock is wrong or connectivity is lost,
 * with a mistake in the configuration or the group, on a node that updates, or on one that a user has left out. A node that
 * has just got such a taint holds an update slot for TAINT_PROVING_MS (`facts/slots.ts`). It does not matter why a node is
 * to get the taint: an edited group, another selector or precedence, a label of the Node, or a removed taint.
 */
import { type Rendered, taintId } from '@brupop/shared/api/node-metadata';
import type { NodeView } from '../cluster/node.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { namesOf } from './capacity.ts';
import { TAINT_PROVING_MS } from './facts/slots.ts';
import type { FleetState } from './fleet.ts';
import { clockRight, connected, paused, validConfig, watchFresh, windowOpen } from './gates/fleet.ts';
import { notSkipped } from './gates/node.ts';
import type { MetadataChange, NodeMetadataPlan } from './node-metadata.ts';

/** A node that is not Ready holds up the others for this long after it got the taints: then the cause is another one. */
const UNREADY_COUNTS_MS = 10 * 60_000;
/** What the eviction needs of a window. */
const EVICTION_MS = 5 * 60_000;

/** Removes the changes that have to wait, and says why in the metadata of their groups. */
export function withoutEvictions(fleetState: FleetState, managedNodes: readonly ManagedNode[]): NodeMetadataPlan {
  const { metadata } = fleetState;
  if (!metadata.changes.some(({ evicts }) => evicts)) return metadata;
  const byName = new Map(managedNodes.map((one) => [one.name, one]));
  const waiting = new Map<string, string>();
  const times: (number | undefined)[] = [];
  const changes = metadata.changes
    .toSorted((a, b) => (a.node.metadata.name < b.node.metadata.name ? -1 : 1))
    .filter((change) => {
      if (!change.evicts) return true;
      const blocked = whyNot(change, byName.get(change.node.metadata.name), managedNodes, fleetState);
      if (blocked === undefined) return true;
      if (change.wanted !== undefined && !waiting.has(change.wanted.group))
        waiting.set(change.wanted.group, blocked.message);
      times.push(blocked.retryAt);
      return false;
    });
  const byGroup = new Map(
    [...metadata.byGroup].map(([name, found]) => [name, { ...found, waitsFor: waiting.get(name) }] as const),
  );
  return { ...metadata, changes, byGroup, times: [...metadata.times, ...times] };
}

interface Waits {
  readonly message: string;
  readonly retryAt?: number;
}

/** Reserves a slot for a node that may get them. */
function whyNot(
  { node, wanted }: MetadataChange,
  managedNode: ManagedNode | undefined,
  managedNodes: readonly ManagedNode[],
  fleetState: FleetState,
): Waits | undefined {
  if (managedNode === undefined || wanted === undefined) return undefined;
  const { group, policy } = managedNode;
  const input = { ...fleetState, ...managedNode, node, policy, needMs: EVICTION_MS };
  const gates = [watchFresh, clockRight, connected, paused, validConfig, notSkipped, windowOpen];
  const blocked =
    gates.map((gate) => gate(input)).find((found) => found !== undefined) ??
    (fleetState.slots.has(managedNode) ? { message: 'It is updating' } : undefined) ??
    whyNotMore(managedNodes, wanted.rendered, { group: wanted.group, fleetState }) ??
    fleetState.controlPlane.whyNotStarted({ node, policy }) ??
    fleetState.capacity.check({ node, group });
  if (blocked !== undefined) return { ...blocked, message: `${node.metadata.name}: ${blocked.message}` };
  fleetState.capacity.reserve({ node, group }, true);
  fleetState.controlPlane.starts(node);
  fleetState.evicted.add(node.metadata.name);
  return undefined;
}

/** Undefined: a node of the group has proved the taints, or none has got them yet. */
function whyNotMore(
  managedNodes: readonly ManagedNode[],
  rendered: Rendered,
  { group, fleetState: { evicted, now } }: { readonly group: string; readonly fleetState: FleetState },
): Waits | undefined {
  const ofGroup = managedNodes.filter((one) => one.group?.name === group);
  const tainted = ofGroup.filter(
    ({ name, node }) => evicted.has(name) || (node !== undefined && hasTaints(node, rendered)),
  );
  const isProved = ({ name, node, evictedSince = -Infinity }: ManagedNode): boolean =>
    !evicted.has(name) && node?.ready === true && now - evictedSince >= TAINT_PROVING_MS;
  const unready = tainted.filter(({ node, evictedSince = -Infinity }) => {
    return node?.ready === false && now - evictedSince < UNREADY_COUNTS_MS;
  });
  if (unready.length > 0)
    return { message: `${namesOf(unready.map(({ name }) => name))} got its taints that evict pods, and is not Ready` };
  if (tainted.length === 0 || tainted.some(isProved)) return undefined;
  const names = namesOf(tainted.map(({ name }) => name));
  return { message: `${names} has its taints that evict pods first, and has to be Ready with them for a minute` };
}

function hasTaints({ taints }: NodeView, rendered: Rendered): boolean {
  const evicting = rendered.taints.filter(({ effect }) => effect === 'NoExecute');
  return evicting.every((one) => taints.some((found) => taintId(found) === taintId(one) && found.value === one.value));
}
