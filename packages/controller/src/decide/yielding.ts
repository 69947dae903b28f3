import type { NodeView } from '../cluster/node-view.ts';
import { hasReached } from '../cluster/shadow-view.ts';
import type { Member } from '../cluster/snapshot.ts';
import type { Room } from './room.ts';
import { isUnavailable } from './room.ts';

interface Staging {
  readonly node: NodeView;
  readonly isStaged: boolean;
}

/**
 * The nodes, by name, that must not be drained because more nodes are away than may be: a limit was lowered, or others have gone meanwhile. Only
 * those that stage their version or have staged it can stay; as few as needed, first those that are not through with it.
 * @param updating - the members that take a place
 * @param room - counts all that are away; it is used up
 */
export function yielding(updating: readonly Member[], room: Room): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { node } of updating.flatMap(staging).toSorted(byHaste)) {
    if (!room.isOverfull(node)) continue;
    room.giveBack(node);
    names.add(node.metadata.name);
  }
  return names;
}

function staging({ node, shadow }: Member): Staging[] {
  if (node === undefined || shadow?.spec.state !== 'StagedAndPerformedUpdate' || isUnavailable(node)) return [];
  return [{ node, isStaged: hasReached(shadow) }];
}

function byHaste(a: Staging, b: Staging): number {
  if (a.isStaged !== b.isStaged) return a.isStaged ? 1 : -1;
  return a.node.metadata.name < b.node.metadata.name ? 1 : -1;
}
