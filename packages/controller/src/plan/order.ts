import { createHash } from 'node:crypto';
import type { Order } from '@brupop/shared/api/config-spec';
import { PRIORITY_ANNOTATION } from '@brupop/shared/api/names';
import { parseTime } from '@brupop/shared/runtime/clock';
import { failures } from './attempts.ts';
import type { Candidate } from './gates/index.ts';

/** What a place in the order is found by: the smaller of the first that differ goes first. */
type Rank = readonly [own: number, priority: number, failures: number, wish: number | string, name: string];

/** The node that the controller itself runs on last, then the highest priority first, then the fewest failures, then as `order` says, then by name. */
export function inOrder<T extends { readonly candidate: Candidate }>(
  queuedCandidates: readonly T[],
  ownNode: string,
  order: Order,
): T[] {
  return queuedCandidates
    .map((queuedCandidate) => ({ queuedCandidate, rank: rankOf(queuedCandidate.candidate, ownNode, order) }))
    .toSorted((a, b) => compare(a.rank, b.rank))
    .map(({ queuedCandidate }) => queuedCandidate);
}

function rankOf({ node, shadow, version, status }: Candidate, ownNode: string, order: Order): Rank {
  const { name, uid, annotations = {} } = node.metadata;
  const wish = { Name: name, Random: shuffled(uid, version), OldestBoot: parseTime(status.bootTime) ?? Infinity }[
    order
  ];
  return [name === ownNode ? 1 : 0, -priority(annotations[PRIORITY_ANNOTATION]), failures(shadow), wish, name];
}

/** The same order for as long as the fleet goes to the same version. */
function shuffled(uid: string, version: string): string {
  return createHash('sha256').update(`${uid}/${version}`).digest('hex');
}

function priority(text: string | undefined): number {
  return text !== undefined && /^-?\d{1,9}$/u.test(text) ? Number(text) : 0;
}

function compare(a: Rank, b: Rank): number {
  const at = a.findIndex((value, i) => value !== b[i]);
  const [x = 0, y = 0] = [a[at], b[at]];
  if (at < 0) return 0;
  return x < y ? -1 : 1;
}
