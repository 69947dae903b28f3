/**
 * What was found of each node, kept from one plan to the next. Another version of an object of a node makes another
 * {@link ManagedNode}, so what depends on nothing but the node and the time holds until its {@link Moment} says otherwise:
 *
 *     kept     for this very ManagedNode, from the time of the plan that found it until its Moment ends
 *     found    otherwise
 *
 * A plan that keeps nothing finds the same.
 */
import type { ManagedNode } from '../../cluster/snapshot.ts';
import { Moment } from './moment.ts';

interface Found<T> {
  readonly value: T;
  /** Epoch milliseconds, as `until`. */
  readonly from: number;
  readonly until: number;
}

export class Kept<T> {
  readonly #found = new WeakMap<ManagedNode, Found<T>>();

  /** @param now - epoch milliseconds */
  of(managedNode: ManagedNode, now: number, find: (moment: Moment) => T): T {
    const known = this.#found.get(managedNode);
    if (known !== undefined && known.from <= now && now < known.until) return known.value;
    const moment = new Moment(now);
    const value = find(moment);
    const { until } = moment;
    if (until > now) this.#found.set(managedNode, { value, from: now, until });
    else this.#found.delete(managedNode);
    return value;
  }
}
