import { messageOf } from './errors.ts';
import { backoff } from './backoff.ts';
import { Changes } from './changes.ts';
import type { Clock } from './clock.ts';
import { type Logger, RetriedProblem } from './log.ts';

interface LoopOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Returns after how many milliseconds it runs again at the latest; undefined: when woken. */
  readonly reconcile: (signal: AbortSignal) => Promise<number | undefined>;
  /**
   * Pause after each run, milliseconds. Default 0.
   * @param delay - after how many milliseconds the run asks for the next one
   */
  readonly minGapMs?: number | ((delay: number | undefined) => number);
  /** Called for each failed run, after it was logged. */
  readonly onError?: (error: unknown) => void;
}

const RETRY = { baseMs: 250, capMs: 30_000 };

/**
 * Runs `reconcile` when woken and at the times that it asks for, never twice at once. Wakes during
 * a run cause one more run. A failed run is retried with backoff.
 */
export class Loop {
  readonly #options: LoopOptions;
  readonly #retry = backoff(RETRY);
  readonly #problem: RetriedProblem;
  readonly #wakes: Changes;
  /** On the monotonic clock; undefined between runs. */
  #runningSince: number | undefined;

  constructor(options: LoopOptions) {
    this.#options = options;
    this.#wakes = new Changes(options.clock);
    this.#problem = new RetriedProblem(options.clock);
  }

  wake(): void {
    this.#wakes.notify();
  }

  /** 0 between runs. For liveness checks. */
  get runningForMs(): number {
    return this.#runningSince === undefined ? 0 : this.#options.clock.monotonic() - this.#runningSince;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const delay = await this.#runOnce(signal);
      const { minGapMs = 0 } = this.#options;
      await this.#pause(typeof minGapMs === 'number' ? minGapMs : minGapMs(delay), signal);
      if (delay !== 0) await this.#wakes.wait(delay, signal);
    }
  }

  async #runOnce(signal: AbortSignal): Promise<number | undefined> {
    this.#wakes.reset();
    try {
      const delay = await this.#reconcile(signal);
      this.#retry.reset();
      this.#problem.ended();
      return delay;
    } catch (error) {
      if (signal.aborted) return undefined;
      const delay = this.#retry.next();
      const level = this.#problem.levelOf(messageOf(error));
      this.#options.log[level]('reconcile failed, retrying', { error: messageOf(error), retryInMs: delay });
      this.#options.onError?.(error);
      await this.#pause(delay, signal);
      return 0;
    }
  }

  async #reconcile(signal: AbortSignal): Promise<number | undefined> {
    this.#runningSince = this.#options.clock.monotonic();
    try {
      return await this.#options.reconcile(signal);
    } finally {
      this.#runningSince = undefined;
    }
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    if (ms > 0) await this.#options.clock.sleep(ms, signal).catch(() => undefined);
  }
}
