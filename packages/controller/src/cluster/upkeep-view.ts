/** What the controllers beside the plan (`upkeep`) see of the watch caches. */
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { isClockWrong } from '@brupop/shared/api/deadlines';
import { CONFIG_NAME } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import type { Listener, Reflector } from '@brupop/shared/kube/reflector';
import type { UpdatePolicy } from '../policy/policy.ts';
import { type ConnectivityGuard, lossOf } from './connectivity.ts';
import type { NodeView } from './node.ts';
import { isSpecChange, type Policies, rulesFor } from './policies.ts';
import { isOwnedBy, nodeOf, type ShadowView } from './shadow.ts';
import { type NodePair, staleResources, type WatchLag } from './snapshot.ts';

interface Sources {
  readonly nodes: Pick<Reflector<NodeView>, 'get'>;
  readonly shadows: Pick<Reflector<ShadowView>, 'list' | 'subscribe'>;
  readonly configs: Pick<Reflector<BrupopConfig>, 'get' | 'subscribe'>;
  readonly shadowOf: (node: string) => ShadowView | undefined;
  readonly policies: Policies;
  readonly guard: Pick<ConnectivityGuard, 'latest'>;
  readonly watches: { readonly synced: boolean; watchLags(): readonly WatchLag[] };
  readonly client: Pick<KubeClient, 'clockSkewMs'>;
}

/** A node with what decides about it. */
export type UpdatedNode = Pick<NodePair, 'name' | 'node' | 'shadow' | 'policy'>;

export class UpkeepView {
  readonly #sources: Sources;

  constructor(sources: Sources) {
    this.#sources = sources;
  }

  get config(): BrupopConfig | undefined {
    return this.#sources.configs.get(CONFIG_NAME);
  }

  /** Of the fleet. */
  get policy(): UpdatePolicy {
    return this.#sources.policies.fleet;
  }

  /** Why no pod may be disrupted now. */
  get obstacle(): string | undefined {
    const { paused, problem } = this.policy;
    const { watches, client, guard } = this.#sources;
    if (!watches.synced) return 'the watch caches are not filled yet';
    if (problem !== undefined) return `the configuration is invalid: ${problem}`;
    if (paused) return 'spec.paused is true';
    const stale = staleResources(watches.watchLags());
    if (stale.length > 0) return `watches are stale: ${stale.join(', ')}`;
    if (isClockWrong(client.clockSkewMs())) return 'the clock of this node is wrong';
    return guard.latest.lost ? 'connectivity is lost' : undefined;
  }

  /** Whether the node is in a zone that has lost the control plane. */
  isLost(node: string): boolean {
    return lossOf(this.#sources.guard.latest, this.#sources.nodes.get(node)).lost;
  }

  /** Whether pods with emptyDir volumes stay on the node, by the rules of its group. */
  keepsEmptyDirs(name: string): boolean {
    const node = this.#sources.nodes.get(name);
    const shadow = this.#sources.shadowOf(name);
    return rulesFor({ node, shadow }, this.#sources.policies).policy.drain.emptyDirPods === 'Block';
  }

  /** The nodes that run their new version and have not succeeded yet. */
  monitored(): readonly UpdatedNode[] {
    const { nodes, shadows, policies } = this.#sources;
    const monitored = shadows.list().filter(({ spec }) => spec.state === 'MonitoringUpdate');
    return monitored.flatMap((shadow) => {
      const name = nodeOf(shadow);
      const node = nodes.get(name);
      if (node === undefined || !isOwnedBy(shadow, node)) return [];
      return [{ name, node, shadow, policy: rulesFor({ node, shadow }, policies).policy }];
    });
  }

  /** Returns a function that unsubscribes. */
  onConfig(listener: () => void): () => void {
    return this.#sources.configs.subscribe((event) => isSpecChange(event) && listener());
  }

  /** Returns a function that unsubscribes. */
  onShadow(listener: Listener<ShadowView>): () => void {
    return this.#sources.shadows.subscribe(listener);
  }
}
