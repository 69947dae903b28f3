export interface Backoff {
  /** Returns how long to wait, milliseconds, and doubles the next delay up to the cap. */
  next(): number;
  reset(): void;
}

/** Half of each delay is random, so that clients that failed together do not retry together. */
export function backoff(options: {
  readonly baseMs: number;
  readonly capMs: number;
  readonly random?: () => number;
}): Backoff {
  const { baseMs, capMs, random = Math.random } = options;
  let failures = 0;
  return {
    next() {
      const full = Math.min(capMs, baseMs * 2 ** Math.min(failures, 30));
      failures += 1;
      return Math.round(full / 2 + (full / 2) * random());
    },
    reset() {
      failures = 0;
    },
  };
}
