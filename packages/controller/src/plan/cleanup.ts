import { ownedByUs } from '@brupop/shared/node/ownership';
import { isManaged, type NodeView } from '../cluster/node.ts';
import { isOwnedBy, isSettled } from '../cluster/shadow.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { orphanedAnnotations, ownedSince, rebootUntil, silentAt, stateSince } from './deadlines.ts';

/** Garbage collection deletes a shadow with its Node; only after so long it is done here. */
export const GARBAGE_COLLECTION_MS = 60_000;
/** An agent at rest takes back what is ours at once; only after so long it is done here. */
export const AGENT_RESTORES_MS = 30_000;

/** Work on what agents left behind. */
export interface Cleanup {
  readonly managedNode: ManagedNode;
  readonly kind:
    /** The shadow's Node is gone, or is another one by now. */
    | 'DeleteShadow'
    /** Take back what is ours on the Node; its agent is there but does not do it. */
    | 'Restore'
    /** Take back what is ours on the Node, once its agent, which does not answer, has ended. */
    | 'RestoreAfterAgentExit'
    /** Take our signatures off the Node: somebody else has taken back what they sign. */
    | 'PruneAnnotations'
    /** The node is no longer managed: once its agent has ended, take back what is ours and delete the shadow. */
    | 'Unmanage';
  /** When it is due, epoch milliseconds. */
  readonly dueAt: number;
}

/** What is to be cleaned up at this member now or later, or undefined. A node under way is not given back: its spec goes to Idle first. */
export function cleanupOf(managedNode: ManagedNode, now: number): Cleanup | undefined {
  const { node, shadow, missingSince } = managedNode;
  if (node === undefined) return { managedNode, kind: 'DeleteShadow', dueAt: missingSince + GARBAGE_COLLECTION_MS };
  if (shadow !== undefined && !isOwnedBy(shadow, node)) return { managedNode, kind: 'DeleteShadow', dueAt: now };
  // A drain takes note of a cordon that was taken away.
  if (shadow !== undefined && shadow.spec.state !== 'Idle') return undefined;
  if (orphanedAnnotations(node).length > 0) return { managedNode, kind: 'PruneAnnotations', dueAt: now };
  // Nothing is given back to the scheduler while its host may still go down.
  const safeAt = rebootUntil(managedNode, now) ?? 0;
  if (!isManaged(node)) return { managedNode, kind: 'Unmanage', dueAt: Math.max(now, safeAt) };
  return ownedByUs(node) ? leftover(managedNode, node, safeAt, now) : undefined;
}

function leftover(managedNode: ManagedNode, node: NodeView, safeAt: number, now: number): Cleanup {
  const { shadow, missingSince } = managedNode;
  const agentRestoresUntil = (ownedSince(node, now) ?? 0) + AGENT_RESTORES_MS;
  if (shadow !== undefined && !isSettled(shadow)) {
    return {
      managedNode,
      kind: 'RestoreAfterAgentExit',
      dueAt: Math.max(silentAt(shadow, now), agentRestoresUntil, safeAt),
    };
  }
  const idleSince = shadow === undefined ? missingSince : (stateSince(shadow.spec, now) ?? 0);
  return { managedNode, kind: 'Restore', dueAt: Math.max(idleSince + AGENT_RESTORES_MS, agentRestoresUntil, safeAt) };
}
