/**
 * What was found of an object, kept from one plan to the next. Another version of an object of a node makes another
 * {@link ManagedNode}, so what depends on nothing but the node and the time holds until its {@link Moment} says otherwise:
 *
 *     kept     for this very object, from the time of the plan that found it until its Moment ends
 *     found    otherwise, and what was made of it is found again as well
 *
 * A plan that keeps nothing finds the same.
 */
import { Moment } from './moment.ts';

interface Found<T> {
  readonly value: T;
  /** Epoch milliseconds, as `until`. */
  readonly from: number;
  readonly until: number;
}

export class Kept<K extends object, T> {
  readonly #found = new WeakMap<K, Found<T>>();

  /**
   * @param of - what the value is made of, besides the time
   * @param now - epoch milliseconds
   */
  of(of: K, now: number, find: (moment: Moment) => T): T {
    const known = this.#found.get(of);
    if (known !== undefined && known.from <= now && now < known.until) return known.value;
    const moment = new Moment(now);
    const value = find(moment);
    this.#found.set(of, { value, from: now, until: moment.until });
    return value;
  }
}
