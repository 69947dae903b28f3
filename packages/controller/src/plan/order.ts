/** The order in which candidates start, and in which specs are written. */
import { createHash } from 'node:crypto';
import { CLOCK_TOLERANCE_MS } from '@brupop/shared/api/deadlines';
import { PRIORITY_ANNOTATION } from '@brupop/shared/api/names';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { NodeView } from '../cluster/node.ts';
import { endedByConfig, groupAtStart } from '../cluster/shadow.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import { failures } from './facts/attempts.ts';
import { problemCondition } from './facts/health.ts';
import type { Candidate } from './gates/reasons.ts';
import type { SpecChange } from './spec-change.ts';

/** Compared value by value; the smaller one is first. */
type Rank = readonly [
  blocked: number,
  last: number,
  requested: number,
  lastAttempt: number,
  own: number,
  health: number,
  priority: number,
  failures: number,
  order: string,
  name: string,
];

/** A node whose latest attempt started within this time goes behind the nodes that had none. */
const RECENT_MS = 24 * 60 * 60_000;

interface Ordering {
  readonly ownNode: string;
  /** Its drain can only succeed if its cordon opens disruption budgets. */
  readonly isBlocked?: (candidate: Candidate) => boolean;
  /** A member of a quorum on it goes after the others. */
  readonly isLast?: (node: NodeView) => boolean;
  readonly now: number;
}

/**
 * Sorts candidates: the nodes whose pods disruption budgets hold go last, and before them those with the last members of
 * quorums. Of the others, first those that a user asks for now, also of nodes with such pods; then those
 * without a recent attempt, then by the start of their latest attempt. After that, the node of the
 * controller goes last, and the rest is sorted by health, priority, fewest failures, `order` and name. A
 * kubelet may set its priority, and an agent may report any failure or success, so neither moves a node
 * before one without a recent attempt.
 */
export function inOrder(candidates: readonly Candidate[], ordering: Ordering): Candidate[] {
  return candidates
    .map((candidate) => ({ candidate, rank: rankOf(candidate, ordering) }))
    .toSorted((a, b) => compare(a.rank, b.rank))
    .map(({ candidate }) => candidate);
}

function rankOf(candidate: Candidate, { ownNode, isBlocked, isLast, now }: Ordering): Rank {
  const { node, shadow, version, status, policy, isRequested = false } = candidate;
  const { order } = policy;
  const { name, uid, annotations = {} } = node.metadata;
  // A hash costs more than all the rest: only if it decides.
  const positions = { Name: () => '', Random: () => shuffled(uid, version), OldestBoot: () => byTime(status.bootTime) };
  const position = positions[order]();
  const own = name === ownNode ? 1 : 0;
  return [
    isBlocked?.(candidate) === true && !isRequested ? 1 : 0,
    isLast?.(node) === true ? 1 : 0,
    isRequested ? 0 : 1,
    lastAttempt(candidate, now),
    own,
    healthRank(node, policy),
    -priority(annotations[PRIORITY_ANNOTATION]),
    failures(shadow),
    position,
    name,
  ];
}

/** As `spec.health.unhealthyNodes` says. */
function healthRank(node: NodeView, { health }: Pick<UpdatePolicy, 'health'>): number {
  if (health.unhealthyNodes === 'Wait' || problemCondition(node, { health }) === undefined) return 0;
  return health.unhealthyNodes === 'First' ? -1 : 1;
}

/** Sorts like the time, an unknown one last: groups may have different orders. */
function byTime(time: string | null | undefined): string {
  return String(parseTime(time) ?? Number.MAX_SAFE_INTEGER).padStart(16, '0');
}

/** When the latest attempt started, epoch milliseconds; 0: not within RECENT_MS. */
function lastAttempt({ shadow, former, group }: Candidate, now: number): number {
  // A kubelet may move its Node to a group whose window closes, to try again in another one.
  const isExcused = endedByConfig(shadow) && groupAtStart(shadow) === (group?.name ?? '');
  const since = Math.max(isExcused ? 0 : (shadow.times.startedAt ?? 0), former?.startedAt ?? 0);
  return since > now - RECENT_MS && since <= now + CLOCK_TOLERANCE_MS ? since : 0;
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

/** Kinds of changes that are written after all others, in this order. */
const LATER: readonly SpecChange['outcome'][] = ['Started', 'Configured'];

/** Smaller numbers are written first: next steps and ends, then starts, then other settings. */
export function writeGroupOf({ outcome }: Pick<SpecChange, 'outcome'>): number {
  return LATER.indexOf(outcome);
}

/**
 * The order in which specs are written, since the time for it may be too short: of next steps those that have waited longest
 * first, of starts those that the gates have admitted first.
 */
export function inWriteOrder(changes: readonly SpecChange[], admitted: readonly Candidate[]): SpecChange[] {
  const places = new Map(admitted.map(({ name }, place) => [name, place]));
  const placeOf = ({ outcome, node, shadow }: SpecChange): number =>
    outcome === 'Started' ? (places.get(node.metadata.name) ?? 0) : (shadow.times.stateSince ?? 0);
  return changes.toSorted((a, b) => writeGroupOf(a) - writeGroupOf(b) || placeOf(a) - placeOf(b));
}
