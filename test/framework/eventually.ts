import { setTimeout as sleep } from 'node:timers/promises';

export interface EventuallyOptions {
  /** Default 20 s. */
  readonly limitMs?: number;
  /** Pause between tries, default 20 ms. */
  readonly pauseMs?: number;
}

/**
 * Repeats `assertion` until it passes. Throws what it threw last when it still fails after the
 * limit.
 */
export async function eventually<T>(assertion: () => T | Promise<T>, options: EventuallyOptions = {}): Promise<T> {
  const { limitMs = 20_000, pauseMs = 20 } = options;
  const deadline = performance.now() + limitMs;
  for (;;) {
    try {
      return await assertion();
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
    await sleep(pauseMs);
  }
}
