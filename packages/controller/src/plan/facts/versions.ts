import type { VersionStatus } from '@brupop/shared/api/brupop-config';
import { sameVersion } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { ManagedNode } from '../../cluster/snapshot.ts';

export interface VersionCount {
  readonly version: string;
  readonly running: number;
  /** Nodes that run another one. */
  readonly offered: number;
  /** Its age counts: what a single agent claims is no release, unless there is no other agent. */
  readonly hasAge: boolean;
}

/** A version ages while this many nodes run it or are offered it. */
const MIN_NODES = 2;

/** @param nodes - those that the configuration selects */
export function versionsOf(nodes: readonly ManagedNode[]): VersionCount[] {
  const counts = new Map<string, { running: number; offered: number }>();
  const add = (version: string, what: 'running' | 'offered'): void => {
    const count = counts.get(version) ?? { running: 0, offered: 0 };
    count[what] += 1;
    counts.set(version, count);
  };
  const statuses = nodes.flatMap(({ shadow }) => shadow?.status ?? []);
  for (const { current_version: running, target_version: offered } of statuses) {
    if (running === '') continue;
    add(running, 'running');
    if (offered !== running && offered !== '') add(offered, 'offered');
  }
  const enough = Math.min(MIN_NODES, statuses.length);
  return [...counts].map(([version, count]) => ({
    version,
    ...count,
    hasAge: count.running + count.offered >= enough,
  }));
}

/** Returns since when a version ages, epoch milliseconds; undefined: it does not. */
export function agesSince(
  version: string,
  counts: readonly VersionCount[],
  known: readonly VersionStatus[],
  now: number,
): number | undefined {
  if (!counts.some((one) => one.hasAge && sameVersion(one.version, version))) return undefined;
  return parseTime(known.find((one) => sameVersion(one.version, version))?.firstOfferedTime) ?? now;
}
