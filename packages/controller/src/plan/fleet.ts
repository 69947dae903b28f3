/**
 * The fleet before any decision: its state, which assessments and the gates use, and the order in
 * which its candidates start.
 */
import { createHash } from 'node:crypto';
import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { Order } from '@brupop/shared/api/config-spec';
import { PRIORITY_ANNOTATION } from '@brupop/shared/api/names';
import { sameVersion } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import { isSelected, type NodeView } from '../cluster/node.ts';
import { type ManagedNode, type Snapshot, staleResources } from '../cluster/snapshot.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import { Capacity, isUnavailable, nodesOverLimit } from './capacity.ts';
import { type Estimate, estimateOf, failures } from './facts/attempts.ts';
import { type Slot, slotOf } from './facts/deadlines.ts';
import { Drains } from './facts/drainability.ts';
import type { Candidate } from './gates/reasons.ts';

export interface FleetState {
  readonly policy: UpdatePolicy;
  /** Resources whose watch is stale. */
  readonly stale: readonly string[];
  readonly drains: Drains;
  readonly offeredSince: (version: string) => number | undefined;
  readonly estimate: Estimate;
  readonly slots: ReadonlyMap<ManagedNode, Slot>;
  /** The nodes that hold a slot past a deadline. */
  readonly stuck: readonly NodeView[];
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
  const capacityOf = (held: ReadonlyMap<ManagedNode, Slot>): Capacity => countedBy(snapshot, held, stuck);
  // A node that only has to confirm a change of settings is available.
  const unavailable = new Map([...slots].filter(([, { expires }]) => !expires));
  const versions = config?.status?.versions ?? [];
  return {
    policy,
    stale: staleResources(snapshot.watchLags),
    drains: new Drains(snapshot, policy.drain, now),
    offeredSince: (version) => parseTime(versions.find((one) => sameVersion(one.version, version))?.firstOfferedTime),
    estimate: estimateOf(managedNodes, policy.maintenance),
    slots,
    stuck,
    before: config?.status,
    nodesOverLimit: nodesOverLimit([...slots.keys()], capacityOf(unavailable)),
    capacity: capacityOf(slots),
    now,
  };
}

/**
 * Counts every node that holds a slot, and the nodes that the configuration selects also when they
 * are unavailable for another reason.
 */
function countedBy(
  { policy, managedNodes }: Snapshot,
  slots: ReadonlyMap<ManagedNode, Slot>,
  stuck: readonly NodeView[],
): Capacity {
  const nodes = managedNodes.flatMap((one) =>
    one.node === undefined ? [] : [{ node: one.node, held: slots.has(one) }],
  );
  const selected = nodes.filter(({ node }) => isSelected(node, policy));
  const capacity = new Capacity(policy.concurrency, selected.length, stuck);
  for (const { node, held } of nodes)
    if (held || (isSelected(node, policy) && isUnavailable(node))) capacity.reserve(node, held);
  return capacity;
}

/** Hosts that the configuration does not select have their own settings. */
export function policyFor(node: NodeView, { policy }: FleetState): UpdatePolicy {
  return isSelected(node, policy) ? policy : { ...policy, hostSettings: undefined };
}

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
