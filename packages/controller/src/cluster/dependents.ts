/** Whether the whole cluster is lost, for `upkeep/dependents`; asked only if the chart or the configuration has dependents. */
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import type { Dependent } from '@brupop/shared/api/config-dependents';
import { CONFIG_NAME, NODE_GROUP_PLURAL } from '@brupop/shared/api/names';
import type { Reflector } from '@brupop/shared/kube/reflector';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { ClusterLoss, ConnectivityGuard, ProbeTime } from './connectivity.ts';
import type { NodeView } from './node.ts';
import type { Policies } from './policies.ts';
import type { ShadowView } from './shadow.ts';
import { staleResources, type WatchLag } from './snapshot.ts';

/** What is known about the dependents of the cluster, and whether they are to be scaled to 0. */
export interface DependentsView {
  readonly config: BrupopConfig | undefined;
  readonly dependents: readonly Dependent[];
  /** A mistake in the configuration: the dependents may not be the ones that users want. */
  readonly problem: string | undefined;
  /** Undefined: before the first probe. */
  readonly loss: ClusterLoss | undefined;
  /** A watch is stale, or the clock is wrong. */
  readonly isUnsure: boolean;
}

interface ProbeOptions {
  /** The chart has dependents. */
  readonly hasTargets: boolean;
  readonly guard: ConnectivityGuard;
  readonly nodes: Pick<Reflector<NodeView>, 'list'>;
  readonly configs: Pick<Reflector<BrupopConfig>, 'get'>;
  readonly policies: Pick<Policies, 'fleet'>;
  readonly shadowOf: (node: string) => ShadowView | undefined;
}

/** These say nothing about dependents. */
const BESIDES: ReadonlySet<string> = new Set(['poddisruptionbudgets', NODE_GROUP_PLURAL]);

export class ClusterProbe {
  readonly #options: ProbeOptions;
  /** As of the latest probe; undefined before the first one. */
  #loss: ClusterLoss | undefined;

  constructor(options: ProbeOptions) {
    this.#options = options;
  }

  /** True if the loss has started or ended since the former probe, or is about to. */
  probe(now: ProbeTime): boolean {
    const { hasTargets, guard, nodes, policies, shadowOf } = this.#options;
    // One that the chart does not have is reported.
    if (!hasTargets && policies.fleet.connectivity.dependents.length === 0) return false;
    const all = nodes.list().map((node) => {
      const { name } = node.metadata;
      return { name, node, shadow: shadowOf(name) };
    });
    const before = this.#loss;
    if (before === undefined) this.#resume(now);
    this.#loss = guard.probeCluster(all, policies.fleet, now);
    return this.#loss.lost !== before?.lost || this.#loss.isChanging !== before.isChanging;
  }

  /** @param isUnsure - what is known may be wrong, whatever the watches say */
  view(watchLags: readonly WatchLag[], isUnsure: boolean): DependentsView {
    const { configs, policies } = this.#options;
    const config = configs.get(CONFIG_NAME);
    const { problem, connectivity } = policies.fleet;
    const { dependents } = connectivity;
    const known = config === undefined ? { dependents: [], problem: undefined } : { dependents, problem };
    const isStale = staleResources(watchLags.filter(({ resource }) => !BESIDES.has(resource))).length > 0;
    return { config, ...known, loss: this.#loss, isUnsure: isUnsure || isStale };
  }

  /** A process before this one has reported a loss. Later on, what this one sees counts: the record may be outdated. */
  #resume(now: ProbeTime): void {
    const since = parseTime(this.#options.configs.get(CONFIG_NAME)?.status?.clusterLostTime);
    if (since !== undefined) this.#options.guard.resumeClusterLoss(since, now);
  }
}
