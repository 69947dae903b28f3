import type { Clock } from '@brupop/shared/clock';

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
