export interface Backoff {
  /** Returns how long to wait, milliseconds, and doubles the next delay up to the cap. */
  next(): number;
  reset(): void;
}

interface Delays {
  readonly baseMs: number;
  readonly capMs: number;
}

/** Returns the delay after so many failures, from 1, milliseconds: it doubles with each up to the cap. */
export function delayAfter(failures: number, { baseMs, capMs }: Delays): number {
  return Math.min(capMs, baseMs * 2 ** Math.min(failures - 1, 30));
}

/** Half of each delay is random, so that clients that failed together do not retry together. */
export function backoff(options: Delays & { readonly random?: () => number }): Backoff {
  const { random = Math.random } = options;
  let failures = 0;
  return {
    next() {
      failures += 1;
      const full = delayAfter(failures, options);
      return Math.round(full / 2 + (full / 2) * random());
    },
    reset() {
      failures = 0;
    },
  };
}
