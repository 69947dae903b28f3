/**
 * The managed nodes as the latest snapshot had them. One is made again when something that it is made of may have changed, so
 * that a snapshot costs little more than the changes since the latest one:
 *
 *     its Node or its shadow     the watch has shown another version, or something that was written is assumed
 *     its Lease                  it has expired, or was renewed
 *     all nodes                  the configuration, a group or the clock has changed
 */
import type { Policies } from './policies.ts';
import type { ManagedNode } from './snapshot.ts';
import { isSameTime } from './unchanged-nodes.ts';

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
