import type { DrainBlock } from '@brupop/shared/api/shadow';
import { type DrainPod, hasVolumes, isTerminating, podKey } from '@brupop/shared/drain/pods';
import { parseTime } from '@brupop/shared/runtime/clock';

/** What came of the latest request to evict a pod. */
export interface Attempt {
  /** Requests so far in this pass. */
  readonly count: number;
  /** Undefined: accepted, or the pod is gone already. */
  readonly block?: Omit<DrainBlock, 'pod'>;
  /** Not again before this (monotonic milliseconds). */
  readonly notBefore: number;
}

/** By pod UID. */
export type Attempts = ReadonlyMap<string, Attempt>;

/** The pod is on its way out: marked by the API server, or its eviction was accepted and the watch has not told yet. */
export function isLeaving(pod: DrainPod, attempts: Attempts): boolean {
  if (isTerminating(pod)) return true;
  const attempt = attempts.get(pod.metadata.uid);
  return attempt !== undefined && attempt.block === undefined;
}

/** Which pods go before which, as a list of numbers to be compared from the left. */
function rank(pod: DrainPod): readonly number[] {
  if (pod.finished) return [0, 0, 0];
  const last = pod.wish === 'last' ? 2 : 1;
  return [pod.own ? 3 : last, pod.priority, hasVolumes(pod) ? 1 : 0];
}

function compareRanks(a: DrainPod, b: DrainPod): number {
  const other = rank(b);
  const differences = rank(a).map((number, index) => number - (other[index] ?? 0));
  return differences.find((difference) => difference !== 0) ?? 0;
}

/** True when a pod need not wait for another one that takes its time; undefined: one that is gone, whose volumes are waited for. */
export function goesBefore(pod: DrainPod, other: DrainPod | undefined): boolean {
  return other !== undefined && compareRanks(pod, other) < 0;
}

/**
 * The pods whose turn it is: all of the same rank. Pods of a lower priority go first, then those without volumes, then those with volumes; those
 * that ask to be last and our own Deployments' come after all others. The next rank begins when all before are on their way, so a budget that
 * holds up the first leaves the later ones undisturbed.
 */
export function turn(pods: readonly DrainPod[], attempts: Attempts): readonly DrainPod[] {
  const staying = pods.filter((pod) => !isLeaving(pod, attempts)).toSorted(compareRanks);
  const [first] = staying;
  return first === undefined ? [] : staying.filter((pod) => compareRanks(pod, first) === 0);
}

/** The pods of a turn to be asked for now: those due; of pods with volumes the one that was tried least. */
export function due(inTurn: readonly DrainPod[], attempts: Attempts, now: number): readonly DrainPod[] {
  const ready = inTurn.filter((pod) => (attempts.get(pod.metadata.uid)?.notBefore ?? now) <= now);
  // Those that take longest first, so that the whole takes no longer than one of them.
  return inTurn.some(hasVolumes)
    ? leastTried(ready, attempts)
    : ready.toSorted((a, b) => b.graceSeconds - a.graceSeconds);
}

function leastTried(pods: readonly DrainPod[], attempts: Attempts): readonly DrainPod[] {
  const count = (pod: DrainPod): number => attempts.get(pod.metadata.uid)?.count ?? 0;
  return pods.toSorted((a, b) => count(a) - count(b)).slice(0, 1);
}

/** True when waiting longer in this pass is no use: nothing is on its way out, and each pod in turn was refused at least twice. */
export function isStuck(pods: readonly DrainPod[], attempts: Attempts): boolean {
  if (pods.some((pod) => isLeaving(pod, attempts))) return false;
  return turn(pods, attempts).every((pod) => (attempts.get(pod.metadata.uid)?.count ?? 0) >= 2);
}

/** A pod that is still there so long after it was to be gone is held by something. */
export const OVERDUE_MS = 10_000;

/**
 * Why pods are still there; pods whose turn has not come are not mentioned.
 * @param now - epoch milliseconds
 */
export function blocks(pods: readonly DrainPod[], attempts: Attempts, now: number): readonly DrainBlock[] {
  return pods.flatMap((pod) => {
    const found = terminating(pod, now) ?? attempts.get(pod.metadata.uid)?.block;
    if (found !== undefined) return [{ pod: podKey(pod), ...found }];
    return isLeaving(pod, attempts) ? [{ pod: podKey(pod), ...JUST_EVICTED }] : [];
  });
}

const JUST_EVICTED = { reason: 'Terminating', message: 'has just been evicted' } as const;

function terminating({ metadata, finalizers }: DrainPod, now: number): Attempt['block'] {
  const { deletionTimestamp } = metadata;
  if (deletionTimestamp === undefined) return undefined;
  if (now <= (parseTime(deletionTimestamp) ?? now) + OVERDUE_MS) {
    return { reason: 'Terminating', message: `is to be gone by ${deletionTimestamp}` };
  }
  const held =
    finalizers.length === 0 ? 'its kubelet has not ended it' : `finalizers hold it: ${finalizers.join(', ')}`;
  return { reason: 'TerminationStuck', message: `was to be gone by ${deletionTimestamp}: ${held}` };
}
