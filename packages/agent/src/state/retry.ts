import { type Backoff, backoff } from '@brupop/shared/runtime/backoff';
import type { Pause } from '../limits.ts';

/** Pauses that grow with each consecutive failure. */
export class Retry {
  /** Monotonic milliseconds. */
  notBefore = 0;
  readonly #backoff: Backoff;

  constructor(pause: Pause, random: () => number) {
    this.#backoff = backoff({ ...pause, random });
  }

  fail(nowMs: number): number {
    this.notBefore = nowMs + this.#backoff.next();
    return this.notBefore;
  }

  succeed(): void {
    this.notBefore = 0;
    this.#backoff.reset();
  }
}
