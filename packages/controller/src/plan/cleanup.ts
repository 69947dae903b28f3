import { ownedByUs } from '@brupop/shared/node/ownership';
import { isManaged, type NodeView } from '../cluster/node.ts';
import { isOwnedBy, isSettled } from '../cluster/shadow.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { orphanedAnnotations, ownedSince, rebootUntil, notRespondingAt, stateSince } from './deadlines.ts';

/** Garbage collection deletes a shadow with its Node; after this time the controller does. */
const GARBAGE_COLLECTION_MS = 60_000;
/** An idle agent restores its Node at once; after this time the controller does. */
const AGENT_RESTORES_MS = 30_000;

/** Work on what agents left behind (ADR 12). */
export interface Cleanup {
  readonly managedNode: ManagedNode;
  readonly kind:
    /** The shadow's Node is gone, or was replaced by another of the same name. */
    | 'DeleteShadow'
    /** The agent is idle but does not restore the Node. */
    | 'Restore'
    /** The agent does not respond: restore the Node after its pod is gone. */
    | 'RestoreAfterAgentExit'
    /** Another actor removed the cordon or label: remove the annotations that describe it. */
    | 'PruneAnnotations'
    /** The node is no longer managed: restore it and delete the shadow after the agent's pod is gone. */
    | 'Unmanage';
  /** Epoch milliseconds. */
  readonly dueAt: number;
}

/** An updating node gets no cleanup: its spec goes to Idle first. */
export function cleanupOf(managedNode: ManagedNode, now: number): Cleanup | undefined {
  const { node, shadow, missingSince } = managedNode;
  if (node === undefined) return { managedNode, kind: 'DeleteShadow', dueAt: missingSince + GARBAGE_COLLECTION_MS };
  if (shadow !== undefined && !isOwnedBy(shadow, node)) return { managedNode, kind: 'DeleteShadow', dueAt: now };
  // A drain has to notice that its cordon was removed.
  if (shadow !== undefined && shadow.spec.state !== 'Idle') return undefined;
  if (orphanedAnnotations(node).length > 0) return { managedNode, kind: 'PruneAnnotations', dueAt: now };
  // No Node returns to service while its host may still go down.
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
      dueAt: Math.max(notRespondingAt(shadow, now), agentRestoresUntil, safeAt),
    };
  }
  const idleSince = shadow === undefined ? missingSince : (stateSince(shadow.spec, now) ?? 0);
  return { managedNode, kind: 'Restore', dueAt: Math.max(idleSince + AGENT_RESTORES_MS, agentRestoresUntil, safeAt) };
}
