/**
 * When this process saw a change that a kubelet reported with a time. The clock of a machine may be hours wrong, so the times of
 * a kubelet only show that something changed, and are compared with no time of this process:
 *
 *     changed while this process watched     the time at which it saw that
 *     as it was when this process started    the reported time, at the latest that start
 *     seen while the own clock was ahead     the time at which the object is seen next, when the clock is right again
 */
import type { DrainPod } from '@brupop/shared/drain/pods';
import type { NodeView } from './node.ts';

interface Sighting {
  /** Differs after each change. */
  readonly mark: string;
  /** Epoch milliseconds; undefined: no time is reported. */
  readonly since: number | undefined;
}

/** What was seen of one object, by what has a time. */
export type Sightings = ReadonlyMap<string, Sighting>;

interface Dated {
  readonly mark: string;
  /** By another clock. */
  readonly reported: number | undefined;
}

function sighted(before: Sighting | undefined, { mark, reported }: Dated, isWatched: boolean, now: number): Sighting {
  if (before?.mark === mark) return isAhead(before, now) ? { mark, since: wholeSecond(now) } : before;
  if (reported === undefined) return { mark, since: undefined };
  return { mark, since: wholeSecond(isWatched ? now : Math.min(reported, now)) };
}

function isAhead({ since = 0 }: Sighting, now: number): boolean {
  return since > now;
}

/** These times are compared with those of objects, which have no fraction of a second. */
function wholeSecond(ms: number): number {
  return Math.floor(ms / 1_000) * 1_000;
}

const READY = 'Ready';

/** @param before - of the same Node, undefined when this process has not seen it yet */
export function sightingsOf(
  { ready, isUnreachable, readySince, clearedAt }: NodeView,
  before: Sightings | undefined,
  now: number,
): Sightings {
  const isWatched = before !== undefined;
  const dated = [
    [READY, { mark: `${ready} ${isUnreachable} ${readySince}`, reported: readySince }] as const,
    ...Object.entries(clearedAt).map(([type, reported]) => [type, { mark: String(reported), reported }] as const),
  ];
  return new Map(dated.map(([type, one]) => [type, sighted(before?.get(type), one, isWatched, now)]));
}

/** Returns the Node with the times at which this process saw its conditions change; the Node itself if it reports the same. */
export function asSighted(node: NodeView, sightings: Sightings | undefined): NodeView {
  if (sightings === undefined) return node;
  const readySince = sightings.get(READY)?.since;
  const cleared = Object.entries(node.clearedAt);
  const seen = cleared.map(([type, reported]): [string, number] => [type, sightings.get(type)?.since ?? reported]);
  if (readySince === node.readySince && seen.every(([, since], i) => since === cleared[i]?.[1])) return node;
  return { ...node, readySince, clearedAt: Object.fromEntries(seen) };
}

/** What was seen of the pods on one node, by their UIDs. */
export type PodSightings = ReadonlyMap<string, { readonly ready: Sighting; readonly restart: Sighting }>;

/** @param before - of the former list of the node, undefined without one */
export function podSightingsOf(pods: readonly DrainPod[], before: PodSightings | undefined, now: number): PodSightings {
  const isWatched = before !== undefined;
  return new Map(
    pods.map(({ metadata: { uid }, ready, readyChanged, restarts, restartedAt }) => {
      const known = before?.get(uid);
      const change = { mark: `${ready} ${readyChanged}`, reported: readyChanged };
      const restart = { mark: `${restarts} ${restartedAt !== undefined}`, reported: restartedAt };
      const seen = {
        ready: sighted(known?.ready, change, isWatched, now),
        restart: sighted(known?.restart, restart, isWatched, now),
      };
      return [uid, seen];
    }),
  );
}

/** Returns the pod with the times at which this process saw it change. */
export function podAsSighted(pod: DrainPod, sightings: PodSightings): DrainPod {
  const seen = sightings.get(pod.metadata.uid);
  return seen === undefined ? pod : { ...pod, readyChanged: seen.ready.since, restartedAt: seen.restart.since };
}
