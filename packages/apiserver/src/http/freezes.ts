/**
 * Notices that this process was frozen, as by SIGSTOP or a machine that was paused. The calls that arrived meanwhile are read
 * before the ends of their connections, although their agents have given them up. Such a report would replace newer ones that
 * other replicas have written. So calls are rejected until all that had arrived is read; agents repeat theirs. The monotonic
 * clock stands still while a machine is suspended, so the wall clock counts as well.
 */
import { type Clock, type Instant, instantOf } from '@brupop/shared/runtime/clock';

const LOOK_MS = 1_000;
/** Less than an agent waits for any answer. */
const FROZEN_MS = 5_000;
const READ_MS = 2_000;

export class Freezes {
  readonly #clock: Clock;
  #lookedAt: Instant;
  /** `endedAt` in monotonic milliseconds. */
  #latest = { endedAt: -Infinity, ms: 0 };

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#lookedAt = instantOf(clock);
  }

  /** Looks every second until `signal` aborts. */
  run(signal: AbortSignal): void {
    if (signal.aborted) return;
    this.#look();
    this.#clock.after(LOOK_MS, () => this.run(signal));
  }

  /** Why no call is accepted, or undefined. */
  problem(): string | undefined {
    const now = this.#look();
    const { endedAt, ms } = this.#latest;
    return now - endedAt < READ_MS ? `it was frozen for ${Math.round(ms / 1000)} s` : undefined;
  }

  #look(): number {
    const { wall, monotonic } = instantOf(this.#clock);
    const ms = Math.max(monotonic - this.#lookedAt.monotonic, wall - this.#lookedAt.wall);
    if (ms > FROZEN_MS) this.#latest = { endedAt: monotonic, ms };
    this.#lookedAt = { wall, monotonic };
    return monotonic;
  }
}
