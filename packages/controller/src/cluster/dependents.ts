/** Whether the whole cluster is lost, for `upkeep/dependents`; asked only if the chart has dependents. */
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import type { Dependent } from '@brupop/shared/api/config-dependents';
import { CONFIG_NAME } from '@brupop/shared/api/names';
import type { Reflector } from '@brupop/shared/kube/reflector';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { ClusterLoss, ConnectivityGuard, ProbeTime } from './connectivity.ts';
import type { NodeView } from './node.ts';
import type { Policies } from './policies.ts';
import type { ShadowView } from './shadow.ts';

/** What is known about the dependents of the cluster, and whether they are to be scaled to 0. */
export interface DependentsView {
  readonly config: BrupopConfig | undefined;
  readonly dependents: readonly Dependent[];
  /** A mistake in the configuration: the dependents may not be the ones that users want. */
  readonly problem: string | undefined;
  /** Undefined: it is unknown. */
  readonly loss: ClusterLoss | undefined;
  /** A watch is stale, or the clock is wrong. */
  readonly isUnsure: boolean;
}

interface ProbeOptions {
  readonly isUsed: boolean;
  readonly guard: ConnectivityGuard;
  readonly nodes: Pick<Reflector<NodeView>, 'list'>;
  readonly configs: Pick<Reflector<BrupopConfig>, 'get'>;
  readonly policies: Pick<Policies, 'fleet'>;
  readonly shadowOf: (node: string) => ShadowView | undefined;
}

export class ClusterProbe {
  readonly #options: ProbeOptions;
  /** As of the latest probe; undefined before the first one. */
  #loss: ClusterLoss | undefined;

  constructor(options: ProbeOptions) {
    this.#options = options;
  }

  /** True if the cluster is lost since the former probe, or no longer. */
  probe(now: ProbeTime): boolean {
    const { isUsed, guard, nodes, policies, shadowOf } = this.#options;
    if (!isUsed) return false;
    const all = nodes.list().map((node) => {
      const { name } = node.metadata;
      return { name, node, shadow: shadowOf(name) };
    });
    const wasLost = this.#loss?.lost;
    this.#loss = guard.probeCluster(all, policies.fleet, now, this.#knownForMs(now));
    return this.#loss.lost !== wasLost;
  }

  view(isUnsure: boolean): DependentsView {
    const { configs, policies } = this.#options;
    const config = configs.get(CONFIG_NAME);
    const { problem, connectivity } = policies.fleet;
    const ofConfig = config === undefined ? { dependents: [], problem: undefined } : { ...connectivity, problem };
    const { dependents } = ofConfig;
    return { config, dependents, problem: ofConfig.problem, loss: isUnsure ? undefined : this.#loss, isUnsure };
  }

  /** By the status, for how long dependents have been down. */
  #knownForMs({ wall }: ProbeTime): number {
    const { dependents = [] } = this.#options.configs.get(CONFIG_NAME)?.status ?? {};
    const since = dependents.flatMap((one) => (one.state === 'Down' ? (parseTime(one.since) ?? []) : []));
    return Math.max(0, wall - Math.min(...since));
  }
}
