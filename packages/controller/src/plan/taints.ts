/** The taints of nodes that wait for their update or are updating, and of those that have just booted the new version. */
import { isManaged, type NodeView } from '../cluster/node.ts';
import type { Decision } from './assess.ts';
import { traitsOf } from './gates/reasons.ts';

/** Which taints the Node is to have. */
export interface TaintChange {
  readonly node: NodeView;
  readonly waiting: boolean;
  readonly startup: boolean;
}

export function taintChanges(decision: Decision): TaintChange[] {
  const { managedNode, isStarting = false } = decision;
  const { node } = managedNode;
  const { drain } = managedNode.policy;
  if (node === undefined) return [];
  const waiting = drain.taintWaitingNodes && isManaged(node) && isWaiting(decision);
  const startup = drain.startupTaint && isManaged(node) && isStarting;
  const isSame = node.hasWaitingTaint === waiting && node.hasStartupTaint === startup;
  return isSame ? [] : [{ node, waiting, startup }];
}

/** True for nodes that wait or are updating; not for failed ones, nor for new ones without a report. */
function isWaiting({ phase, candidate, blocked }: Decision): boolean {
  const isTainted = blocked === undefined || traitsOf(blocked.reason).withoutTaint !== true;
  return phase === 'updating' || (phase === 'waiting' && candidate !== undefined && isTainted);
}
