import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { sameVersion } from '@brupop/shared/api/version';
import { ownedByUs } from '@brupop/shared/node/ownership';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { NodeView } from '../cluster/node.ts';
import { type ManagedNode, type Snapshot, staleResources } from '../cluster/snapshot.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import { type Estimate, estimateOf } from './attempts.ts';
import { isUnavailable, Capacity, nodesOverLimit } from './capacity.ts';
import { slotHeldUntil } from './deadlines.ts';
import { type Drainable, drainable } from './drainability.ts';
import { isConcerned } from './gates/selection.ts';

/** What the decision on one node takes from the rest of the fleet. */
export interface FleetState {
  readonly policy: UpdatePolicy;
  /** Resources of which nothing was heard for too long. */
  readonly stale: readonly string[];
  readonly drainOf: (node: NodeView) => Drainable;
  readonly offeredSince: (version: string) => number | undefined;
  readonly estimate: Estimate;
  /** Until when members take a place, epoch milliseconds. */
  readonly slotHeldUntil: ReadonlyMap<ManagedNode, number | undefined>;
  /** The status of the configuration as it was before. */
  readonly before: BrupopConfigStatus | undefined;
  /** Nodes, by name, that must not be drained since more are away than may be. */
  readonly nodesOverLimit: ReadonlySet<string>;
  /** Counts the nodes that are away now, and then those that are let go. */
  readonly capacity: Capacity;
  readonly now: number;
}

/** Puts it together. */
export function fleetStateOf(snapshot: Snapshot, now: number): FleetState {
  const { managedNodes, config, policy } = snapshot;
  const places = new Map(managedNodes.map((managedNode) => [managedNode, slotHeldUntil(managedNode, policy, now)]));
  const versions = config?.status?.versions ?? [];
  return {
    policy,
    stale: staleResources(snapshot.watchLags),
    drainOf: (node) => drainable(node, snapshot, policy.drain, now),
    offeredSince: (version) => parseTime(versions.find((one) => sameVersion(one.version, version))?.firstOfferedTime),
    estimate: estimateOf(managedNodes, policy.maintenance),
    slotHeldUntil: places,
    before: config?.status,
    nodesOverLimit: nodesOverLimit(takingPlaces(places, now), roomOf(policy, places, now, isDisturbed)),
    capacity: roomOf(policy, places, now),
    now,
  };
}

function takingPlaces(places: ReadonlyMap<ManagedNode, number | undefined>, now: number): ManagedNode[] {
  return [...places].flatMap(([managedNode, until]) => (until !== undefined && now < until ? [managedNode] : []));
}

/** A node at rest that has not confirmed a change of its host's settings takes a place, but nothing has happened to it. */
function isDisturbed({ node, shadow }: ManagedNode): boolean {
  return shadow?.spec.state !== 'Idle' || (node !== undefined && ownedByUs(node));
}

/** Every node that takes a place counts, and the nodes that the configuration is about also when they are away for another reason. */
function roomOf(
  policy: UpdatePolicy,
  places: ReadonlyMap<ManagedNode, number | undefined>,
  now: number,
  counts: (managedNode: ManagedNode) => boolean = () => true,
): Capacity {
  const nodes = [...places].flatMap(([managedNode, until]) => {
    const { node } = managedNode;
    return node === undefined ? [] : [{ node, updating: until !== undefined && now < until && counts(managedNode) }];
  });
  const capacity = new Capacity(policy.concurrency, nodes.filter(({ node }) => isConcerned(node, policy)).length);
  for (const { node, updating } of nodes) {
    if (updating || (isConcerned(node, policy) && isUnavailable(node))) capacity.reserve(node, updating);
  }
  return capacity;
}
