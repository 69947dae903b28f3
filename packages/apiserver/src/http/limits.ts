import type { Clock } from '@brupop/shared/runtime/clock';
import { type Rate, TokenBucket } from '@brupop/shared/runtime/token-bucket';
import { ApiError } from '../errors.ts';

/** A map that keeps the `size` most recently used entries. */
export class LruMap<V> {
  readonly #size: number;
  readonly #entries = new Map<string, V>();

  constructor(size: number) {
    this.#size = size;
  }

  get(key: string): V | undefined {
    const value = this.#entries.get(key);
    if (value !== undefined) this.set(key, value);
    return value;
  }

  set(key: string, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#size) return;
    const oldest = this.#entries.keys().next();
    if (oldest.done !== true) this.#entries.delete(oldest.value);
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }
}

/** A token bucket per key. */
export class RateLimit {
  readonly #clock: Clock;
  readonly #rate: Rate;
  readonly #buckets: LruMap<TokenBucket>;

  /** @param rate - with the number of keys remembered; one that was forgotten has a full burst again */
  constructor(clock: Clock, rate: Rate & { readonly keys: number }) {
    this.#clock = clock;
    this.#rate = rate;
    this.#buckets = new LruMap(rate.keys);
  }

  /** Takes a call; false when the key has none left. */
  take(key: string): boolean {
    const bucket = this.#buckets.get(key) ?? new TokenBucket(this.#clock, this.#rate);
    this.#buckets.set(key, bucket);
    return bucket.take();
  }

  /** Undoes a {@link take} of the key. */
  refund(key: string): void {
    this.#buckets.get(key)?.refund();
  }
}

/** Runs at most `size` tasks at a time; at most `waiting` more wait, in order. */
export class Semaphore {
  readonly #size: number;
  readonly #waiting: number;
  readonly #queue: (() => void)[] = [];
  readonly #onIdle: (() => void)[] = [];
  #running = 0;

  constructor(size: number, waiting = Number.POSITIVE_INFINITY) {
    this.#size = size;
    this.#waiting = waiting;
  }

  get isFull(): boolean {
    return this.#running >= this.#size;
  }

  /** Returns what `task` returns. Throws ApiError `Unavailable` when too many wait already. */
  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.isFull) await this.#enter();
    else this.#running += 1;
    try {
      return await task();
    } finally {
      this.#leave();
    }
  }

  /** Resolves when no task runs. */
  async idle(): Promise<void> {
    if (this.#running === 0) return;
    await new Promise<void>((resolve) => {
      this.#onIdle.push(resolve);
    });
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
    if (next !== undefined) return next();
    this.#running -= 1;
    if (this.#running === 0) for (const resolve of this.#onIdle.splice(0)) resolve();
    return undefined;
  }
}
