/** Lists the pods of a scope, in pages; only pods that wait in CrashLoopBackOff, and the UIDs of the others, are kept. */
import { NOT_STATIC } from '../../cluster/member-pods.ts';
import type { RecoveryService } from '@brupop/shared/api/config-recovery';
import { selectorText } from '@brupop/shared/api/label-selector';
import { MAX_PODS_OF_NODE } from '@brupop/shared/drain/pods';
import type { KubeClient } from '@brupop/shared/kube/client';
import { isTransient, kindOf } from '@brupop/shared/kube/error';
import { listWithin, readList } from '@brupop/shared/kube/list';
import { corePath } from '@brupop/shared/kube/paths';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import { type Logger, RetriedProblem } from '@brupop/shared/runtime/log';
import { keyOf, type Scope } from './decide.ts';
import { type ListedPod, listedPod } from './pods.ts';

/** Of a selector; with more, none of them is evicted. */
const MAX_SELECTED = 20_000;
/** Of the lists of one scope: pods that they show are evicted for some seconds afterwards. */
const LIST_LIMIT_MS = 10_000;

export interface PodList {
  readonly pods: readonly ListedPod[];
  /** When it began, on the monotonic clock. */
  readonly listedAt: number;
}

interface LookupOptions {
  readonly client: Pick<KubeClient, 'request'>;
  readonly clock: Clock;
  readonly log: Logger;
}

export class PodLookups {
  readonly #options: LookupOptions;
  readonly #retried: RetriedProblem;
  #problem: string | undefined;

  constructor(options: LookupOptions) {
    this.#options = options;
    this.#retried = new RetriedProblem(options.clock);
  }

  /** Why the pods of a scope could not be listed since {@link reset}, once that has lasted. */
  get problem(): string | undefined {
    return this.#retried.hasLasted ? this.#problem : undefined;
  }

  reset(): void {
    if (this.#problem === undefined) this.#retried.ended();
    this.#problem = undefined;
  }

  /** Undefined if they cannot be listed. */
  async ofService(
    scope: Scope,
    { namespace, podSelectors }: RecoveryService,
    signal: AbortSignal,
  ): Promise<PodList | undefined> {
    return await this.#tried(scope, signal, async (limited) => {
      const found = new Map<string, ListedPod>();
      for (const selector of podSelectors) {
        const { items } = await readList(this.#options.client, {
          path: corePath('pods', { namespace }),
          query: { labelSelector: selectorText(selector), fieldSelector: NOT_STATIC },
          signal: limited,
          slim: listedPod,
          // The field selector leaves out few of them.
          isNarrow: false,
          maxItems: MAX_SELECTED,
        });
        for (const pod of items) found.set(pod.uid, pod);
      }
      return [...found.values()];
    });
  }

  /** Undefined if they cannot be listed. */
  async onNode(scope: Scope, signal: AbortSignal): Promise<PodList | undefined> {
    return await this.#tried(scope, signal, async (limited) => {
      const { items } = await readList(this.#options.client, {
        path: corePath('pods'),
        // From the watch cache: other lists read the pods of all nodes up to Kubernetes 1.30.
        query: { fieldSelector: `spec.nodeName=${scope.name}`, resourceVersion: '0' },
        signal: limited,
        slim: listedPod,
        maxItems: MAX_PODS_OF_NODE,
      });
      return items;
    });
  }

  async #tried(
    scope: Scope,
    signal: AbortSignal,
    list: (limited: AbortSignal) => Promise<readonly ListedPod[]>,
  ): Promise<PodList | undefined> {
    const { clock, log } = this.#options;
    const listedAt = clock.monotonic();
    try {
      return { pods: await listWithin(LIST_LIMIT_MS, clock, signal, list), listedAt };
    } catch (error) {
      if (signal.aborted) throw error;
      this.#problem = `The pods of ${keyOf(scope)} cannot be listed: ${messageOf(error)}`;
      const level = this.#retried.levelOf(kindOf(error), { isLasting: !isTransient(error) });
      log[level]('cannot list the pods of what has recovered, retrying', { ...scope, error: messageOf(error) });
      return undefined;
    }
  }
}
