import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import { WATCH_STALE_MS } from '@brupop/shared/api/deadlines';
import type { IndexedBudgets } from '@brupop/shared/drain/budget-index';
import type { DrainPod } from '@brupop/shared/drain/pods';
import type { NodeGroup } from '../policy/node-groups.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import type { AllPods } from './all-pods.ts';
import type { ChecksView } from './checks.ts';
import type { Connectivity } from './connectivity.ts';
import type { MetadataNote } from './metadata-notes.ts';
import type { MemberPodsView } from './member-pods.ts';
import type { NodeView } from './node.ts';
import { isOwnedBy, type ShadowView } from './shadow.ts';

/** A Node and its shadow; at least one of them exists. */
export interface ManagedNode {
  readonly name: string;
  readonly node: NodeView | undefined;
  readonly shadow: ShadowView | undefined;
  readonly group: NodeGroup | undefined;
  /** That of its group, or of the configuration. */
  readonly policy: UpdatePolicy;
  /** When the missing one was deleted, or when this process started; epoch milliseconds. */
  readonly missingSince: number;
  /** What is known of a deleted shadow of this node. */
  readonly former?: FormerShadow | undefined;
  /** Since when another actor has cordoned the Node, as far as known, epoch milliseconds. */
  readonly cordonedSince?: number | undefined;
  /** When it was first seen with a taint of its group that evicts pods, epoch milliseconds. */
  readonly evictedSince?: number | undefined;
  /** Since when its agent has reported the settings that it reports now, epoch milliseconds; undefined: there is no shadow. */
  readonly settingsSince?: number | undefined;
  /** Its kubelet has stopped renewing its Lease; undefined: it has no Lease. */
  readonly leaseExpired?: boolean | undefined;
  /** Why the API server rejected the creation of its shadow, or the latest write of its spec during the backoff. */
  readonly writeRejection?: string | undefined;
  /** Why the writes of its spec have failed for a while, for another reason: the latest one may have arrived. */
  readonly writeFailure?: string | undefined;
}

export interface FormerShadow {
  /** When its latest update started, epoch milliseconds. */
  readonly startedAt: number | undefined;
  /** Until when the next shadow may hold a slot before its first update, epoch milliseconds. */
  readonly slotUntil: number;
}

/** A ManagedNode whose shadow belongs to this very Node. */
export interface NodePair extends ManagedNode {
  readonly node: NodeView;
  readonly shadow: ShadowView;
}

export function isPair(managedNode: ManagedNode): managedNode is NodePair {
  const { node, shadow } = managedNode;
  return node !== undefined && shadow !== undefined && isOwnedBy(shadow, node);
}

export interface WatchLag {
  readonly resource: string;
  /** Milliseconds since the latest activity on the list or watch of the resource. */
  readonly ms: number;
}

export interface PodsOfNode {
  readonly nodeUID: string;
  readonly pods: readonly DrainPod[];
  /** Of the pods. */
  readonly namespaces: ReadonlySet<string>;
  /** Epoch milliseconds; undefined before the first list. */
  readonly seenAt: number | undefined;
  readonly problem: string | undefined;
  /** The pods on this node are too many, or too large; the lists of other nodes may work. */
  readonly isTooLarge?: boolean;
  /** When the list may be retried, epoch milliseconds. */
  readonly retryAt: number;
}

/** Of the pods of DaemonSets and StatefulSets (Kubernetes "ControllerRevision"). */
export const REVISION_LABEL = 'controller-revision-hash';

/** A pod on a node that is observed; of its labels only the revision. */
export type ObservedPod = Pick<
  DrainPod,
  | 'metadata'
  | 'controller'
  | 'daemonSet'
  | 'mirror'
  | 'healthIgnored'
  | 'ready'
  | 'readyChanged'
  | 'failing'
  | 'mostRestarts'
  | 'restartedAt'
>;

/** What is kept of the pods on a node that is observed after its update. */
export interface ObservedPods {
  readonly nodeUID: string;
  /** Those of its pods that are not Ready, or were restarted again and again; at most 200. */
  readonly pods: readonly ObservedPod[];
  /** When they were listed, the latest last, epoch milliseconds. */
  readonly listedAt: readonly number[];
}

export interface Snapshot {
  /** Every node that is managed, has a shadow, or carries what the operator owns. */
  readonly managedNodes: readonly ManagedNode[];
  /** Also those that are not managed. */
  readonly nodes: readonly NodeView[];
  readonly config: BrupopConfig | undefined;
  /** Of the fleet; that of one node is on the ManagedNode. */
  readonly policy: UpdatePolicy;
  /** In the order in which they claim nodes. */
  readonly groups: readonly NodeGroup[];
  /** With what was last reported of them. */
  readonly groupObjects: readonly BottlerocketNodeGroup[];
  /** By the UID of the Node. */
  readonly metadataNotes: ReadonlyMap<string, MetadataNote>;
  /** By node name, of the nodes that the latest plan asked for. */
  readonly pods: ReadonlyMap<string, PodsOfNode>;
  /** By node name, of the nodes that the latest plan observes. */
  readonly observed: ReadonlyMap<string, ObservedPods>;
  /** Listed when the latest plan needed them. */
  readonly allPods: AllPods;
  /** Of the sets of `spec.quorums` that the latest plan asked for. */
  readonly memberPods: MemberPodsView;
  /** The index of a namespace is replaced when one of its budgets changes. */
  readonly budgets: IndexedBudgets;
  readonly watchLags: readonly WatchLag[];
  readonly connectivity: Connectivity;
  /** By how much the clock of this process is ahead of that of the API server, milliseconds; undefined: unknown. */
  readonly clockSkewMs: number | undefined;
  readonly checks: ChecksView;
  /** That of the operator's own DaemonSet. */
  readonly ownNamespace: string;
  /** Whether the API server of the operator has the right to delete pods (`drain.onTimeout: Force`). */
  readonly mayForce: boolean;
  /** Updates last, since the drain of this node moves leadership to another replica. */
  readonly ownNode: string;
}

/** A watch that becomes current causes no change, so a stale one is checked again after this time. */
const STALE_RECHECK_MS = 10_000;

/** The resources whose watch cache may be far behind the cluster. */
export function staleResources(watchLags: readonly WatchLag[]): string[] {
  return watchLags.filter(({ ms }) => ms >= WATCH_STALE_MS).map(({ resource }) => resource);
}

/** When a cache may have become stale, or current again, epoch milliseconds. */
export function staleCheckTimes(watchLags: readonly WatchLag[], now: number): number[] {
  return watchLags.map(({ ms }) => now + (ms >= WATCH_STALE_MS ? STALE_RECHECK_MS : WATCH_STALE_MS - ms));
}
