/**
 * The pods of the sets of `spec.quorums`. They are not watched: a plan names the sets whose members a node needs to be
 * known ({@link MemberPodsLookup.look}), each is listed in the background by its selector, and a later snapshot has the
 * result. Nothing is listed or kept while no plan asks. A list that fails is retried with a backoff; until one succeeds
 * its error stays in the result, so that nodes with a member wait and say why.
 *
 * A kubelet may create any number of mirror pods on its own Node, with any labels. These reference no service account, and any
 * other pod does, so the mirror pods of a node are in no list but that of its own node, if static pods count there.
 */
import type { Quorum } from '@brupop/shared/api/config-quorums';
import { selectorText } from '@brupop/shared/api/label-selector';
import { type DrainPod, slimPod } from '@brupop/shared/drain/pods';
import type { KubeClient } from '@brupop/shared/kube/client';
import { listWithin, readList } from '@brupop/shared/kube/list';
import { corePath } from '@brupop/shared/kube/paths';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import { Listeners } from '@brupop/shared/runtime/listeners';
import type { Logger } from '@brupop/shared/runtime/log';
import { ListRetries } from './list-retries.ts';

/** Of the latest list that succeeded, unless there was none. */
export interface MemberPods {
  readonly pods: readonly DrainPod[];
  /** When that list began, epoch milliseconds: it has the pods as they were then. Undefined: there was none. */
  readonly asOf: number | undefined;
  /** Why the latest list failed. */
  readonly problem: string | undefined;
  /** When the next list may start, epoch milliseconds. */
  readonly nextAt: number;
}

/** By {@link membersKey}. */
export type MemberPodsView = ReadonlyMap<string, MemberPods>;

type Selected = Pick<Quorum, 'namespace' | 'podSelector' | 'nodeSelector'>;

export interface MembersToList extends Selected {
  /** Names of the nodes on which static pods count. */
  readonly staticOn: readonly string[];
}

export interface MembersWanted {
  /** The sets to be listed now. */
  readonly list: readonly MembersToList[];
  /** The keys of those that were used. */
  readonly keep: ReadonlySet<string>;
}

interface MemberPodsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
}

/** For all requests of one set: shorter than a list counts. */
const LIST_LIMIT_MS = 8_000;
/** The next list of a set starts this long after the end of one, longer with each that plans have asked for without a break. */
const PAUSE_MS = 5_000;
const MAX_PAUSE_MS = 10_000;
/** A set with more pods than this, or more static pods on one node, is not counted, */
const MAX_PODS = 300;
/** nor one whose static pods count on more nodes. */
const MAX_STATIC_NODES = 100;
/** Any number of pods that have finished may be left of one node. */
export const UNFINISHED = 'status.phase!=Succeeded,status.phase!=Failed';

/** Leaves out mirror pods, of which a kubelet may create any number: these reference no service account. */
export const NOT_STATIC = 'spec.serviceAccountName!=';

/** Changes with what selects the pods. */
export function membersKey({ namespace, podSelector, nodeSelector }: Selected): string {
  const nodes = nodeSelector === undefined ? '' : `@${selectorText(nodeSelector)}`;
  return `${namespace}?${selectorText(podSelector)}${nodes}`;
}

export class MemberPodsLookup {
  readonly #options: MemberPodsOptions;
  /** Called after each list. */
  readonly answers = new Listeners();
  readonly #known = new Map<string, MemberPods>();
  readonly #retries: ListRetries;
  readonly #busy = new Set<string>();

  constructor(options: MemberPodsOptions) {
    this.#options = options;
    this.#retries = new ListRetries(options.clock);
  }

  get view(): MemberPodsView {
    return new Map(this.#known);
  }

  /** Does what a plan says. Lists in the background, until `signal` aborts. */
  look({ list, keep }: MembersWanted, signal: AbortSignal): void {
    for (const key of this.#known.keys()) {
      if (keep.has(key)) continue;
      this.#known.delete(key);
      this.#retries.delete(key);
    }
    for (const one of list) {
      const key = membersKey(one);
      if (this.#busy.has(key)) continue;
      this.#busy.add(key);
      void this.#list(key, one, signal).finally(() => {
        this.#busy.delete(key);
        if (!signal.aborted) this.answers.call();
      });
    }
  }

  /** Forgets the pods: another process may act until this one leads again. */
  clear(): void {
    this.#known.clear();
    this.#retries.clear();
  }

  async #list(key: string, set: MembersToList, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    const asOf = clock.now();
    try {
      const pods = await listWithin(LIST_LIMIT_MS, clock, signal, (limited) => this.#read(set, limited));
      if (signal.aborted) return;
      this.#retries.delete(key);
      const pauseMs = this.#known.get(key)?.asOf === undefined ? PAUSE_MS : MAX_PAUSE_MS;
      this.#known.set(key, { pods, asOf, problem: undefined, nextAt: clock.now() + pauseMs });
    } catch (error) {
      if (signal.aborted) return;
      const { level, delayMs } = this.#retries.failed(key, error);
      const of = { namespace: set.namespace, selector: selectorText(set.podSelector) };
      log[level]('cannot list the members of a quorum, retrying', { ...of, error: messageOf(error) });
      const before = this.#known.get(key) ?? { pods: [], asOf: undefined };
      this.#known.set(key, { ...before, problem: messageOf(error), nextAt: clock.now() + delayMs });
    }
  }

  async #read(set: MembersToList, signal: AbortSignal): Promise<DrainPod[]> {
    const { staticOn } = set;
    if (staticOn.length > MAX_STATIC_NODES)
      throw new Error(`its nodeSelector selects ${staticOn.length} nodes, and at most ${MAX_STATIC_NODES} may be`);
    const pods = await this.#readSome(set, NOT_STATIC, signal);
    for (const name of staticOn) {
      const ofNode = `spec.serviceAccountName=,spec.nodeName=${name}`;
      const found = await this.#readSome(set, ofNode, signal).catch((error: unknown) => {
        throw new Error(`the static pods on ${name}: ${messageOf(error)}`, { cause: error });
      });
      pods.push(...found);
    }
    return pods;
  }

  async #readSome({ namespace, podSelector }: Selected, which: string, signal: AbortSignal): Promise<DrainPod[]> {
    const { items } = await readList(this.#options.client, {
      path: corePath('pods', { namespace }),
      query: { labelSelector: selectorText(podSelector), fieldSelector: `${which},${UNFINISHED}` },
      signal,
      slim: (raw) => slimPod(raw),
      maxItems: MAX_PODS,
    });
    return [...items];
  }
}
