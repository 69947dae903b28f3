import { ApiError } from '../errors.ts';

/** Runs at most `size` tasks at a time; at most `waiting` more wait, in order. */
export class Semaphore {
  readonly #size: number;
  readonly #waiting: number;
  readonly #queue: (() => void)[] = [];
  #running = 0;

  constructor(size: number, waiting = Number.POSITIVE_INFINITY) {
    this.#size = size;
    this.#waiting = waiting;
  }

  /** Returns what `task` returns. Throws ApiError `Unavailable` when too many wait already. */
  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#size) await this.#enter();
    else this.#running += 1;
    try {
      return await task();
    } finally {
      this.#leave();
    }
  }

  #enter(): Promise<void> {
    if (this.#queue.length >= this.#waiting)
      throw new ApiError('Unavailable', `${this.#queue.length} calls wait already; repeat later`);
    return new Promise((resolve) => {
      this.#queue.push(resolve);
    });
  }

  /** Hands the slot to the next in the queue, so that no newcomer takes it. */
  #leave(): void {
    const next = this.#queue.shift();
    if (next === undefined) this.#running -= 1;
    else next();
  }
}
