import type { Clock } from '@brupop/shared/runtime/clock';
import { LruMap } from './lru.ts';

export interface RateLimitOptions {
  readonly clock: Clock;
  /** Calls that may come at once. */
  readonly burst: number;
  /** Calls per second in the long run. */
  readonly perSecond: number;
  /** Keys remembered; a forgotten one starts anew with a full burst. */
  readonly keys: number;
}

interface Bucket {
  readonly tokens: number;
  readonly at: number;
}

/** A token bucket per key. */
export class RateLimit {
  readonly #options: RateLimitOptions;
  readonly #buckets: LruMap<Bucket>;

  constructor(options: RateLimitOptions) {
    this.#options = options;
    this.#buckets = new LruMap(options.keys);
  }

  /** True when the key has a call left; takes none. */
  allows(key: string): boolean {
    return this.#tokens(key) >= 1;
  }

  /** Takes a call; false when the key has none left. */
  take(key: string): boolean {
    const tokens = this.#tokens(key);
    if (tokens < 1) return false;
    this.#buckets.set(key, { tokens: tokens - 1, at: this.#options.clock.monotonic() });
    return true;
  }

  #tokens(key: string): number {
    const { burst, perSecond, clock } = this.#options;
    const bucket = this.#buckets.get(key);
    if (bucket === undefined) return burst;
    return Math.min(burst, bucket.tokens + ((clock.monotonic() - bucket.at) / 1000) * perSecond);
  }
}

/** Spreads requests: at most `burst` at once, and `perSecond` from then on. */
export class Pace {
  readonly #clock: Clock;
  readonly #gapMs: number;
  readonly #burstMs: number;
  /** When the bucket is full again, monotonic milliseconds. */
  #fullAt = 0;

  constructor(clock: Clock, { perSecond, burst }: { readonly perSecond: number; readonly burst: number }) {
    this.#clock = clock;
    this.#gapMs = 1000 / perSecond;
    this.#burstMs = burst * this.#gapMs;
  }

  /** Milliseconds until the next request may go out; it counts as sent then. */
  next(): number {
    const now = this.#clock.monotonic();
    this.#fullAt = Math.max(this.#fullAt, now) + this.#gapMs;
    return Math.max(0, this.#fullAt - now - this.#burstMs);
  }

  /** Waits for its turn. Rejects with the reason of `signal`. */
  async wait(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const ms = this.next();
    if (ms > 0) await this.#clock.sleep(ms, signal);
  }
}
