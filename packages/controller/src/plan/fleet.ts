import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { sameVersion } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { NodeView } from '../cluster/node.ts';
import { type ManagedNode, type Snapshot, staleResources } from '../cluster/snapshot.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import { type Estimate, estimateOf } from './attempts.ts';
import { isUnavailable, Capacity, nodesOverLimit } from './capacity.ts';
import { type Slot, slotOf } from './deadlines.ts';
import { type Drainable, drainable } from './drainability.ts';
import { isConcerned } from './gates/node.ts';

export interface FleetState {
  readonly policy: UpdatePolicy;
  /** Resources whose watch is stale. */
  readonly stale: readonly string[];
  readonly drainOf: (node: NodeView) => Drainable;
  readonly offeredSince: (version: string) => number | undefined;
  readonly estimate: Estimate;
  readonly slots: ReadonlyMap<ManagedNode, Slot>;
  readonly before: BrupopConfigStatus | undefined;
  /** Names of nodes that must not be drained, since more nodes are unavailable than the limits allow. */
  readonly nodesOverLimit: ReadonlySet<string>;
  /** Counts the unavailable nodes, and then those that start. */
  readonly capacity: Capacity;
  readonly now: number;
}

export function fleetStateOf(snapshot: Snapshot, now: number): FleetState {
  const { managedNodes, config, policy } = snapshot;
  const slots = new Map(
    managedNodes.flatMap((managedNode) => {
      const slot = slotOf(managedNode, policy, now);
      return slot === undefined ? [] : [[managedNode, slot] as const];
    }),
  );
  // A node that only has to confirm a change of settings is available.
  const unavailable = new Map([...slots].filter(([, { expires }]) => !expires));
  const versions = config?.status?.versions ?? [];
  return {
    policy,
    stale: staleResources(snapshot.watchLags),
    drainOf: (node) => drainable(node, snapshot, policy.drain, now),
    offeredSince: (version) => parseTime(versions.find((one) => sameVersion(one.version, version))?.firstOfferedTime),
    estimate: estimateOf(managedNodes, policy.maintenance),
    slots,
    before: config?.status,
    nodesOverLimit: nodesOverLimit([...slots.keys()], capacityOf(snapshot, unavailable, now)),
    capacity: capacityOf(snapshot, slots, now),
    now,
  };
}

/**
 * Counts every node that holds a slot, and the nodes that the configuration selects also when they
 * are unavailable for another reason.
 */
function capacityOf({ policy, managedNodes }: Snapshot, slots: ReadonlyMap<ManagedNode, Slot>, now: number): Capacity {
  const nodes = managedNodes.flatMap((managedNode) => {
    const { node } = managedNode;
    return node === undefined ? [] : [{ node, slot: slots.get(managedNode) }];
  });
  const selected = nodes.filter(({ node }) => isConcerned(node, policy)).length;
  const stuck = nodes.flatMap(({ node, slot }) => (slot !== undefined && now >= slot.deadline ? [node] : []));
  const capacity = new Capacity(policy.concurrency, selected, stuck);
  for (const { node, slot } of nodes) {
    if (slot !== undefined || (isConcerned(node, policy) && isUnavailable(node)))
      capacity.reserve(node, slot !== undefined);
  }
  return capacity;
}
