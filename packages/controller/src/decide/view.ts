import type { Silence } from '../cluster/snapshot.ts';

/** API servers send a bookmark about once a minute, and the transport gives up a stream that is silent for 100 seconds. */
export const STALE_MS = 120_000;
/** What is heard again changes nothing else, so it is looked for. */
const LOOK_AGAIN_MS = 10_000;

/** The resources whose watch cache may be far behind the cluster. */
export function staleResources(silences: readonly Silence[]): string[] {
  return silences.filter(({ ms }) => ms >= STALE_MS).map(({ resource }) => resource);
}

/** When a cache may have become stale, or be fresh again, epoch milliseconds. */
export function viewTimes(silences: readonly Silence[], now: number): number[] {
  return silences.map(({ ms }) => now + (ms >= STALE_MS ? LOOK_AGAIN_MS : STALE_MS - ms));
}
