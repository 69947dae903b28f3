/**
 * The pods on the nodes that may start or drain next. Pods are not watched: a plan names the nodes
 * whose pods it needs (`lookUps`), and the next snapshot has them, until a plan does not use them any
 * more ({@link PodLookups.retain}). A list that fails is retried with a backoff.
 */
import { messageOf } from '@brupop/shared/runtime/errors';
import { slimPod } from '@brupop/shared/drain/pods';
import type { KubeClient } from '@brupop/shared/kube/client';
import { corePath } from '@brupop/shared/kube/paths';
import { type Backoff, backoff } from '@brupop/shared/runtime/backoff';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { NodeView } from './node.ts';
import type { PodsOfNode } from './snapshot.ts';

interface PodLookupsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
}

const RETRY = { baseMs: 1_000, capMs: 60_000 };
const NOTHING_SEEN = { pods: [], namespaces: new Set<string>(), seenAt: undefined };

export class PodLookups {
  readonly #options: PodLookupsOptions;
  readonly #known = new Map<string, PodsOfNode>();
  readonly #retries = new Map<string, Backoff>();

  constructor(options: PodLookupsOptions) {
    this.#options = options;
  }

  get known(): ReadonlyMap<string, PodsOfNode> {
    return this.#known;
  }

  /** `known` has the error of a list that failed. Rejects with the reason of `signal`. */
  async list(nodes: readonly NodeView[], signal: AbortSignal): Promise<void> {
    await Promise.all(nodes.map((node) => this.#listPods(node, signal)));
  }

  /** Forgets the pods of all nodes but these. */
  retain(names: ReadonlySet<string>): void {
    for (const name of new Set([...this.#known.keys(), ...this.#retries.keys()])) {
      if (names.has(name)) continue;
      this.#known.delete(name);
      this.#retries.delete(name);
    }
  }

  /** True when the budgets of the namespace concern a pod that is known. */
  hasPodsIn(namespace: string): boolean {
    return [...this.#known.values()].some(({ namespaces }) => namespaces.has(namespace));
  }

  async #listPods({ metadata: { name, uid } }: NodeView, signal: AbortSignal): Promise<void> {
    const { client, clock, log } = this.#options;
    const query = { fieldSelector: `spec.nodeName=${name}` };
    try {
      const request = { method: 'GET', path: corePath('pods'), query, signal } as const;
      const { items } = await client.request<{ readonly items: readonly unknown[] }>(request);
      const pods = items.map((raw) => slimPod(raw));
      const namespaces = new Set(pods.map(({ metadata }) => metadata.namespace ?? ''));
      this.#retries.delete(name);
      this.#known.set(name, { nodeUID: uid, pods, namespaces, seenAt: clock.now(), problem: undefined, retryAt: 0 });
    } catch (error) {
      if (signal.aborted) throw error;
      log.warn('cannot list the pods on a node, retrying', { node: name, error: messageOf(error) });
      const retry = this.#retries.get(name) ?? backoff(RETRY);
      this.#retries.set(name, retry);
      const before = this.#known.get(name);
      const same = before?.nodeUID === uid ? before : { nodeUID: uid, ...NOTHING_SEEN };
      this.#known.set(name, { ...same, problem: messageOf(error), retryAt: clock.now() + retry.next() });
    }
  }
}
