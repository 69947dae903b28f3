import { setTimeout as sleep } from 'node:timers/promises';

export interface EventuallyOptions {
  /** Default 20 s. */
  readonly limitMs?: number;
  /**
   * Pause between tries. By default it grows with the wait, from 20 to 200 ms: most of the API server's work in a
   * test run was to answer such tries. Name it where a state that soon passes is looked for.
   */
  readonly pauseMs?: number;
}

/**
 * Repeats `assertion` until it passes. Throws what it threw last when it still fails after the
 * limit.
 */
export async function eventually<T>(assertion: () => T | Promise<T>, options: EventuallyOptions = {}): Promise<T> {
  const { limitMs = 20_000, pauseMs } = options;
  const started = performance.now();
  for (;;) {
    try {
      return await assertion();
    } catch (error) {
      if (performance.now() - started > limitMs) throw error;
    }
    await sleep(pauseMs ?? Math.min(200, Math.max(20, (performance.now() - started) / 8)));
  }
}
