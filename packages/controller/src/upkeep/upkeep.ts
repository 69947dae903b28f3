/**
 * What is done beside the rollout of updates: labels and taints of groups, Nodes and shadows that agents left behind, new
 * nodes, and lost ones. It is decided after the plan, and from the same state of the fleet, since a taint that evicts pods
 * takes a slot that the plan has left free.
 */
import type { NodeView } from '../cluster/node.ts';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import type { Plan } from '../plan/plan.ts';
import { type Cleanup, cleanupOf } from './cleanup.ts';
import { withoutEvictions } from './evicting-taints.ts';
import { type LostNodes, lostNodesOf } from './lost-nodes.ts';
import { type NewNodes, newNodesOf } from './new-nodes.ts';
import { type NodeMetadataPlan, nodeMetadataOf } from './node-metadata.ts';
import type { Kept } from '../plan/facts/moment.ts';

export interface Upkeep extends NewNodes, Omit<LostNodes, 'lostTimes'> {
  readonly cleanups: readonly Cleanup[];
  readonly metadata: NodeMetadataPlan;
  /** Nodes whose pods have to be known before they get a taint that evicts pods. */
  readonly asksFor: readonly NodeView[];
  /** When something is due by time alone, epoch milliseconds. */
  readonly upkeepTimes: readonly (number | undefined)[];
}

export function upkeepOf(
  { fleetState }: Plan,
  snapshot: Snapshot,
  kept: Kept<ManagedNode, Cleanup | undefined>,
): Upkeep {
  const { managedNodes } = snapshot;
  const { stale, now } = fleetState;
  const isCurrent = stale.length === 0;
  const metadata = withoutEvictions(nodeMetadataOf(snapshot, isCurrent, now), fleetState, managedNodes);
  const cleanups = managedNodes.flatMap((one) => kept.of(one, now, (moment) => cleanupOf(one, moment)) ?? []);
  const { lostTimes, ...losses } = lostNodesOf(managedNodes, fleetState);
  return {
    ...newNodesOf(isCurrent ? managedNodes : []),
    ...losses,
    cleanups: cleanups.filter(({ dueAt }) => dueAt <= now),
    metadata,
    asksFor: metadata.lookUps ?? [],
    upkeepTimes: [...cleanups.map(({ dueAt }) => dueAt), ...metadata.times, ...lostTimes],
  };
}
