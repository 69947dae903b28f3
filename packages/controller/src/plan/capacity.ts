import { type NodeView, zoneOf } from '../cluster/node.ts';
import { hasReached } from '../cluster/shadow.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { type Concurrency, nodesAtOnce } from '../policy/policy.ts';
import type { Blocked } from './reasons.ts';

interface Count {
  /** Nodes that are updating. */
  updating: number;
  /** Those, and the nodes that are unavailable for other reasons. */
  away: number;
}

/** The nodes that are away, held against the limits of how many may be. */
export class Capacity {
  readonly #concurrency: Concurrency;
  /** How many nodes percentages are of. */
  readonly #managed: number;
  readonly #fleet: Count = { updating: 0, away: 0 };
  readonly #zones = new Map<string, Count>();

  constructor(concurrency: Concurrency, managed: number) {
    this.#concurrency = concurrency;
    this.#managed = managed;
  }

  /** Counts a node that is away: because it updates, or for another reason. */
  reserve(node: NodeView, updating: boolean): void {
    this.#count(node, 1, updating);
  }

  /** Counts a node no more that updates but stays. */
  release(node: NodeView): void {
    this.#count(node, -1, true);
  }

  /** Why this node must not be away as well, or undefined. The messages name no numbers: else each step of one node would rewrite the conditions of all that wait. */
  check(node: NodeView): Blocked | undefined {
    const zone = this.#zone(node);
    if (this.#free <= 0) return FULL;
    if (this.#fleet.away >= this.#mayBeAway) return UNAVAILABLE;
    if (zone.away >= (this.#concurrency.maxPerZone ?? Infinity)) return ZONE_FULL;
    return this.#zonesWith(zone) > (this.#concurrency.maxZones ?? Infinity) ? OTHER_ZONES : undefined;
  }

  /** True when more are away than may be, and a node that is counted as updating, but could still stay, would help. */
  isOverfull(node: NodeView): boolean {
    const { maxPerZone = Infinity } = this.#concurrency;
    return this.#free < 0 || this.#fleet.away > this.#mayBeAway || this.#zone(node).away > maxPerZone;
  }

  #count(node: NodeView, by: 1 | -1, updating: boolean): void {
    const zone = this.#zone(node);
    this.#zones.set(zoneOf(node), zone);
    for (const count of [this.#fleet, zone]) {
      count.away += by;
      if (updating) count.updating += by;
    }
  }

  /** How many more nodes may update at once, all other limits aside; negative when there are too many. */
  get #free(): number {
    return nodesAtOnce(this.#concurrency.maxUpdating, this.#managed) - this.#fleet.updating;
  }

  get #mayBeAway(): number {
    const { maxUnavailable } = this.#concurrency;
    return maxUnavailable === undefined ? Infinity : nodesAtOnce(maxUnavailable, this.#managed);
  }

  /** In how many zones nodes update when one of this zone does, too. */
  #zonesWith({ updating }: Count): number {
    const others = [...this.#zones.values()].filter((zone) => zone.updating > 0).length;
    return updating > 0 ? others : others + 1;
  }

  #zone(node: NodeView): Count {
    return this.#zones.get(zoneOf(node)) ?? { updating: 0, away: 0 };
  }
}

const FULL: Blocked = { reason: 'WaitingForCapacity', message: 'As many nodes are updating as may be at once' };
const UNAVAILABLE: Blocked = {
  reason: 'MaxUnavailableReached',
  message: 'As many nodes are updating or unavailable for other reasons as may be at once (concurrency.maxUnavailable)',
};
const ZONE_FULL: Blocked = {
  reason: 'WaitingForZone',
  message: 'As many nodes of its zone are updating or unavailable as may be at once (concurrency.maxPerZone)',
};
const OTHER_ZONES: Blocked = {
  reason: 'WaitingForZone',
  message: 'Nodes are updating in as many other zones as may be at once (concurrency.maxZones)',
};

/** True when the scheduler cannot use the node, or its kubelet does not answer. */
export function isUnavailable({ ready, unschedulable, metadata }: NodeView): boolean {
  return !ready || unschedulable || metadata.deletionTimestamp !== undefined;
}

interface Staging {
  readonly node: NodeView;
  readonly isStaged: boolean;
}

/**
 * The nodes, by name, that must not be drained because more nodes are away than may be: a limit was lowered, or others have gone meanwhile. Only
 * those that stage their version or have staged it can stay; as few as needed, first those that are not through with it.
 * @param updating - the members that take a place
 * @param room - counts all that are away; it is used up
 */
export function nodesOverLimit(updating: readonly ManagedNode[], capacity: Capacity): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { node } of updating.flatMap(staging).toSorted(byProgress)) {
    if (!capacity.isOverfull(node)) continue;
    capacity.release(node);
    names.add(node.metadata.name);
  }
  return names;
}

function staging({ node, shadow }: ManagedNode): Staging[] {
  if (node === undefined || shadow?.spec.state !== 'StagedAndPerformedUpdate' || isUnavailable(node)) return [];
  return [{ node, isStaged: hasReached(shadow) }];
}

function byProgress(a: Staging, b: Staging): number {
  if (a.isStaged !== b.isStaged) return a.isStaged ? 1 : -1;
  return a.node.metadata.name < b.node.metadata.name ? 1 : -1;
}
