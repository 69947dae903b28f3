/**
 * What is done beside the rollout of updates: labels and taints of groups, Nodes and shadows that agents left behind, new
 * nodes, and lost ones. It is decided after the plan, and from the same state of the fleet, since a taint that evicts pods
 * takes a slot that the plan has left free.
 */
import { MAX_NODE_NAME } from '@brupop/shared/api/names';
import { isManaged, type NodeView } from '../cluster/node.ts';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import { ofParts, ofPartsAt, type Parts } from '../kept/parts.ts';
import type { KeptFactsOfNodes } from '../plan/fleet/fleet-state.ts';
import type { Plan } from '../plan/plan.ts';
import { type Cleanup, cleanupOf } from './cleanup.ts';
import { withoutEvictions } from './evicting-taints.ts';
import { type LostNodes, lostNodesOf } from './lost-nodes.ts';
import { type NodeMetadataPlan, nodeMetadataOf } from './node-metadata.ts';

export interface Upkeep extends Omit<LostNodes, 'lostTimes'> {
  /** Managed nodes without a shadow; none while a watch is stale, since the shadow or the end of the Node may be unseen. */
  readonly newNodes: readonly NodeView[];
  /** Names of managed nodes whose shadows cannot be created, and why. */
  readonly uncreated: ReadonlyMap<string, string>;
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

const NAME_TOO_LONG = `the name of the Node is longer than ${MAX_NODE_NAME} characters`;

/** A shadow of an earlier Node of the same name is deleted first. */
function newNodesOf(managedNodes: Parts<ManagedNode>): Pick<Upkeep, 'newNodes' | 'uncreated'> {
  const newNodes: NodeView[] = [];
  const uncreated = new Map<string, string>();
  for (const { name, node, writeRejection } of withoutShadowIn(managedNodes).flat()) {
    if (node === undefined || !isManaged(node) || node.metadata.deletionTimestamp !== undefined) continue;
    const isTooLong = name.length > MAX_NODE_NAME;
    const problem = isTooLong ? NAME_TOO_LONG : writeRejection;
    if (!isTooLong) newNodes.push(node);
    if (problem !== undefined) uncreated.set(name, problem);
  }
  return { newNodes, uncreated };
}

const withoutShadowIn = ofParts((part: readonly ManagedNode[]) => part.filter(({ shadow }) => shadow === undefined));
