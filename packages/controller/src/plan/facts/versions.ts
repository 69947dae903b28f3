import type { VersionStatus } from '@brupop/shared/api/brupop-config';
import { releaseOf, sameVersion } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { ManagedNode } from '../../cluster/snapshot.ts';

export interface VersionCount {
  readonly version: string;
  readonly running: number;
  /** Nodes that run another version. */
  readonly offered: number;
  /** The version has an age: more than one agent reports it, or there is only one agent. */
  readonly hasAge: boolean;
}

/** A version has an age while at least this many nodes run it or are offered it. */
const MIN_NODES = 2;

/** @param nodes - the nodes that the configuration selects */
export function versionsOf(nodes: readonly ManagedNode[]): VersionCount[] {
  const counts = new Map<string, { readonly version: string; running: number; offered: number }>();
  const add = (version: string, what: 'running' | 'offered'): void => {
    const release = releaseOf(version);
    const count = counts.get(release) ?? { version, running: 0, offered: 0 };
    count[what] += 1;
    counts.set(release, count);
  };
  const statuses = nodes.flatMap(({ shadow }) => shadow?.status ?? []);
  for (const { current_version: running, target_version: offered } of statuses) {
    if (running === '') continue;
    add(running, 'running');
    if (offered !== '' && !sameVersion(offered, running)) add(offered, 'offered');
  }
  const enough = Math.min(MIN_NODES, statuses.length);
  return [...counts.values()].map((count) => ({ ...count, hasAge: count.running + count.offered >= enough }));
}

/** Returns when the age of a version started, epoch milliseconds; undefined: it has none. */
export function agesSince(
  version: string,
  counts: readonly VersionCount[],
  known: readonly VersionStatus[],
  now: number,
): number | undefined {
  if (!counts.some((one) => one.hasAge && sameVersion(one.version, version))) return undefined;
  return parseTime(known.find((one) => sameVersion(one.version, version))?.firstOfferedTime) ?? now;
}
