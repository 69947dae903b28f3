/**
 * The time of a plan, as the questions about one node ask it. It notes until when their answers hold, so that a later plan need
 * not ask again before:
 *
 *     reached(time)    the answer changes at `time`, if that is still to come
 *     ms               the answer has the time itself in it, and holds for this plan only
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

  /** @param time - epoch milliseconds */
  reached(time: number): boolean {
    if (this.#ms >= time) return true;
    if (time < this.#until) this.#until = time;
    return false;
  }
}
