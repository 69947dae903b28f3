/**
 * The workloads of the nodes that one plan is about, by the latest list of all pods: which of them have
 * pods that are not Ready, or are about to lose one. A workload is what controls pods that an eviction
 * moves: a ReplicaSet, a StatefulSet or a controller of the users', but no DaemonSet, Job or static pod.
 * Pods on a node that is being drained count as gone already, so that two drains do not take pods of
 * one workload at the same time.
 */
import type { AllPods, PlacedPod } from '../../cluster/all-pods.ts';
import type { NodeView } from '../../cluster/node.ts';

/** A list counts for this long. */
const COUNTS_MS = 15_000;

/** The pods of the cluster, for which a plan may ask. */
export class Workloads {
  readonly #known: AllPods;
  readonly #now: number;
  readonly #draining: Set<string>;
  #isRequested = false;
  #unready: ReadonlyMap<string, Unready> | undefined;

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

  /** Why there is no list that counts, if the latest one failed. */
  get problem(): string | undefined {
    return this.#known.problem;
  }

  /** All pods; undefined: no list counts. Asks for the next one. */
  get pods(): readonly PlacedPod[] | undefined {
    this.#isRequested = true;
    return this.#isOld() ? undefined : this.#known.pods;
  }

  /** When the list ended that `pods` has, epoch milliseconds. */
  get seenAt(): number {
    return this.#known.seenAt ?? 0;
  }

  /** True when the pods must be listed now. */
  get isDue(): boolean {
    return this.#isRequested && this.#now >= this.#known.nextAt;
  }

  /** When they must be listed again, epoch milliseconds. */
  get times(): readonly number[] {
    return this.#isRequested ? [this.#known.nextAt] : [];
  }

  /** Those with a pod on the node that are below what they want; undefined: no list counts. */
  belowDesired({ metadata: { name } }: NodeView): string[] | undefined {
    const pods = this.pods;
    if (pods === undefined) return undefined;
    const leaving = pods.filter((pod) => isEvicted(pod) && isWorkload(pod.controller));
    const on = (isThere: (node: string) => boolean): Set<string> =>
      new Set(leaving.filter(({ node }) => isThere(node)).map(({ controller }) => controller));
    const others = on((node) => node !== name && this.#draining.has(node));
    return [...on((node) => node === name)]
      .filter((controller) => this.#unreadyPods().has(controller) || others.has(controller))
      .toSorted();
  }

  /** Of these, those with a pod that is scheduled and not Ready; undefined: no list counts. */
  notReadyOf(controllers: readonly string[]): string[] | undefined {
    if (this.pods === undefined) return undefined;
    return controllers.filter((controller) => (this.#unreadyPods().get(controller)?.scheduled ?? 0) > 0);
  }

  #unreadyPods(): ReadonlyMap<string, Unready> {
    this.#unready ??= unreadyOf(this.#known.pods);
    return this.#unready;
  }

  /** The clock may have been set back. */
  #isOld(): boolean {
    const { seenAt } = this.#known;
    return seenAt === undefined || this.#now - seenAt > COUNTS_MS || seenAt > this.#now;
  }
}

/** How many pods of a workload are not Ready. */
interface Unready {
  readonly scheduled: number;
  readonly all: number;
}

function unreadyOf(pods: readonly PlacedPod[]): Map<string, Unready> {
  const unready = new Map<string, Unready>();
  for (const pod of pods) {
    if (pod.ready || pod.healthIgnored || pod.isTerminating || !isWorkload(pod.controller)) continue;
    const { scheduled, all } = unready.get(pod.controller) ?? { scheduled: 0, all: 0 };
    unready.set(pod.controller, { scheduled: scheduled + (pod.node === '' ? 0 : 1), all: all + 1 });
  }
  return unready;
}

/** @param controller - as `Kind namespace/name`; empty: nothing */
export function isWorkload(controller: string): boolean {
  return controller !== '' && !/^(?:DaemonSet|Job|Node) /u.test(controller);
}

/** True for a pod that a drain moves elsewhere. */
export function isEvicted({ mirror, daemonSet, drainPolicy, isTerminating }: PlacedPod): boolean {
  return !mirror && daemonSet === undefined && drainPolicy !== 'skip' && !isTerminating;
}
