/**
 * The order in which a pass evicts the pods of a node.
 *
 * - Finished pods go first, then lower priorities before higher ones and, within a priority, pods
 *   without volumes before those with. Pods with the drain policy `last` follow, then those
 *   that serve volumes of the pods before, then the operator's own Deployments, and at the very end
 *   the replica that drains: its eviction ends the pass, and another replica continues.
 * - All pods of one rank go together, those with volumes one at a time. The next rank waits until
 *   every pod before is terminating, so a budget that blocks the first leaves the later ones alone.
 */
import type { DrainBlock } from '@brupop/shared/api/shadow';
import type { EvictionOutcome } from '@brupop/shared/drain/evictions';
import { type DrainPod, hasVolumes, isTerminating, podKey } from '@brupop/shared/drain/pods';
import { heldBy } from '@brupop/shared/drain/preflight';
import { type Backoff, backoff } from '@brupop/shared/runtime/backoff';
import { parseTime } from '@brupop/shared/runtime/clock';

/** The latest request to evict a pod. */
interface Attempt {
  readonly count: number;
  /** Undefined: the eviction was accepted, or the pod is gone. */
  readonly block?: Omit<DrainBlock, 'pod'>;
  /** Monotonic milliseconds. */
  readonly notBefore: number;
  readonly retry: Backoff;
}

const RETRY = { baseMs: 500, capMs: 4_000 };
/** How long after its deletion time a pod counts as stuck. */
const OVERDUE_MS = 10_000;
const JUST_EVICTED = { reason: 'Terminating', message: 'has just been evicted' } as const;

/** Between two evictions of pods of one controller that were not there at first: it may create them again at once. */
const RETURNED_PAUSE_MS = 1_000;

export class EvictionOrder {
  readonly #self: string;
  /** UIDs of the pods that were there at first. */
  #first: ReadonlySet<string> | undefined;
  /** By controller, when a pod that came later was evicted; monotonic milliseconds. */
  readonly #returnedAt = new Map<string, number>();
  /** By pod UID. */
  readonly #attempts = new Map<string, Attempt>();

  /** @param self - the pod of this replica, as `namespace/name` */
  constructor(self: string) {
    this.#self = self;
  }

  /** @param now - monotonic milliseconds */
  record(pod: DrainPod, outcome: EvictionOutcome, now: number): void {
    const { uid } = pod.metadata;
    if (outcome.kind === 'accepted' && this.#isReturned(pod)) this.#returnedAt.set(controllerOf(pod), now);
    const { count, retry } = this.#attempts.get(uid) ?? { count: 0, retry: backoff(RETRY) };
    const attempt = { count: count + 1, retry, notBefore: now };
    if (outcome.kind !== 'blocked') this.#attempts.set(uid, attempt);
    else {
      const notBefore = now + Math.max(retry.next(), outcome.retryAfterMs);
      this.#attempts.set(uid, { ...attempt, block: outcome.block, notBefore });
    }
  }

  /** True when the pod is terminating, or its eviction was accepted and the watch has not shown it yet. */
  isLeaving(pod: DrainPod): boolean {
    const attempt = this.#attempts.get(pod.metadata.uid);
    return isTerminating(pod) || (attempt !== undefined && attempt.block === undefined);
  }

  isBefore(pod: DrainPod, other: DrainPod): boolean {
    return this.#compare(pod, other) < 0;
  }

  /** The pods of the lowest rank that are not leaving. */
  next(pods: readonly DrainPod[]): readonly DrainPod[] {
    this.#first ??= new Set(pods.map(({ metadata }) => metadata.uid));
    const staying = pods.filter((pod) => !this.isLeaving(pod)).toSorted((a, b) => this.#compare(a, b));
    const [first] = staying;
    return first === undefined ? [] : staying.filter((pod) => this.#compare(pod, first) === 0);
  }

  /** Those of `next` to request now; of pods with volumes the one with the fewest attempts. */
  due(next: readonly DrainPod[], now: number): readonly DrainPod[] {
    const ready = next.filter((pod) => this.#notBefore(pod, now) <= now);
    if (next.some(hasVolumes)) return ready.toSorted((a, b) => this.#count(a) - this.#count(b)).slice(0, 1);
    // The longest grace period first, so that all together take no longer than that.
    return ready.toSorted((a, b) => b.graceSeconds - a.graceSeconds);
  }

  /** When the first of these pods is due, monotonic milliseconds. */
  dueAt(next: readonly DrainPod[], now: number): number {
    return Math.min(Infinity, ...next.map((pod) => this.#notBefore(pod, now)));
  }

  #notBefore(pod: DrainPod, now: number): number {
    const pauseEnds = this.#isReturned(pod)
      ? (this.#returnedAt.get(controllerOf(pod)) ?? -Infinity) + RETURNED_PAUSE_MS
      : 0;
    return Math.max(this.#attempts.get(pod.metadata.uid)?.notBefore ?? now, pauseEnds);
  }

  #isReturned({ metadata }: DrainPod): boolean {
    return this.#first?.has(metadata.uid) === false;
  }

  /** True when no pod is leaving, and each of `next` was rejected at least twice. */
  isStuck(pods: readonly DrainPod[]): boolean {
    return !pods.some((pod) => this.isLeaving(pod)) && this.next(pods).every((pod) => this.#count(pod) >= 2);
  }

  /**
   * Why pods are still there, without those of later ranks.
   * @param now - epoch milliseconds
   */
  blocks(pods: readonly DrainPod[], now: number): readonly DrainBlock[] {
    return pods.flatMap((pod) => {
      const block = terminating(pod, now) ?? this.#attempts.get(pod.metadata.uid)?.block;
      if (block !== undefined) return [{ pod: podKey(pod), ...block }];
      return this.isLeaving(pod) ? [{ pod: podKey(pod), ...JUST_EVICTED }] : [];
    });
  }

  #count({ metadata }: DrainPod): number {
    return this.#attempts.get(metadata.uid)?.count ?? 0;
  }

  #compare(a: DrainPod, b: DrainPod): number {
    const other = this.#rank(b);
    const differences = this.#rank(a).map((number, index) => number - (other[index] ?? 0));
    return differences.find((difference) => difference !== 0) ?? 0;
  }

  #rank(pod: DrainPod): readonly number[] {
    if (pod.finished) return [0, 0, 0];
    return [this.#group(pod), pod.priority, hasVolumes(pod) ? 1 : 0];
  }

  #group(pod: DrainPod): number {
    if (pod.own) return podKey(pod) === this.#self ? 5 : 4;
    if (pod.servesVolumes) return 3;
    return pod.drainPolicy === 'last' ? 2 : 1;
  }
}

/** Pods without a controller count together, by namespace. */
function controllerOf({ controller, metadata }: DrainPod): string {
  return controller === '' ? (metadata.namespace ?? '') : controller;
}

function terminating(pod: DrainPod, now: number): Attempt['block'] {
  const { deletionTimestamp } = pod.metadata;
  if (deletionTimestamp === undefined) return undefined;
  if (now <= (parseTime(deletionTimestamp) ?? now) + OVERDUE_MS) {
    return { reason: 'Terminating', message: `terminating until ${deletionTimestamp}` };
  }
  return { reason: 'TerminationStuck', message: `its grace period ended at ${deletionTimestamp}: ${heldBy(pod)}` };
}
