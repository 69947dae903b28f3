/**
 * Recognises nodes that have not changed since the latest snapshot, so that a plan may keep what it has found of them: such a
 * node is the same {@link ManagedNode} as before. It has changed when one of its objects or of its rules is another one, or when
 * something else that is known of it is: {@link SAME} has each field, so that none can be forgotten.
 */
import type { FormerShadow, ManagedNode } from './snapshot.ts';

export class UnchangedNodes {
  #before: ReadonlyMap<string, ManagedNode> = new Map();

  /** Returns the nodes, each that has not changed as it was returned the last time. */
  recognised(managedNodes: readonly ManagedNode[]): readonly ManagedNode[] {
    const found = managedNodes.map((one) => {
      const before = this.#before.get(one.name);
      return before !== undefined && isSame(before, one) ? before : one;
    });
    this.#before = new Map(found.map((one) => [one.name, one]));
    return found;
  }
}

type Compare<T> = (a: T, b: T) => boolean;

/** Objects are read once for each version of them. */
const isSameObject: Compare<unknown> = (a, b) => a === b;

/** The times of a node are computed from another clock in each snapshot, and differ by less than this. */
const JITTER_MS = 1_000;

const isSameTime: Compare<number | undefined> = (a, b) =>
  a === b || (a !== undefined && b !== undefined && Math.abs(a - b) < JITTER_MS);

const isSameFormer: Compare<FormerShadow | undefined> = (a, b) =>
  a === b || (a?.startedAt === b?.startedAt && isSameTime(a?.slotUntil, b?.slotUntil));

const SAME: { readonly [K in keyof Required<ManagedNode>]: Compare<ManagedNode[K]> } = {
  name: isSameObject,
  node: isSameObject,
  shadow: isSameObject,
  group: isSameObject,
  policy: isSameObject,
  leaseExpired: isSameObject,
  writeRejection: isSameObject,
  writeFailure: isSameObject,
  missingSince: isSameTime,
  cordonedSince: isSameTime,
  evictedSince: isSameTime,
  settingsSince: isSameTime,
  former: isSameFormer,
};

const FIELDS = Object.keys(SAME) as (keyof ManagedNode)[];

function isSame(a: ManagedNode, b: ManagedNode): boolean {
  return FIELDS.every((field) => isSameField(field, a, b));
}

function isSameField<K extends keyof ManagedNode>(field: K, a: ManagedNode, b: ManagedNode): boolean {
  return SAME[field](a[field], b[field]);
}
