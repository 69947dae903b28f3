export interface Backoff {
  /** Milliseconds to wait now; the next answer is about double, up to the cap. */
  next(): number;
  /** After a success. */
  reset(): void;
}

/** Doubling delays whose upper half is random, so that many who failed together do not come back together. */
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
