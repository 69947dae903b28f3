import type { Clock } from './clock.ts';

/** Wakes one that waits when something has changed, also since it last looked. */
export class Changes {
  readonly #clock: Pick<Clock, 'after'>;
  #changed = false;
  #interrupt: (() => void) | undefined;

  constructor(clock: Pick<Clock, 'after'>) {
    this.#clock = clock;
  }

  notify(): void {
    this.#changed = true;
    this.#interrupt?.();
  }

  reset(): void {
    this.#changed = false;
  }

  /** Resolves after a change since `reset`, after `limitMs` (undefined: never), or when the signal aborts. */
  async wait(limitMs: number | undefined, signal: AbortSignal): Promise<void> {
    if (this.#changed || signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const wake = (): void => resolve();
    const cancel = limitMs === undefined ? undefined : this.#clock.after(limitMs, wake);
    this.#interrupt = wake;
    signal.addEventListener('abort', wake);
    await promise;
    this.#interrupt = undefined;
    signal.removeEventListener('abort', wake);
    cancel?.();
  }
}
