import { setTimeout as sleep } from 'node:timers/promises';
import type { Api } from './control-plane/api.ts';

const PAUSE_MS = 100;

/**
 * Measures the delay of this process and of the API server. A time limit of seconds proves nothing
 * about the code while the machine itself is frozen for as long.
 */
export class MachineLag {
  readonly #lates: { readonly atMs: number; readonly lateMs: number }[] = [];
  readonly #api: Api;
  readonly #stopping = new AbortController();
  readonly #running: Promise<void>;

  constructor(api: Api) {
    this.#api = api;
    this.#running = this.#watch();
  }

  /** The longest delay since a moment on the monotonic clock, milliseconds. */
  worstSince(startMs: number): number {
    return Math.max(0, ...this.#lates.filter(({ atMs }) => atMs >= startMs).map(({ lateMs }) => lateMs));
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #watch(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const startMs = performance.now();
      await this.#api.get('/readyz').catch(() => undefined);
      await sleep(PAUSE_MS);
      const atMs = performance.now();
      this.#lates.push({ atMs, lateMs: atMs - startMs - PAUSE_MS });
    }
  }
}
