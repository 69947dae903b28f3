const BASE_MS = 10_000;
const CAP_MS = 300_000;

/**
 * How long a container that has ended waits for its restart, as a kubelet has it: the first restart
 * comes at once, later ones 10 s, 20 s, 40 s, … up to 5 min after the end; from the start again
 * when 10 min (twice the cap) have passed since the latest restart.
 */
export class CrashBackOff {
  readonly #scale: number;
  #delay = 0;
  #restartedAt: number | undefined;

  /** @param scale - multiplies all times; below 1 in tests */
  constructor(scale = 1) {
    this.#scale = scale;
  }

  /** Milliseconds from the end of the container, which is `now` (monotonic, ms), to its restart. */
  next(now: number): number {
    const forgotten = this.#restartedAt !== undefined && now - this.#restartedAt > 2 * CAP_MS * this.#scale;
    const delay = forgotten ? 0 : this.#delay;
    this.#delay = delay === 0 ? BASE_MS * this.#scale : Math.min(CAP_MS * this.#scale, delay * 2);
    this.#restartedAt = now + delay;
    return delay;
  }
}
