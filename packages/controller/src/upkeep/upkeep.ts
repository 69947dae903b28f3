/**
 * What is done beside the rollout of updates: labels and taints of groups, Nodes and shadows that agents left behind, new
 * nodes, and lost ones. It is decided after the plan, and from the same state of the fleet, since a taint that evicts pods
 * takes a slot that the plan has left free.
 */
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import type { Plan } from '../plan/plan.ts';
import { type Cleanup, cleanupOf } from './cleanup.ts';
import { withoutEvictions } from './evicting-taints.ts';
import { type LostNodes, lostNodesOf } from './lost-nodes.ts';
import { type NewNodes, newNodesOf } from './new-nodes.ts';
import { type NodeMetadataPlan, nodeMetadataOf } from './node-metadata.ts';
import { ofPartsAt } from '../kept/parts.ts';
import type { KeptFactsOfNodes } from '../plan/fleet/fleet-state.ts';

export interface Upkeep extends NewNodes, Omit<LostNodes, 'lostTimes'> {
  readonly cleanups: readonly Cleanup[];
  readonly metadata: NodeMetadataPlan;
  /** When something is due by time alone, epoch milliseconds. */
  readonly upkeepTimes: readonly (number | undefined)[];
}

const cleanupsIn = ofPartsAt((part: readonly ManagedNode[], now) => part.flatMap((one) => cleanupOf(one, now) ?? []));

export function upkeepOf(
  { fleetState }: Plan,
  snapshot: Snapshot,
  { nodes: splitter }: Pick<KeptFactsOfNodes, 'nodes'>,
): Upkeep {
  const { managedNodes } = snapshot;
  const { parts, stale, now } = fleetState;
  const isCurrent = stale.length === 0;
  const nodes = splitter.split(snapshot.nodes);
  const metadata = withoutEvictions(nodeMetadataOf(snapshot, nodes, isCurrent, now), fleetState, managedNodes);
  const cleanups = cleanupsIn(parts, now).flat();
  const { lostTimes, ...losses } = lostNodesOf(parts, fleetState);
  return {
    ...newNodesOf(isCurrent ? parts : []),
    ...losses,
    cleanups: cleanups.filter(({ dueAt }) => dueAt <= now),
    metadata,
    upkeepTimes: [...cleanups.map(({ dueAt }) => dueAt), ...metadata.times, ...lostTimes],
  };
}
