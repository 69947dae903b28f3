/** The nodes of property tests, and which of them hold a slot, computed without the planner's functions. */
import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { NodeGroupStatus } from '@brupop/shared/api/node-group';
import { cordonedByUs } from '@brupop/shared/node/ownership';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { ShadowView } from '../cluster/shadow.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { MINUTE } from './objects.ts';

export interface World {
  managedNodes: readonly ManagedNode[];
  config: unknown;
  now: number;
  held: ReadonlySet<string>;
  /** Idle nodes whose hosts only get other settings. */
  configured: ReadonlySet<string>;
  /** Nodes whose agents have reported a step of an update, but not its end. */
  disturbed: ReadonlySet<string>;
  /** Nodes that were requested to reboot, until a success or until their agents confirm the end. */
  rebooted: ReadonlySet<string>;
  /** Each time that an agent reported that its host booted the old version, until it boots the new one. */
  rolledBack: readonly { readonly name: string; readonly version: string }[];
  /** Of the configuration, as the latest plan set it. */
  status: BrupopConfigStatus | undefined;
  /** Of the groups, by name. */
  groups: ReadonlyMap<string, NodeGroupStatus>;
}

export function isConfirmed({ metadata, status }: ShadowView): boolean {
  return status?.observedGeneration === metadata.generation && status?.current_state === 'Idle';
}

/** Counted without the planner's own functions: from the first step until the agent has confirmed the end and our cordon is gone. */
export function underWay(world: World): number {
  return world.managedNodes.filter((managedNode) => isUnderWay(world, managedNode)).length;
}

/**
 * A kubelet may have set the cordon if no update is recorded, or if the agent has confirmed the end:
 * it counts for a while only.
 */
function cordonCountsUntil({ node, shadow, missingSince }: ManagedNode, now: number): number {
  if (node === undefined || !cordonedByUs(node)) return -Infinity;
  return shadow === undefined ? missingSince + 60 * MINUTE : cordonOfShadowUntil(shadow, now);
}

function cordonOfShadowUntil(shadow: ShadowView, now: number): number {
  const { record, metadata } = shadow;
  if (shadow.spec.state !== 'Idle') return Infinity;
  if (record.rebootRequestedAt !== undefined) return isConfirmed(shadow) ? endOf(shadow, now) + 15 * MINUTE : Infinity;
  if (record.startedAt !== undefined) return -Infinity;
  return (parseTime(metadata.creationTimestamp) ?? 0) + (isConfirmed(shadow) ? 15 : 60) * MINUTE;
}

/**
 * True for one of them. After a reboot was requested, an agent that has recorded no step of its update
 * gets 5 minutes to confirm the end.
 */
export function isUnderWay({ configured, disturbed, rebooted, now }: World, managedNode: ManagedNode): boolean {
  const { name, shadow } = managedNode;
  if (now < cordonCountsUntil(managedNode, now)) return true;
  if (shadow?.status === undefined || configured.has(name)) return false;
  if (shadow.spec.state !== 'Idle') return true;
  if (isConfirmed(shadow) || !rebooted.has(name)) return false;
  return disturbed.has(name) || now < endOf(shadow, now) + 5 * MINUTE;
}

function endOf({ spec: { state_transition_timestamp } }: ShadowView, now: number): number {
  return parseTime(state_transition_timestamp) ?? now;
}
