import type { Clock } from '../runtime/clock.ts';

interface Timer {
  readonly at: number;
  readonly fire: () => void;
}

/** A clock for tests that moves only when a test moves it. */
export class FakeClock implements Clock {
  #now: number;
  #monotonic = 0;
  readonly #timers = new Set<Timer>();

  /** @param start - epoch milliseconds */
  constructor(start = 1_800_000_000_000) {
    this.#now = start;
  }

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#monotonic;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason as Error);
        return;
      }
      const cancel = this.after(ms, resolve);
      signal?.addEventListener(
        'abort',
        () => {
          cancel();
          reject(signal.reason as Error);
        },
        { once: true },
      );
    });
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.#monotonic + ms, fire: callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Advances both clocks and fires the timers that are due, in order, each in its own task. */
  async advance(ms: number): Promise<void> {
    const end = this.#monotonic + ms;
    await settle();
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) {
      this.#move(next.at);
      this.#timers.delete(next);
      next.fire();
      await settle();
    }
    this.#move(end);
    await settle();
  }

  /** Sets the wall clock without moving timers, as a clock step does. */
  step(ms: number): void {
    this.#now += ms;
  }

  /** Timers not yet due. */
  get pending(): number {
    return this.#timers.size;
  }

  #move(to: number): void {
    this.#now += Math.max(0, to - this.#monotonic);
    this.#monotonic = Math.max(to, this.#monotonic);
  }

  #next(end: number): Timer | undefined {
    const due = [...this.#timers].filter((timer) => timer.at <= end);
    return due.toSorted((a, b) => a.at - b.at)[0];
  }
}

function settle(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
