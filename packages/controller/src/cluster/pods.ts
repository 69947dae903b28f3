/**
 * The pods on the nodes that may start or drain next. Pods are not watched: a plan names the nodes
 * whose pods it needs (`lookUps`), they are listed in the background, some at a time and in that order, and the next snapshots
 * have them until a plan no longer uses them ({@link PodLookups.retain}). The nodes that a later plan names take the place of
 * those that are left: no node waits for a plan of its own. `known` has the error of a list that failed, which is retried with a backoff. Of a node that is observed after its
 * update, only the pods that are not Ready are kept, since there may be many such nodes.
 */
import { messageOf } from '@brupop/shared/runtime/errors';
import { type DrainPod, MAX_CHARS_OF_NODE, MAX_PODS_OF_NODE } from '@brupop/shared/drain/pods';
import { type KubeClient, KubeError } from '@brupop/shared/kube/client';
import { isTooLarge, TOO_LARGE } from '@brupop/shared/kube/error';
import { listWithin, quarterOfHeap, readList, Sizes } from '@brupop/shared/kube/list';
import { corePath } from '@brupop/shared/kube/paths';
import type { Clock } from '@brupop/shared/runtime/clock';
import { Listeners } from '@brupop/shared/runtime/listeners';
import type { NodeLog } from '@brupop/shared/runtime/log';
import { ListRetries } from './list-retries.ts';
import { readPod } from './needs.ts';
import type { NodeView } from './node.ts';
import { podAsSighted, type PodSightings, podSightingsOf } from './sightings.ts';
import { type ObservedPod, type ObservedPods, type PodsOfNode, REVISION_LABEL } from './snapshot.ts';

interface PodLookupsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly logOf: NodeLog;
  /** Of the pods of all nodes, as JSON. Default: a quarter of the heap. */
  readonly maxChars?: number;
}

/**
 * Nodes whose pods are listed at the same time. Each node that updates needs two lists, and anyone who may create pods decides
 * how much memory one takes while it is read.
 */
export const LISTS_AT_ONCE = 10;
/** For all pages of one node. */
const LIST_LIMIT_MS = 10_000;
/** Of the lists of an observed node. */
const MAX_TIMES = 3;
const MAX_OBSERVED = 200;
/** A restart before that says nothing of how the pod is now. */
export const RESTARTED_MS = 60_000;
const NOTHING_SEEN = { pods: [], namespaces: new Set<string>(), seenAt: undefined };

export class PodLookups {
  readonly #options: PodLookupsOptions;
  /** Called after each list. */
  readonly answers = new Listeners();
  /** Those that are left of the latest plan, by name. */
  #wanted = new Map<string, NodeView>();
  /** The names of the nodes whose pods are being listed. */
  readonly #busy = new Set<string>();
  readonly #known = new Map<string, PodsOfNode>();
  readonly #observed = new Map<string, ObservedPods>();
  /** By name of the node. */
  readonly #chars = new Map<string, number>();
  /** By name of the node. */
  readonly #retries: ListRetries;
  /** By name of the node: what was seen of the pods on the Node with this UID. */
  readonly #sightings = new Map<string, { readonly nodeUID: string; readonly pods: PodSightings }>();

  constructor(options: PodLookupsOptions) {
    this.#options = options;
    this.#retries = new ListRetries(options.clock);
  }

  get known(): ReadonlyMap<string, PodsOfNode> {
    return this.#known;
  }

  get observed(): ReadonlyMap<string, ObservedPods> {
    return this.#observed;
  }

  /**
   * Lists the pods of these nodes in the background, but for those whose list is under way, until `signal` aborts. Those that
   * are left of an earlier call are not listed.
   */
  look(nodes: readonly NodeView[], signal: AbortSignal): void {
    const others = nodes.filter(({ metadata: { name } }) => !this.#busy.has(name));
    this.#wanted = new Map(others.map((node) => [node.metadata.name, node]));
    this.#listNext(signal);
  }

  #listNext(signal: AbortSignal): void {
    for (const [name, node] of this.#wanted) {
      if (signal.aborted || this.#busy.size >= LISTS_AT_ONCE) return;
      this.#wanted.delete(name);
      this.#busy.add(name);
      void this.#listPods(node, signal).finally(() => {
        this.#busy.delete(name);
        if (signal.aborted) return;
        this.#listNext(signal);
        this.answers.call();
      });
    }
  }

  /**
   * Removes the pods of all other nodes.
   * @param observed - of whose pods those that are not Ready are kept
   */
  retain(names: ReadonlySet<string>, observed: ReadonlySet<string>): void {
    for (const name of this.#observed.keys()) if (!observed.has(name)) this.#observed.delete(name);
    for (const name of this.#known.keys()) {
      if (names.has(name)) continue;
      this.#sightings.delete(name);
      this.#known.delete(name);
      this.#chars.delete(name);
      this.#retries.delete(name);
    }
  }

  /** True if a listed pod is in the namespace. */
  hasPodsIn(namespace: string): boolean {
    return [...this.#known.values()].some(({ namespaces }) => namespaces.has(namespace));
  }

  /** Throws for a node whose pods are more than fit, and than its equal share: one that has few loses none to others. */
  #limitTotal(name: string, pods: readonly DrainPod[]): void {
    const { maxChars = quarterOfHeap() } = this.#options;
    const sizes = new Sizes();
    const chars = sizes.add(pods);
    this.#chars.delete(name);
    const total = [...this.#chars.values()].reduce((sum, one) => sum + one, chars);
    if (total > maxChars && chars > maxChars / (this.#chars.size + 1)) {
      // The former ones are too many as well.
      this.#known.delete(name);
      throw new KubeError(
        0,
        TOO_LARGE,
        `the pods of all nodes have ${total} characters, more than ${maxChars}, on this node most in the namespace "${sizes.largest()}"`,
      );
    }
    this.#chars.set(name, chars);
  }

  async #listPods({ metadata: { name, uid } }: NodeView, signal: AbortSignal): Promise<void> {
    const { client, clock, logOf } = this.#options;
    try {
      const list = { ...podsOn(name), slim: readPod, maxChars: MAX_CHARS_OF_NODE };
      const read = (limited: AbortSignal) => readList(client, { ...list, signal: limited });
      const { items } = await listWithin(LIST_LIMIT_MS, clock, signal, read);
      this.#limitTotal(name, items);
      const seenAt = clock.now();
      const before = this.#sightings.get(name);
      const sightings = podSightingsOf(items, before?.nodeUID === uid ? before.pods : undefined, seenAt);
      this.#sightings.set(name, { nodeUID: uid, pods: sightings });
      const pods = items.map((pod) => podAsSighted(pod, sightings));
      const namespaces = new Set(pods.map(({ metadata }) => metadata.namespace ?? ''));
      this.#retries.delete(name);
      this.#known.set(name, { nodeUID: uid, pods, namespaces, seenAt, problem: undefined, retryAt: 0 });
      this.#observed.set(name, observedPods({ nodeUID: uid, pods, seenAt }, this.#observed.get(name)));
    } catch (error) {
      if (signal.aborted) return;
      const { level, delayMs } = this.#retries.failed(name, error);
      logOf(name)[level]('cannot list the pods on the node, retrying', { error: messageOf(error) });
      const before = this.#known.get(name);
      const same = before?.nodeUID === uid ? before : { nodeUID: uid, ...NOTHING_SEEN };
      const problem = { problem: messageOf(error), isTooLarge: isTooLarge(error) };
      this.#known.set(name, { ...same, ...problem, retryAt: clock.now() + delayMs });
    }
  }
}

/** A list from the watch cache: other lists read the pods of all nodes up to Kubernetes 1.30. */
export function podsOn(node: string) {
  const query = { fieldSelector: `spec.nodeName=${node}`, resourceVersion: '0' };
  return { path: corePath('pods'), query, maxItems: MAX_PODS_OF_NODE };
}

/** What is kept of a list for the observation of its node. */
export function observedPods(
  { nodeUID, pods, seenAt = 0 }: Pick<PodsOfNode, 'nodeUID' | 'pods' | 'seenAt'>,
  before: ObservedPods | undefined,
): ObservedPods {
  const earlier = before?.nodeUID === nodeUID ? before.listedAt.slice(-MAX_TIMES) : [];
  return {
    nodeUID,
    pods: inTurn(pods.filter((pod) => isTroubled(pod, seenAt)))
      .slice(0, MAX_OBSERVED)
      .map(observedPod),
    listedAt: [...earlier, seenAt],
  };
}

function isTroubled({ finished, ready, failing, mostRestarts, restartedAt = 0 }: DrainPod, seenAt: number): boolean {
  return !finished && (!ready || failing || (mostRestarts > 1 && seenAt - restartedAt < RESTARTED_MS));
}

/** One of each namespace after the other, so that of too many those of one namespace do not crowd out the others. */
function inTurn(pods: readonly DrainPod[]): readonly DrainPod[] {
  const byNamespace = Map.groupBy(pods, ({ metadata: { namespace = '' } }) => namespace);
  const placed = [...byNamespace.values()].flatMap((same) => same.map((pod, turn) => ({ pod, turn })));
  return placed.toSorted((a, b) => a.turn - b.turn).map(({ pod }) => pod);
}

/** There may be many observed nodes, and anyone who may create pods decides on the size of their labels. */
function observedPod(pod: DrainPod): ObservedPod {
  const { metadata, daemonSet } = pod;
  const { controller, mirror, healthIgnored, ready, readyChanged, failing, mostRestarts, restartedAt } = pod;
  const kept = { controller, mirror, healthIgnored, ready, readyChanged, failing, mostRestarts, restartedAt };
  const revision = metadata.labels?.[REVISION_LABEL];
  const labels = revision === undefined ? {} : { [REVISION_LABEL]: revision };
  return { metadata: { ...metadata, labels }, ...(daemonSet !== undefined && { daemonSet }), ...kept };
}
