/**
 * The workloads of the nodes that one plan is about, by the latest list of all pods: which of them have
 * pods that are not Ready, or are about to lose one. A workload is what controls pods that an eviction
 * moves: a ReplicaSet, a StatefulSet or a controller of the users', but no DaemonSet, Job or static pod.
 * Pods on a node that is being drained count as gone already, so that two drains do not take pods of
 * one workload at the same time.
 *
 * An old list still keeps nodes from starting, so that their reasons do not change with each list, but
 * only one that counts lets a node start.
 */
import type { AllPods, PlacedPod } from '../../cluster/all-pods.ts';
import type { NodeView } from '../../cluster/node.ts';

/** A list counts for this long after its end. */
const COUNTS_MS = 15_000;
/** No pause between two lists is longer, unless the clock was set back. */
const MAX_PAUSE_MS = 600_000;

/** The pods of the cluster, for which a plan may ask. */
export class Workloads {
  readonly #known: AllPods;
  readonly #now: number;
  readonly #draining: Set<string>;
  #isRequested = false;
  #isKept = false;

  /** @param draining - names of the nodes that are being drained */
  constructor(known: AllPods, draining: Iterable<string>, now: number) {
    this.#known = known;
    this.#draining = new Set(draining);
    this.#now = now;
  }

  /** Counts a node whose drain starts. */
  drains({ metadata: { name } }: NodeView): void {
    this.#draining.add(name);
  }

  /** Why the latest list failed. */
  get problem(): string | undefined {
    return this.#known.problem;
  }

  /** All pods; undefined before the first list. Asks for the next one. */
  get pods(): readonly PlacedPod[] | undefined {
    this.#isRequested = true;
    return this.#known.seenAt === undefined ? undefined : this.#known.pods;
  }

  /** All pods as of `time` or later, epoch milliseconds; undefined: there is no such list. Asks for one then. */
  podsSince(time: number): readonly PlacedPod[] | undefined {
    const { pods, asOf, seenAt } = this.#known;
    const isKnown = seenAt !== undefined && asOf >= time && asOf <= this.#now;
    if (isKnown) this.#isKept = true;
    else this.#isRequested = true;
    return isKnown ? pods : undefined;
  }

  /** True when the list is recent enough to let a node start. The clock may have been set back. */
  get counts(): boolean {
    const { seenAt } = this.#known;
    return seenAt !== undefined && this.#now - seenAt <= COUNTS_MS && seenAt <= this.#now;
  }

  /** When the list began that `pods` has, epoch milliseconds. */
  get asOf(): number {
    return this.#known.asOf;
  }

  /** What to do with the list: `list` when the pods must be listed now, `keep` while the list that is known is needed. */
  get wanted(): 'list' | 'keep' | 'forget' {
    if (!this.#isRequested) return this.#isKept ? 'keep' : 'forget';
    const { nextAt } = this.#known;
    return this.#now >= nextAt || nextAt - this.#now > MAX_PAUSE_MS ? 'list' : 'keep';
  }

  /** When they must be listed again, epoch milliseconds. */
  get times(): readonly number[] {
    return this.#isRequested ? [this.#known.nextAt] : [];
  }

  /** Those with a pod on the node that are below what they want; undefined: the pods were not listed yet. */
  belowDesired({ metadata: { name } }: NodeView): string[] | undefined {
    const pods = this.pods;
    if (pods === undefined) return undefined;
    const { byNode, unready, leaving } = indexOf(pods);
    const others = [...this.#draining].filter((node) => node !== name);
    const isLeft = (controller: string): boolean => others.some((node) => leaving.get(node)?.has(controller) === true);
    return [...(byNode.get(name) ?? [])].filter((one) => unready.has(one) || isLeft(one)).toSorted();
  }

  /** Of these, those with a pod that is scheduled and not Ready; undefined: the pods were not listed yet. */
  notReadyOf(controllers: readonly string[]): string[] | undefined {
    const pods = this.pods;
    if (pods === undefined) return undefined;
    const { unready } = indexOf(pods);
    return controllers.filter((controller) => unready.get(controller) === 'scheduled');
  }
}

interface Index {
  /** The workloads with a pod that a drain of the node would evict. */
  readonly byNode: ReadonlyMap<string, ReadonlySet<string>>;
  /** Those with a pod on the node, also one that is being deleted. */
  readonly leaving: ReadonlyMap<string, ReadonlySet<string>>;
  /** Those with a pod that is not Ready: whether one of these is scheduled. */
  readonly unready: ReadonlyMap<string, 'scheduled' | 'waiting'>;
}

/** Of each list, since every node of a fleet may be asked for in one plan. */
const indexes = new WeakMap<readonly PlacedPod[], Index>();

function indexOf(pods: readonly PlacedPod[]): Index {
  const known = indexes.get(pods);
  if (known !== undefined) return known;
  const [byNode, leaving] = [new Map<string, Set<string>>(), new Map<string, Set<string>>()];
  const unready: Map<string, 'scheduled' | 'waiting'> = new Map();
  for (const pod of pods) {
    if (!isWorkload(pod.controller)) continue;
    if (leaves(pod)) add(leaving, pod);
    if (isEvicted(pod)) add(byNode, pod);
    if (!isMissed(pod)) continue;
    unready.set(
      pod.controller,
      pod.node === '' && unready.get(pod.controller) !== 'scheduled' ? 'waiting' : 'scheduled',
    );
  }
  const index = { byNode, leaving, unready };
  indexes.set(pods, index);
  return index;
}

function add(to: Map<string, Set<string>>, { node, controller }: PlacedPod): void {
  const of = to.get(node) ?? new Set();
  of.add(controller);
  to.set(node, of);
}

/** These replace a pod at once; others, as those of databases, by one of the same name, after its deletion. */
const REPLACING_AT_ONCE = /^(?:ReplicaSet|ReplicationController) /u;

function isMissed({ ready, healthIgnored, isTerminating, controller }: PlacedPod): boolean {
  if (healthIgnored) return false;
  return isTerminating ? !REPLACING_AT_ONCE.test(controller) : !ready;
}

/** @param controller - as `Kind namespace/name`; empty: nothing */
export function isWorkload(controller: string): boolean {
  return controller !== '' && !/^(?:DaemonSet|Job|Node) /u.test(controller);
}

/** True for a pod that a drain moves elsewhere. */
function isEvicted(pod: PlacedPod): boolean {
  return leaves(pod) && !pod.isTerminating;
}

/** True for a pod that a drain moves elsewhere, or has started to move. */
function leaves({ mirror, daemonSet, drainPolicy }: PlacedPod): boolean {
  return !mirror && daemonSet === undefined && drainPolicy !== 'skip';
}
