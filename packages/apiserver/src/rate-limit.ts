import type { Clock } from '@brupop/shared/clock';

import { BoundedMap } from './bounded-map.ts';

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
  readonly #buckets: BoundedMap<Bucket>;

  constructor(options: RateLimitOptions) {
    this.#options = options;
    this.#buckets = new BoundedMap(options.keys);
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
