/** Whether the clock of this machine was set back, as when a node starts with a wrong time until NTP corrects it. */
import type { Instant } from '@brupop/shared/runtime/clock';

/** A clock that is corrected in small parts is not set back. */
const MIN_STEP_MS = 10_000;

export class ClockSteps {
  /** Of the clock before the monotonic one. */
  #ahead = -Infinity;

  /** Since the latest call. */
  wasSetBack({ wall, monotonic }: Instant): boolean {
    const before = this.#ahead;
    this.#ahead = wall - monotonic;
    return before - this.#ahead >= MIN_STEP_MS;
  }
}
