/** Whether the clock of this machine was set back, as when a node starts with a wrong time until NTP corrects it. */
import { type Clock, instantOf } from '@brupop/shared/runtime/clock';

/** A clock that is corrected in small parts is not set back. */
const MIN_STEP_MS = 10_000;

export class ClockSteps {
  readonly #clock: Clock;
  #ahead: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#ahead = this.#aheadOfMonotonic();
  }

  /** Since the latest call. */
  wasSetBack(): boolean {
    const before = this.#ahead;
    this.#ahead = this.#aheadOfMonotonic();
    return before - this.#ahead >= MIN_STEP_MS;
  }

  #aheadOfMonotonic(): number {
    const { wall, monotonic } = instantOf(this.#clock);
    return wall - monotonic;
  }
}
