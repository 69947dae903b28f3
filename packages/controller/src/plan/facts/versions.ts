import type { VersionStatus } from '@brupop/shared/api/brupop-config';
import { releaseOf, sameVersion } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { ManagedNode, NodePair } from '../../cluster/snapshot.ts';
import { ofParts, type Parts } from '../../kept/parts.ts';

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

/** What the nodes of one part report. */
interface Reported {
  readonly reports: number;
  /** By the text of the version. */
  readonly texts: ReadonlyMap<string, Count>;
}

/** Few texts are counted before they are compared as versions. */
const reportedIn = ofParts((part: readonly Pick<ManagedNode, 'shadow'>[]): Reported => {
  const texts = new Map<string, Count>();
  const reported = part.flatMap(({ shadow }) => shadow?.status ?? []);
  for (const { current_version: running, target_version: offered } of reported) {
    if (running === '') continue;
    countOf(texts, running).running += 1;
    if (offered !== '' && offered !== running && !sameVersion(offered, running)) countOf(texts, offered).offered += 1;
  }
  return { reports: reported.length, texts };
});

/** @param nodes - the nodes that the configuration selects */
export function versionsOf(nodes: Parts<Pick<ManagedNode, 'shadow'>>): VersionCount[] {
  const reported = reportedIn(nodes);
  const releases = new Map<string, VersionCount>();
  const enough = Math.min(
    MIN_NODES,
    reported.reduce((sum, { reports }) => sum + reports, 0),
  );
  for (const [text, count] of reported.flatMap(({ texts }) => [...texts])) {
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

/** The nodes that have updated to a version, and when the latest one did. */
export interface Successes {
  readonly count: number;
  /** Epoch milliseconds. */
  readonly latest: number;
}

/** By release. */
export function successesOf(parts: Parts<NodePair>): ReadonlyMap<string, Successes> {
  const found = new Map<string, Successes>();
  for (const [release, { count, latest }] of successesIn(parts).flatMap((ofPart) => [...ofPart])) {
    const before = found.get(release) ?? { count: 0, latest: 0 };
    found.set(release, { count: before.count + count, latest: Math.max(before.latest, latest) });
  }
  return found;
}

const successesIn = ofParts((part: readonly NodePair[]) => {
  const updates = part.flatMap(({ shadow }) => shadow.updated ?? []);
  const byRelease = Map.groupBy(updates, ({ version }) => releaseOf(version));
  return new Map(
    [...byRelease].map(([release, all]): [string, Successes] => {
      return [release, { count: all.length, latest: all.reduce((latest, { at }) => Math.max(latest, at), 0) }];
    }),
  );
});

/** True for a node that runs the version or is offered it. */
export function hasVersion(shadow: ManagedNode['shadow'], version: string): boolean {
  const { current_version: running, target_version: offered } = shadow?.status ?? {};
  return sameVersion(running, version) || sameVersion(offered, version);
}
