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

type Count = Record<'running' | 'offered', number>;

function countOf(counts: Map<string, Count>, version: string): Count {
  const known = counts.get(version) ?? { running: 0, offered: 0 };
  counts.set(version, known);
  return known;
}

/**
 * Few texts are counted before they are compared as versions.
 * @param nodes - the nodes that the configuration selects
 */
export function versionsOf(nodes: readonly Pick<ManagedNode, 'shadow'>[]): VersionCount[] {
  const texts = new Map<string, Count>();
  let reports = 0;
  for (const { shadow } of nodes) {
    if (shadow?.status === undefined) continue;
    reports += 1;
    const { current_version: running, target_version: offered } = shadow.status;
    if (running === '') continue;
    countOf(texts, running).running += 1;
    if (offered !== '' && offered !== running && !sameVersion(offered, running)) countOf(texts, offered).offered += 1;
  }
  const releases = new Map<string, VersionCount>();
  const enough = Math.min(MIN_NODES, reports);
  for (const [text, count] of texts) {
    const { version, ...before } = releases.get(releaseOf(text)) ?? { version: text, running: 0, offered: 0 };
    const sum = { running: before.running + count.running, offered: before.offered + count.offered };
    releases.set(releaseOf(text), { version, ...sum, hasAge: sum.running + sum.offered >= enough });
  }
  return [...releases.values()];
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
