/**
 * Recognises nodes that have not changed since the latest snapshot, so that a plan may keep what it has found of them: such a
 * node is the same {@link ManagedNode} as before. It has changed when one of its objects or of its rules is another one, or when
 * something else that is known of it is: {@link SAME} has each field, so that none can be forgotten.
 */
import type { FormerShadow, ManagedNode } from './snapshot.ts';

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
