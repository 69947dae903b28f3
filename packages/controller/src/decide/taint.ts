import type { NodeView } from '../cluster/node-view.ts';
import type { Member } from '../cluster/snapshot.ts';

/** A Node that is to get or to lose the taint of nodes that wait. */
export interface TaintChange {
  readonly node: NodeView;
  readonly wanted: boolean;
}

/** The change that a member needs, or none. A Node without a shadow may be one that is no longer ours. */
export function taintChange({ node }: Member, wanted: boolean): readonly TaintChange[] {
  return node === undefined || node.hasWaitingTaint === wanted ? [] : [{ node, wanted }];
}
