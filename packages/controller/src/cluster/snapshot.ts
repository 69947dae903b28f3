import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { WATCH_STALE_MS } from '@brupop/shared/api/deadlines';
import type { Budget } from '@brupop/shared/drain/budgets';
import type { DrainPod } from '@brupop/shared/drain/pods';
import type { UpdatePolicy } from '../policy/policy.ts';
import type { NodeView } from './node.ts';
import type { ShadowView } from './shadow.ts';

/** A Node and its shadow; at least one of them exists. */
export interface ManagedNode {
  /** Name of the Node. */
  readonly name: string;
  readonly node: NodeView | undefined;
  readonly shadow: ShadowView | undefined;
  /** When the missing one of the two was last there, epoch milliseconds; the start of this process when it has never seen it. */
  readonly missingSince: number;
  /** Why the API server has just refused a spec for the shadow. */
  readonly writeRejection?: string;
}

/** How long nothing was heard of a resource on its list or watch. */
export interface WatchLag {
  readonly resource: string;
  readonly ms: number;
}

/** The pods on a node, as a list of them showed. */
export interface PodsOfNode {
  readonly nodeUID: string;
  readonly pods: readonly DrainPod[];
  /** Epoch milliseconds; undefined: they were never seen. */
  readonly seenAt: number | undefined;
  /** Why the latest try to see them failed. */
  readonly problem: string | undefined;
  /** No other try before, epoch milliseconds. */
  readonly retryAt: number;
}

/** All that a plan is made from, as it was at one moment. */
export interface Snapshot {
  /** Every node that is managed, has a shadow or carries something of ours; by name. */
  readonly managedNodes: readonly ManagedNode[];
  readonly config: BrupopConfig | undefined;
  /** What `config` asks for. */
  readonly policy: UpdatePolicy;
  /** What was looked up of the nodes whose turn it was; by node name. */
  readonly pods: ReadonlyMap<string, PodsOfNode>;
  readonly budgets: readonly Budget[];
  /** Of everything else here. */
  readonly watchLags: readonly WatchLag[];
  /** The node that this controller runs on: updated last, since its drain moves the lead to another replica. */
  readonly ownNode: string;
}

/** What is heard again changes nothing else, so it is looked for. */
const LOOK_AGAIN_MS = 10_000;

/** The resources whose watch cache may be far behind the cluster. */
export function staleResources(watchLags: readonly WatchLag[]): string[] {
  return watchLags.filter(({ ms }) => ms >= WATCH_STALE_MS).map(({ resource }) => resource);
}

/** When a cache may have become stale, or be fresh again, epoch milliseconds. */
export function viewTimes(watchLags: readonly WatchLag[], now: number): number[] {
  return watchLags.map(({ ms }) => now + (ms >= WATCH_STALE_MS ? LOOK_AGAIN_MS : WATCH_STALE_MS - ms));
}
