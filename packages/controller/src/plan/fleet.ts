/**
 * The fleet before any decision: its state, which assessments and the gates use, and the order in
 * which its candidates start.
 */
import { createHash } from 'node:crypto';
import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { Order } from '@brupop/shared/api/config-spec';
import { CLOCK_TOLERANCE_MS } from '@brupop/shared/api/deadlines';
import { PRIORITY_ANNOTATION } from '@brupop/shared/api/names';
import { ownedByUs } from '@brupop/shared/node/ownership';
import { parseTime } from '@brupop/shared/runtime/clock';
import { isSelected, type NodeView } from '../cluster/node.ts';
import { startedAt } from '../cluster/shadow.ts';
import { type ManagedNode, type Snapshot, staleResources } from '../cluster/snapshot.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import { Capacity, isDown, isUnavailable, nodesOverLimit } from './capacity.ts';
import { type Estimate, estimateOf, failures } from './facts/attempts.ts';
import { type Slot, slotOf } from './facts/deadlines.ts';
import { Drains } from './facts/drainability.ts';
import { agesSince, type VersionCount, versionsOf } from './facts/versions.ts';
import type { Candidate } from './gates/reasons.ts';

export interface FleetState {
  readonly policy: UpdatePolicy;
  /** Resources whose watch is stale. */
  readonly stale: readonly string[];
  readonly drains: Drains;
  readonly versions: readonly VersionCount[];
  /** Since when a version ages, epoch milliseconds; undefined: too few nodes run it or are offered it. */
  readonly offeredSince: (version: string) => number | undefined;
  readonly estimate: Estimate;
  readonly slots: ReadonlyMap<ManagedNode, Slot>;
  /** The nodes that hold a slot past a deadline. */
  readonly stuck: readonly NodeView[];
  /** Names of Nodes that have annotations of the operator without an update of it. */
  readonly unexplained: readonly string[];
  readonly before: BrupopConfigStatus | undefined;
  /** Names of nodes that must not be drained, since a limit is exceeded. */
  readonly nodesOverLimit: ReadonlySet<string>;
  /** Counts the unavailable nodes, and then those that start. */
  readonly capacity: Capacity;
  readonly now: number;
}

export function fleetStateOf(snapshot: Snapshot, now: number): FleetState {
  const { managedNodes, config, policy } = snapshot;
  const slots = new Map(
    managedNodes.flatMap((managedNode) => {
      const slot = slotOf(managedNode, policy, now);
      return slot === undefined ? [] : [[managedNode, slot] as const];
    }),
  );
  const stuck = [...slots].flatMap(([{ node }, { deadline }]) => (node !== undefined && now >= deadline ? [node] : []));
  const capacityOf = (held: ReadonlyMap<ManagedNode, Slot>): Capacity => countedBy(snapshot, held, stuck, now);
  // A node that only has to confirm a change of settings is available.
  const unavailable = new Map([...slots].filter(([, { expires }]) => !expires));
  const selected = managedNodes.filter(({ node }) => node !== undefined && isSelected(node, policy));
  const versions = versionsOf(selected);
  return {
    policy,
    stale: staleResources(snapshot.watchLags),
    drains: new Drains(snapshot, policy.drain, now),
    versions,
    offeredSince: (version) => agesSince(version, versions, config?.status?.versions ?? [], now),
    estimate: estimateOf(managedNodes, policy.maintenance),
    slots,
    stuck,
    unexplained: managedNodes.filter((one) => isUnexplained(one, slots)).map(({ name }) => name),
    before: config?.status,
    nodesOverLimit: nodesOverLimit([...slots.keys()], capacityOf(unavailable)),
    capacity: capacityOf(slots),
    now,
  };
}

function isUnexplained(managedNode: ManagedNode, slots: ReadonlyMap<ManagedNode, Slot>): boolean {
  const { node } = managedNode;
  return node !== undefined && ownedByUs(node) && !slots.has(managedNode);
}

/** A cordon of another actor, which may be the kubelet, counts for this long. */
const CORDON_COUNTS_MS = 24 * 60 * 60_000;

/**
 * Counts every node that holds a slot, and the nodes that the configuration selects also when they
 * are unavailable for another reason; those that are only cordoned, for a day.
 */
function countedBy(
  { policy, managedNodes }: Snapshot,
  slots: ReadonlyMap<ManagedNode, Slot>,
  stuck: readonly NodeView[],
  now: number,
): Capacity {
  const nodes = managedNodes.flatMap((one) =>
    one.node === undefined ? [] : [{ node: one.node, held: slots.has(one), cordonedSince: one.cordonedSince }],
  );
  const selected = nodes.filter(({ node }) => isSelected(node, policy));
  const capacity = new Capacity(policy.concurrency, selected.length, stuck);
  for (const { node, held, cordonedSince = now } of nodes) {
    const counts = isDown(node) || (isUnavailable(node) && now - cordonedSince < CORDON_COUNTS_MS);
    if (held || (isSelected(node, policy) && counts)) capacity.reserve(node, held);
  }
  return capacity;
}

/** Hosts that the configuration does not select have their own settings. */
export function policyFor(node: NodeView, { policy }: FleetState): UpdatePolicy {
  return isSelected(node, policy) ? policy : { ...policy, hostSettings: undefined };
}

/** Compared value by value; the smaller one is first. */
type Rank = readonly [
  own: number,
  turn: number,
  priority: number,
  failures: number,
  order: number | string,
  name: string,
];

/** A node whose latest attempt started within this time goes behind those that had none. */
const TURN_MS = 24 * 60 * 60_000;

interface Ordering {
  readonly ownNode: string;
  readonly order: Order;
  readonly now: number;
}

/**
 * Sorts candidates: the node that the controller runs on last, then those that had no attempt lately
 * before the others, whose latest attempt was the longest ago first, then by priority, by fewest
 * failures, as `order` says, and by name. A kubelet may set its priority, and an agent may report any
 * failure or success, so neither makes a node go before one that has not had its turn.
 */
export function inOrder(candidates: readonly Candidate[], ordering: Ordering): Candidate[] {
  return candidates
    .map((candidate) => ({ candidate, rank: rankOf(candidate, ordering) }))
    .toSorted((a, b) => compare(a.rank, b.rank))
    .map(({ candidate }) => candidate);
}

function rankOf(candidate: Candidate, { ownNode, order, now }: Ordering): Rank {
  const { node, shadow, version, status } = candidate;
  const { name, uid, annotations = {} } = node.metadata;
  const position = { Name: name, Random: shuffled(uid, version), OldestBoot: parseTime(status.bootTime) ?? Infinity }[
    order
  ];
  const own = name === ownNode ? 1 : 0;
  return [own, turn(candidate, now), -priority(annotations[PRIORITY_ANNOTATION]), failures(shadow), position, name];
}

/** When the latest attempt started, epoch milliseconds; 0: not lately. */
function turn({ shadow, former }: Candidate, now: number): number {
  const since = Math.max(startedAt(shadow) ?? 0, former?.startedAt ?? 0);
  return since > now - TURN_MS && since <= now + CLOCK_TOLERANCE_MS ? since : 0;
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
