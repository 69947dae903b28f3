/**
 * Lists the pods of a scope, in pages; only pods that wait in CrashLoopBackOff, and the UIDs of the others, are kept.
 * Of those in open windows, it finds the ones that may be evicted.
 */
import type { RecoveryService } from '@brupop/shared/api/config-recovery';
import { selectorText } from '@brupop/shared/api/label-selector';
import type { KubeClient } from '@brupop/shared/kube/client';
import { isTransient, kindOf } from '@brupop/shared/kube/error';
import { listWithin, readList } from '@brupop/shared/kube/list';
import { corePath } from '@brupop/shared/kube/paths';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import { forEachOf } from '@brupop/shared/runtime/for-each';
import { type Logger, RetriedProblem } from '@brupop/shared/runtime/log';
import { NOT_STATIC } from '../../cluster/member-pods.ts';
import { podsOn } from '../../cluster/pods.ts';
import type { UpkeepView } from '../../cluster/upkeep-view.ts';
import { type Eviction, keyOf, listed, openIn, type RecoveryState, type Scope } from './decide.ts';
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

interface ScanOptions {
  readonly services: readonly RecoveryService[];
  /** By node: those that have just been listed. */
  readonly lists: ReadonlyMap<string, PodList>;
  /** Whose pods may be evicted. */
  readonly namespaces: readonly string[];
  readonly upkeep: Pick<UpkeepView, 'isLost' | 'keepsEmptyDirs'>;
  readonly signal: AbortSignal;
}

interface Scan {
  /** Without the pods that are gone. */
  readonly state: RecoveryState;
  readonly crashing: readonly Eviction[];
  /** Whose pods are left, since connectivity is lost there. */
  readonly lostNodes: readonly string[];
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

  /** The pods of all open windows that wait in CrashLoopBackOff. */
  async scan(before: RecoveryState, options: ScanOptions): Promise<Scan> {
    const { clock } = this.#options;
    const { namespaces, upkeep } = options;
    const crashing: Eviction[] = [];
    const lostNodes = new Set<string>();
    const found = new Map<Scope, PodList>();
    // One that takes long must not make the lists of the others old.
    await forEachOf(openIn(before, clock.now()), async (scope) => {
      const list = await this.#ofScope(scope, options);
      if (list !== undefined) found.set(scope, list);
    });
    let state = before;
    for (const [scope, { pods, listedAt }] of found) {
      state = listed(state, scope, new Set(pods.map(({ uid }) => uid)), clock.now());
      for (const pod of pods.flatMap((one) => one.crashing ?? [])) {
        if (!namespaces.includes(pod.namespace) || (pod.emptyDir === true && upkeep.keepsEmptyDirs(pod.node))) continue;
        if (upkeep.isLost(pod.node)) lostNodes.add(pod.node);
        else crashing.push({ scope, pod, listedAt });
      }
    }
    return { state, crashing, lostNodes: [...lostNodes] };
  }

  /** Undefined if they cannot be listed, or are no longer asked for. */
  async #ofScope(scope: Scope, { services, lists, signal }: ScanOptions): Promise<PodList | undefined> {
    if (scope.kind === 'Node') return lists.get(scope.name) ?? (await this.onNode(scope, signal));
    const service = services.find(({ name }) => name === scope.name);
    return service && (await this.#ofService(scope, service, signal));
  }

  async #ofService(
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
      const list = { ...podsOn(scope.name), signal: limited, slim: listedPod };
      const { items } = await readList(this.#options.client, list);
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
