import {
  AUTOSCALER_HOLDS_ANNOTATION,
  CORDONED_ANNOTATION,
  EXCLUDED_ANNOTATION,
  EXCLUSION_LABEL,
  RECORDONED_ANNOTATION,
} from '@brupop/shared/api/names';
import { parseTime } from '@brupop/shared/runtime/clock';
import { namesOf } from '@brupop/shared/runtime/errors';
import type { EventSource } from '@brupop/shared/kube/events';
import { ownedByUs, ownedHolds, OWNERSHIP_ANNOTATIONS } from '@brupop/shared/node/ownership';
import { isManaged, type NodeView } from '../cluster/node.ts';
import { isOwnedBy } from '../cluster/shadow.ts';
import { isSettled } from '../cluster/state.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { latestTime, notRespondingAt, rebootUntil, stateSince } from '../plan/facts/deadlines.ts';
import { eventOn } from '../plan/specs/spec-change.ts';
import type { Moment } from '../kept/moment.ts';

/** Garbage collection deletes a shadow with its Node; after this time the controller does. */
const GARBAGE_COLLECTION_MS = 60_000;
/** An idle agent restores its Node at once; after this time the controller does. */
const AGENT_RESTORES_MS = 30_000;
/** The longest time for which a drain pass may continue, and cordon its Node, after the update ended. */
const LAST_PASS_MS = 60_000;

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
    /** No longer managed: restore the Node and delete the shadow after the agent's pod is gone. */
    | 'Unmanage';
  /** Epoch milliseconds. */
  readonly dueAt: number;
  /** Recorded when the Node is restored; undefined: there is nothing to restore. */
  readonly event?: EventSource | undefined;
  /** Recorded when the shadow is deleted although its host has settings of the operator. */
  readonly kept?: EventSource | undefined;
}

/** An updating node gets no cleanup: its spec goes to Idle first. */
export function cleanupOf(managedNode: ManagedNode, now: Moment): Cleanup | undefined {
  const { node, shadow, missingSince } = managedNode;
  if (node === undefined) return { managedNode, kind: 'DeleteShadow', dueAt: missingSince + GARBAGE_COLLECTION_MS };
  if (shadow !== undefined && !isOwnedBy(shadow, node)) return { managedNode, kind: 'DeleteShadow', dueAt: now.ms };
  // A drain has to notice that its cordon was removed.
  if (shadow !== undefined && shadow.spec.state !== 'Idle') return undefined;
  if (orphanedAnnotations(node).length > 0) return { managedNode, kind: 'PruneAnnotations', dueAt: now.ms };
  // No Node returns to service while its host may still go down.
  const safeAt = rebootUntil(managedNode, now) ?? 0;
  const event = restoredEvent(managedNode);
  if (!isManaged(node))
    return { managedNode, kind: 'Unmanage', dueAt: Math.max(now.ms, safeAt), event, kept: keptEvent(managedNode) };
  if (event === undefined) return undefined;
  return { managedNode, event, ...leftover(managedNode, safeAt, now) };
}

/** @param safeAt - until when its host may reboot */
function leftover(
  { node, shadow, missingSince }: ManagedNode,
  safeAt: number,
  now: Moment,
): Pick<Cleanup, 'kind' | 'dueAt'> {
  const endedAt = shadow === undefined ? missingSince : (stateSince(shadow, now) ?? 0);
  const setAt = (node && ownedSince(node, now)) ?? 0;
  // A kubelet may keep renewing the times on its Node, so the end of the update limits them.
  const agentRestoresUntil = Math.min(setAt, endedAt + LAST_PASS_MS) + AGENT_RESTORES_MS;
  const restoresUntil = Math.max(agentRestoresUntil, safeAt);
  if (shadow?.status !== undefined && !isSettled(shadow))
    return { kind: 'RestoreAfterAgentExit', dueAt: Math.max(notRespondingAt(shadow, now), restoresUntil) };
  return { kind: 'Restore', dueAt: Math.max(endedAt + AGENT_RESTORES_MS, restoresUntil) };
}

function restoredEvent({ node, shadow }: ManagedNode): EventSource | undefined {
  if (node === undefined || !ownedByUs(node)) return undefined;
  const message =
    'Restored the Node: removed a cordon or load balancer exclusion of the operator that no agent removed';
  return eventOn(node, shadow, { reason: 'Restored', message, key: node.metadata.resourceVersion });
}

/** The record of the former values is deleted with the shadow. An agent that runs restores them before it ends. */
function keptEvent({ node, shadow }: ManagedNode): EventSource | undefined {
  const records = shadow?.status?.settings?.records ?? [];
  const keys = records.map(({ key }) => key);
  if (node === undefined || shadow === undefined || keys.length === 0) return undefined;
  const unknown = records.filter(({ before }) => before === undefined).map(({ key }) => key);
  const unsure = unknown.length === 0 ? '' : `The host may have had the same value of ${namesOf(unknown)} before. `;
  const message =
    `The label was removed, and the host keeps settings that the operator wrote, since no agent restored them: ` +
    `${namesOf(keys)}. ${unsure}Set them on the host, such as with apiclient set updates.version-lock=latest`;
  return eventOn(node, shadow, { reason: 'HostSettingsKept', message, key: shadow.metadata.uid });
}

const TIMES = [CORDONED_ANNOTATION, RECORDONED_ANNOTATION, EXCLUDED_ANNOTATION];

/** Returns when the operator last set something on the Node; undefined if not recorded. */
function ownedSince({ metadata: { annotations = {} } }: NodeView, now: Moment): number | undefined {
  return latestTime(
    TIMES.map((name) => parseTime(annotations[name])),
    now,
  );
}

/**
 * Returns the annotations whose cordon or label is gone. The operator writes both at once, so another
 * actor has removed it, and owns what it sets there later.
 */
export function orphanedAnnotations(node: NodeView): string[] {
  if (!ownedByUs(node)) return [];
  const { labels = {}, annotations = {} } = node.metadata;
  const there: Readonly<Record<string, boolean>> = {
    [CORDONED_ANNOTATION]: node.unschedulable,
    [RECORDONED_ANNOTATION]: node.unschedulable,
    [EXCLUDED_ANNOTATION]: labels[EXCLUSION_LABEL] !== undefined,
    [AUTOSCALER_HOLDS_ANNOTATION]: ownedHolds(node).length > 0,
  };
  return OWNERSHIP_ANNOTATIONS.filter((name) => annotations[name] !== undefined && there[name] !== true);
}
