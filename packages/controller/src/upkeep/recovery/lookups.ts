/** Lists the pods of a scope, in pages; only pods that wait in CrashLoopBackOff, and the UIDs of the others, are kept. */
import type { RecoveryService } from '@brupop/shared/api/config-recovery';
import { selectorText } from '@brupop/shared/api/label-selector';
import { MAX_PODS_OF_NODE } from '@brupop/shared/drain/pods';
import type { KubeClient } from '@brupop/shared/kube/client';
import { readList } from '@brupop/shared/kube/list';
import { corePath } from '@brupop/shared/kube/paths';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { Logger } from '@brupop/shared/runtime/log';
import { keyOf, type Scope } from './decide.ts';
import { type ListedPod, listedPod } from './pods.ts';

/** Of a selector; with more, none of them is evicted. */
const MAX_SELECTED = 20_000;

export class PodLookups {
  readonly #client: KubeClient;
  readonly #log: Logger;
  #problem: string | undefined;

  constructor({ client, log }: { readonly client: KubeClient; readonly log: Logger }) {
    this.#client = client;
    this.#log = log;
  }

  /** Why the pods of a scope could not be listed, since {@link reset}. */
  get problem(): string | undefined {
    return this.#problem;
  }

  reset(): void {
    this.#problem = undefined;
  }

  /** Undefined if they cannot be listed. */
  async ofService(
    scope: Scope,
    { namespace, podSelectors }: RecoveryService,
    signal: AbortSignal,
  ): Promise<readonly ListedPod[] | undefined> {
    return await this.#tried(scope, signal, async () => {
      const found = new Map<string, ListedPod>();
      for (const selector of podSelectors) {
        const { items } = await readList(this.#client, {
          path: corePath('pods', { namespace }),
          query: { labelSelector: selectorText(selector) },
          signal,
          slim: listedPod,
          maxItems: MAX_SELECTED,
        });
        for (const pod of items) found.set(pod.uid, pod);
      }
      return [...found.values()];
    });
  }

  /** Undefined if they cannot be listed. */
  async onNode(scope: Scope, signal: AbortSignal): Promise<readonly ListedPod[] | undefined> {
    return await this.#tried(scope, signal, async () => {
      const { items } = await readList(this.#client, {
        path: corePath('pods'),
        // From the watch cache: other lists read the pods of all nodes up to Kubernetes 1.30.
        query: { fieldSelector: `spec.nodeName=${scope.name}`, resourceVersion: '0' },
        signal,
        slim: listedPod,
        maxItems: MAX_PODS_OF_NODE,
      });
      return items;
    });
  }

  async #tried(
    scope: Scope,
    signal: AbortSignal,
    list: () => Promise<readonly ListedPod[]>,
  ): Promise<readonly ListedPod[] | undefined> {
    try {
      return await list();
    } catch (error) {
      if (signal.aborted) throw error;
      this.#problem = `The pods of ${keyOf(scope)} cannot be listed: ${messageOf(error)}`;
      this.#log.warn('cannot list the pods of what has recovered, retrying', { ...scope, error: messageOf(error) });
      return undefined;
    }
  }
}
