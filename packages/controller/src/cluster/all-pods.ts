/**
 * All pods of the cluster but those that have finished and mirror pods, for `spec.health.workloads`. They are not watched: a
 * plan says that it needs them ({@link AllPodsLookup.look}), they are listed in the background, and a
 * later snapshot has the result. Nothing is listed or kept while no plan needs it. The lists of a large cluster
 * take long, so the next one starts no sooner than a multiple of that time later.
 */
import { type DrainPod, isTerminating, slimPod } from '@brupop/shared/drain/pods';
import type { KubeClient } from '@brupop/shared/kube/client';
import { listWithin, quarterOfHeap, readList } from '@brupop/shared/kube/list';
import { corePath } from '@brupop/shared/kube/paths';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import { Listeners } from '@brupop/shared/runtime/listeners';
import { type Logger, RetriedProblem } from '@brupop/shared/runtime/log';
import { NOT_STATIC, UNFINISHED } from './member-pods.ts';

/** A pod, reduced to where it runs and what controls it. */
export interface PlacedPod extends Pick<
  DrainPod,
  'ready' | 'mirror' | 'healthIgnored' | 'drainPolicy' | 'daemonSet' | 'controller'
> {
  readonly namespace: string;
  /** Empty before it is scheduled. */
  readonly node: string;
  readonly isTerminating: boolean;
}

export interface AllPods {
  /** Without those that have finished; of the latest list that succeeded. */
  readonly pods: readonly PlacedPod[];
  /** When that list ended, epoch milliseconds; undefined: none did. */
  readonly seenAt: number | undefined;
  /** When it began, epoch milliseconds: it has the pods as they were then. */
  readonly asOf: number;
  /** Why the latest list failed. */
  readonly problem: string | undefined;
  /** When the next list may start, epoch milliseconds. */
  readonly nextAt: number;
}

export const NO_PODS_LISTED: AllPods = { pods: [], seenAt: undefined, asOf: 0, problem: undefined, nextAt: 0 };

interface AllPodsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of what is kept of all pods, as JSON. */
  readonly maxChars?: number;
}

/** For all pages. */
const LIST_LIMIT_MS = 120_000;
/** A cluster with more is not evaluated. */
const MAX_PODS = 200_000;
/** The next list starts this long after the end of one, longer with each that plans have asked for without a break, */
const PAUSE_MS = 5_000;
const MAX_PAUSE_MS = 15_000;
/** and at least this many times as long after it as it took. */
const PAUSE_FACTOR = 2;
/** After a list that failed. */
export const RETRY_LIST_MS = 15_000;

export class AllPodsLookup {
  readonly #options: AllPodsOptions;
  /** Called after each list. */
  readonly answers = new Listeners();
  #known = NO_PODS_LISTED;
  readonly #problem: RetriedProblem;
  #isBusy = false;
  #lists = 0;

  constructor(options: AllPodsOptions) {
    this.#options = options;
    this.#problem = new RetriedProblem(options.clock);
  }

  get known(): AllPods {
    return this.#known;
  }

  /** Does what a plan says. Lists in the background, until `signal` aborts. */
  look(wanted: 'list' | 'keep' | 'forget', signal: AbortSignal): void {
    if (wanted === 'forget') this.clear();
    if (wanted !== 'list' || this.#isBusy) return;
    this.#isBusy = true;
    void this.#list(signal).finally(() => {
      this.#isBusy = false;
      if (!signal.aborted) this.answers.call();
    });
  }

  /** Forgets the pods. */
  clear(): void {
    this.#known = { ...NO_PODS_LISTED, nextAt: this.#known.nextAt };
    this.#lists = 0;
  }

  async #list(signal: AbortSignal): Promise<void> {
    const { client, clock, log, maxChars = quarterOfHeap() } = this.#options;
    const startedAt = clock.monotonic();
    const asOf = clock.now();
    try {
      // No workload has others, and any number of them could fill the list.
      const query = { fieldSelector: `${NOT_STATIC},${UNFINISHED}` };
      const once = eachOnce();
      const slim = (raw: unknown) => placedPod(raw, once);
      // The field selector leaves out few of them: in one response they would be hundreds of megabytes.
      const pages = { isNarrow: false, maxItems: MAX_PODS, maxChars };
      const list = { path: corePath('pods'), query, slim, ...pages };
      const read = (limited: AbortSignal) => readList(client, { ...list, signal: limited });
      const { items: pods } = await listWithin(LIST_LIMIT_MS, clock, signal, read);
      if (signal.aborted) return;
      this.#problem.ended();
      this.#lists += 1;
      const longerMs = Math.min(MAX_PAUSE_MS, PAUSE_MS * this.#lists);
      const pauseMs = Math.max(longerMs, PAUSE_FACTOR * (clock.monotonic() - startedAt));
      const seenAt = clock.now();
      this.#known = { pods, seenAt, asOf, problem: undefined, nextAt: seenAt + pauseMs };
    } catch (error) {
      if (signal.aborted) return;
      log[this.#problem.levelOf('list')]('cannot list the pods of the cluster, retrying', { error: messageOf(error) });
      this.#known = { ...this.#known, problem: messageOf(error), nextAt: clock.now() + RETRY_LIST_MS };
    }
  }
}

/** Undefined for a pod that has finished. */
export function placedPod(raw: unknown, once: (text: string) => string = String): PlacedPod | undefined {
  const pod = slimPod(raw);
  const { finished, node, ready, mirror, healthIgnored, drainPolicy, daemonSet, controller } = pod;
  if (finished) return undefined;
  return {
    namespace: once(pod.metadata.namespace ?? ''),
    node: once(node),
    ready,
    mirror,
    healthIgnored,
    drainPolicy,
    controller: once(controller),
    ...(daemonSet !== undefined && { daemonSet: once(daemonSet) }),
    isTerminating: isTerminating(pod),
  };
}

/** Returns one text for all that are equal: otherwise the texts of 150,000 pods take more memory than all else of them. */
function eachOnce(): (text: string) => string {
  const known = new Map<string, string>();
  return (text) => {
    const same = known.get(text) ?? text;
    known.set(same, same);
    return same;
  };
}
