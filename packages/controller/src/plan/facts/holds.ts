/**
 * Which versions no further node is updated to for a while, because workloads fail on nodes that run them:
 *
 *     not held     fewer than two nodes are concerned
 *     held         no node starts an update to the version, and no staged one is drained
 *     over         an hour after the first hold of the version, or when a user has set `rollout.resume` since, whatever
 *                  fails later: so anyone who may create pods can delay a version by an hour, and freeze none
 */
import { isFromFuture } from '@brupop/shared/api/deadlines';
import { releaseOf, sameVersion } from '@brupop/shared/api/version';
import type { NodePair, Snapshot } from '../../cluster/snapshot.ts';
import type { Moment } from '../../kept/moment.ts';
import type { Parts } from '../../kept/parts.ts';
import { isAccepted } from './deadlines.ts';
import { recorded } from './failed-nodes.ts';
import type { SuspectNode } from './suspects.ts';
import { hasVersion } from './versions.ts';

/** For how long a version is held. */
const HOLD_MS = 3_600_000;

export interface HeldVersion {
  readonly version: string;
  /** When it was held first, and until when it may be held, epoch milliseconds. */
  readonly since: number;
  readonly until: number;
  readonly isOver: boolean;
  /** Why it is held now; empty: it is not. */
  readonly suspects: readonly SuspectNode[];
}

/** @param all - the suspects that no user has accepted */
export function holdsOf(
  all: readonly SuspectNode[],
  pairs: Parts<NodePair>,
  { config, policy }: Pick<Snapshot, 'config' | 'policy'>,
  now: Moment,
): HeldVersion[] {
  const known = recorded(config?.status?.heldVersions).filter(({ since }) => !isFromFuture(since, now.ms));
  const kept = known.filter(({ version }) =>
    pairs.some((part) => part.some(({ shadow }) => hasVersion(shadow, version))),
  );
  const versions = new Map([...kept, ...all].map(({ version }) => [releaseOf(version), version]));
  return [...versions.values()].flatMap((version) => {
    const before = known.find((one) => sameVersion(one.version, version))?.since;
    const since = before ?? now.ms;
    const until = since + HOLD_MS;
    const isOver = now.reached(until) || isAccepted(since, policy, now);
    const suspects = isOver ? [] : onTwoNodes(all.filter((one) => sameVersion(one.version, version)));
    return suspects.length === 0 && before === undefined ? [] : [{ version, since, until, isOver, suspects }];
  });
}

/** Those of workloads that fail on two nodes, or after a drain has moved them from another one. */
function onTwoNodes(all: readonly SuspectNode[]): SuspectNode[] {
  return [...Map.groupBy(all, ({ workload }) => workload).values()].flatMap((ofOne) => {
    const nodes = new Set(ofOne.flatMap(({ node, from = node }) => [node, from]));
    return nodes.size > 1 ? ofOne : [];
  });
}
