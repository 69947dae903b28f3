/**
 * Recognises nodes that have not changed since the latest snapshot, so that a plan may keep what it has found of them: such a
 * node is the same {@link ManagedNode} as before. A node has changed when one of its objects or of its rules is another one, or
 * when something else that is known of it is.
 */
import type { FormerShadow, ManagedNode } from './snapshot.ts';

/** The times of a node are computed from another clock in each snapshot, and differ by less than this. */
const JITTER_MS = 1_000;

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

function isSame(a: ManagedNode, b: ManagedNode): boolean {
  return hasSameObjects(a, b) && hasSameTimes(a, b) && isSameFormer(a.former, b.former);
}

function hasSameObjects(a: ManagedNode, b: ManagedNode): boolean {
  return (
    a.node === b.node &&
    a.shadow === b.shadow &&
    a.policy === b.policy &&
    a.group === b.group &&
    a.leaseExpired === b.leaseExpired &&
    a.writeRejection === b.writeRejection &&
    a.writeFailure === b.writeFailure
  );
}

function hasSameTimes(a: ManagedNode, b: ManagedNode): boolean {
  return (
    isSameTime(a.missingSince, b.missingSince) &&
    isSameTime(a.cordonedSince, b.cordonedSince) &&
    isSameTime(a.evictedSince, b.evictedSince) &&
    isSameTime(a.settingsSince, b.settingsSince)
  );
}

function isSameFormer(a: FormerShadow | undefined, b: FormerShadow | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.startedAt === b.startedAt && isSameTime(a.slotUntil, b.slotUntil);
}

function isSameTime(a: number | undefined, b: number | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && Math.abs(a - b) < JITTER_MS);
}
