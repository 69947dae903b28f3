/**
 * The managed nodes from one snapshot to the next, so that a snapshot costs little more than the changes since the latest
 * one, and a plan may keep what it has found of a node that has not changed.
 *
 * {@link ManagedNodes} makes a node again when something that it is made of may have changed:
 *
 *     its Node or its shadow     the watch has shown another version, or something that was written is assumed
 *     its Lease                  it has expired, or was renewed
 *     all nodes                  the configuration, a group or the clock has changed
 *
 * {@link UnchangedNodes} gets them with what is known besides, and returns those that have not changed as the same
 * {@link ManagedNode} as before. One has changed when one of its objects or of its rules is another one, or when something
 * else that is known of it is: {@link SAME} has each field, so that none can be forgotten.
 */
import type { Policies } from './policies.ts';
import type { FormerShadow, ManagedNode } from './snapshot.ts';

/** What is the same for all nodes. */
interface MadeWith extends Pick<Policies, 'fleet' | 'groups'> {
  /** The time of the clock when the monotonic one began, epoch milliseconds: it changes when the clock is set. */
  readonly wallAtStart: number;
}

export class ManagedNodes {
  readonly #made = new Map<string, ManagedNode>();
  /** Names of those that are to be made again, and of Nodes that may be managed now. */
  readonly #changed = new Set<string>();
  #madeWith: MadeWith | undefined;
  #list: readonly ManagedNode[] = [];

  change(name: string): void {
    this.#changed.add(name);
  }

  /** Makes all nodes again if this is not what they were made with. */
  makeWith(next: MadeWith): void {
    const { fleet, groups, wallAtStart } = this.#madeWith ?? {};
    if (fleet === next.fleet && groups === next.groups && isSameTime(wallAtStart, next.wallAtStart)) return;
    this.#madeWith = next;
    for (const name of this.#made.keys()) this.#changed.add(name);
  }

  /**
   * Returns the same list as long as nothing has changed.
   * @param make - without its Lease; undefined: the node is not managed, or there is none
   * @param hasExpired - whether the Lease of the node has expired; undefined: it has none
   */
  list(
    make: (name: string) => ManagedNode | undefined,
    hasExpired: (name: string) => boolean | undefined,
  ): readonly ManagedNode[] {
    let isChanged = false;
    for (const name of this.#changed) if (this.#set(name, make(name))) isChanged = true;
    this.#changed.clear();
    for (const [name, one] of this.#made) {
      const leaseExpired = hasExpired(name);
      if (leaseExpired === one.leaseExpired) continue;
      this.#made.set(name, { ...one, leaseExpired });
      isChanged = true;
    }
    if (isChanged) this.#list = [...this.#made.values()];
    return this.#list;
  }

  /** False: the node was not managed either before. */
  #set(name: string, made: ManagedNode | undefined): boolean {
    if (made === undefined) return this.#made.delete(name);
    this.#made.set(name, made);
    return true;
  }
}

export class UnchangedNodes {
  #before: ReadonlyMap<string, ManagedNode> = new Map();
  #latest: { readonly of: readonly ManagedNode[]; readonly found: readonly ManagedNode[] } = { of: [], found: [] };

  /** Returns the nodes, each that has not changed as it was returned the last time. */
  recognised(managedNodes: readonly ManagedNode[]): readonly ManagedNode[] {
    if (managedNodes === this.#latest.of) return this.#latest.found;
    const found = managedNodes.map((one) => {
      const before = this.#before.get(one.name);
      return before !== undefined && (before === one || isSame(before, one)) ? before : one;
    });
    this.#before = new Map(found.map((one) => [one.name, one]));
    this.#latest = { of: managedNodes, found };
    return found;
  }
}

type Compare<T> = (a: T, b: T) => boolean;

/** Times are computed from another clock in each snapshot, and differ by less than this. */
const JITTER_MS = 1_000;

export const isSameTime: Compare<number | undefined> = (a, b) =>
  a === b || (a !== undefined && b !== undefined && Math.abs(a - b) < JITTER_MS);

const isSameFormer: Compare<FormerShadow | undefined> = (a, b) =>
  a === b || (a?.startedAt === b?.startedAt && isSameTime(a?.slotUntil, b?.slotUntil));

/** Objects are compared by identity: they are read once for each version of them. */
const SAME: { readonly [K in keyof Required<ManagedNode>]: Compare<ManagedNode> } = {
  name: (a, b) => a.name === b.name,
  node: (a, b) => a.node === b.node,
  shadow: (a, b) => a.shadow === b.shadow,
  group: (a, b) => a.group === b.group,
  policy: (a, b) => a.policy === b.policy,
  leaseExpired: (a, b) => a.leaseExpired === b.leaseExpired,
  writeRejection: (a, b) => a.writeRejection === b.writeRejection,
  writeFailure: (a, b) => a.writeFailure === b.writeFailure,
  missingSince: (a, b) => isSameTime(a.missingSince, b.missingSince),
  cordonedSince: (a, b) => isSameTime(a.cordonedSince, b.cordonedSince),
  evictedSince: (a, b) => isSameTime(a.evictedSince, b.evictedSince),
  settingsSince: (a, b) => isSameTime(a.settingsSince, b.settingsSince),
  former: (a, b) => isSameFormer(a.former, b.former),
};

const COMPARISONS = Object.values(SAME);

const isSame: Compare<ManagedNode> = (a, b) => COMPARISONS.every((isSameField) => isSameField(a, b));
