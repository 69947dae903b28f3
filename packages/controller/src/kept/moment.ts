/**
 * The time of a plan as the questions about one node ask it, and what was found at that time, kept for later plans. A
 * {@link Moment} notes until when the answers hold, so that a later plan need not ask again before:
 *
 *     reached(time)    the answer changes at `time`, if that is still to come
 *     ms               the answer has the time itself in it, and holds for this plan only
 *
 * Another version of an object of a node makes another `ManagedNode`, so what depends on nothing but the node and the
 * time is found once, and is then {@link Kept}:
 *
 *     kept     for this very object, from the time of the plan that found it until its Moment ends
 *     found    otherwise, and what was made of it is found again as well
 *
 * A plan that keeps nothing finds the same.
 */
export class Moment {
  readonly #ms: number;
  #until = Infinity;

  /** @param ms - epoch milliseconds */
  constructor(ms: number) {
    this.#ms = ms;
  }

  get ms(): number {
    this.#until = this.#ms;
    return this.#ms;
  }

  /** Until when all that was asked is answered as now, epoch milliseconds. */
  get until(): number {
    return this.#until;
  }

  /** The answer depends on other nodes: it holds for this plan only. */
  holdsOnce(): void {
    this.#until = this.#ms;
  }

  /** @param time - until when a part of the answer holds, epoch milliseconds */
  holdsUntil(time: number): void {
    if (time < this.#until) this.#until = time;
  }

  /** @param time - epoch milliseconds */
  reached(time: number): boolean {
    if (this.#ms >= time) return true;
    this.holdsUntil(time);
    return false;
  }
}

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
   * @param within - of an answer that this one is a part of
   */
  of(of: K, now: number, find: (moment: Moment) => T, within?: Moment): T {
    const known = this.#found.get(of);
    const isKnown = known !== undefined && known.from <= now && now < known.until;
    const { value, until } = isKnown ? known : this.#find(of, now, find);
    within?.holdsUntil(until);
    return value;
  }

  #find(of: K, now: number, find: (moment: Moment) => T): Found<T> {
    const moment = new Moment(now);
    const value = find(moment);
    const found = { value, from: now, until: moment.until };
    this.#found.set(of, found);
    return found;
  }
}
