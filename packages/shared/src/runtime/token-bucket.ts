import type { Clock } from './clock.ts';

export interface Rate {
  readonly burst: number;
  readonly perSecond: number;
}

/** A token bucket: `burst` calls at once, and `perSecond` in the long run. */
export class TokenBucket {
  readonly #clock: Clock;
  readonly #rate: Rate;
  /** Below 0 while calls wait. */
  #tokens: number;
  /** When `#tokens` was true, monotonic milliseconds. */
  #at: number;

  constructor(clock: Clock, rate: Rate) {
    this.#clock = clock;
    this.#rate = rate;
    this.#tokens = rate.burst;
    this.#at = clock.monotonic();
  }

  /** Takes a call; false when none is left. */
  take(): boolean {
    this.#refill();
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }

  /** Undoes a {@link take}. */
  refund(): void {
    this.#refill();
    this.#tokens = Math.min(this.#rate.burst, this.#tokens + 1);
  }

  /** Reserves the next call and returns how many milliseconds to wait for it. */
  reserve(): number {
    this.#refill();
    this.#tokens -= 1;
    return Math.max(0, (-this.#tokens * 1000) / this.#rate.perSecond);
  }

  /** Waits until the next call may go out. Rejects with the reason of `signal`. */
  async wait(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const ms = this.reserve();
    if (ms > 0) await this.#clock.sleep(ms, signal);
  }

  #refill(): void {
    const { burst, perSecond } = this.#rate;
    const now = this.#clock.monotonic();
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#at) * perSecond) / 1000);
    this.#at = now;
  }
}
