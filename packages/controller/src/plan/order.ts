import { createHash } from 'node:crypto';
import type { Order } from '@brupop/shared/api/config-spec';
import { PRIORITY_ANNOTATION } from '@brupop/shared/api/names';
import { parseTime } from '@brupop/shared/runtime/clock';
import { failures } from './attempts.ts';
import type { Candidate } from './gates/gate.ts';

/** Compared value by value; the smaller one is first. */
type Rank = readonly [own: number, priority: number, failures: number, order: number | string, name: string];

/**
 * Sorts candidates: the node that the controller runs on last, then by priority, by fewest failures,
 * as `order` says, and by name.
 */
export function inOrder(candidates: readonly Candidate[], ownNode: string, order: Order): Candidate[] {
  return candidates
    .map((candidate) => ({ candidate, rank: rankOf(candidate, ownNode, order) }))
    .toSorted((a, b) => compare(a.rank, b.rank))
    .map(({ candidate }) => candidate);
}

function rankOf({ node, shadow, version, status }: Candidate, ownNode: string, order: Order): Rank {
  const { name, uid, annotations = {} } = node.metadata;
  const position = { Name: name, Random: shuffled(uid, version), OldestBoot: parseTime(status.bootTime) ?? Infinity }[
    order
  ];
  return [name === ownNode ? 1 : 0, -priority(annotations[PRIORITY_ANNOTATION]), failures(shadow), position, name];
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
