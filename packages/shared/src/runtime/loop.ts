import { messageOf } from './errors.ts';
import { backoff } from './backoff.ts';
import type { Clock } from './clock.ts';
import type { Logger } from './log.ts';

export interface LoopOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** One turn. Answers the milliseconds after which the next one starts at the latest, or undefined: only when woken. */
  readonly step: (signal: AbortSignal) => Promise<number | undefined>;
  /** Turns begin at least so far apart. Default 0. */
  readonly minGapMs?: number;
  /** Called for each failed turn, after it was logged. */
  readonly onError?: (error: unknown) => void;
}

const RETRY = { baseMs: 250, capMs: 30_000 };

/** Runs a step when woken and at the times it asks for. Wakes that come meanwhile make one more turn, not many; failed turns are repeated with backoff. */
export class Loop {
  readonly #options: LoopOptions;
  readonly #retry = backoff(RETRY);
  #woken = true;
  #interrupt: (() => void) | undefined;
  /** On the monotonic clock; undefined between turns. */
  #turningSince: number | undefined;

  constructor(options: LoopOptions) {
    this.#options = options;
  }

  /** Asks for a turn, now or after the one under way. */
  wake(): void {
    this.#woken = true;
    this.#interrupt?.();
  }

  /** How long the turn under way has taken, milliseconds; 0 between turns, however long they are apart. For liveness checks. */
  get turningForMs(): number {
    return this.#turningSince === undefined ? 0 : this.#options.clock.monotonic() - this.#turningSince;
  }

  /** Turns until `signal` aborts; resolves then. */
  async run(signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => this.#interrupt?.(), { once: true });
    while (!signal.aborted) {
      const delay = await this.#turn(signal);
      await this.#pause(this.#options.minGapMs ?? 0, signal);
      await this.#untilWoken(delay, signal);
    }
  }

  async #turn(signal: AbortSignal): Promise<number | undefined> {
    this.#woken = false;
    try {
      const delay = await this.#step(signal);
      this.#retry.reset();
      return delay;
    } catch (error) {
      if (signal.aborted) return undefined;
      const delay = this.#retry.next();
      this.#options.log.warn('a turn failed and is repeated', { error: messageOf(error), retryInMs: delay });
      this.#options.onError?.(error);
      await this.#pause(delay, signal);
      return 0;
    }
  }

  async #step(signal: AbortSignal): Promise<number | undefined> {
    this.#turningSince = this.#options.clock.monotonic();
    try {
      return await this.#options.step(signal);
    } finally {
      this.#turningSince = undefined;
    }
  }

  async #untilWoken(delay: number | undefined, signal: AbortSignal): Promise<void> {
    if (this.#woken || signal.aborted || delay === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#interrupt = resolve;
    const cancel = delay === undefined ? undefined : this.#options.clock.after(delay, resolve);
    await promise;
    this.#interrupt = undefined;
    cancel?.();
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    if (ms > 0) await this.#options.clock.sleep(ms, signal).catch(() => undefined);
  }
}
