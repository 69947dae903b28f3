import { kindOf } from '@brupop/shared/kube/error';
import { type Backoff, backoff } from '@brupop/shared/runtime/backoff';
import type { Clock } from '@brupop/shared/runtime/clock';
import { type LogLevel, RetriedProblem } from '@brupop/shared/runtime/log';

const RETRY = { baseMs: 1_000, capMs: 60_000 };

/** Of lists that fail, by key: when each is tried again, and how loudly that is logged. */
export class ListRetries {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #failing = new Map<string, { readonly delays: Backoff; readonly problem: RetriedProblem }>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  failed(key: string, error: unknown): { readonly level: LogLevel; readonly delayMs: number } {
    const one = this.#failing.get(key) ?? { delays: backoff(RETRY), problem: new RetriedProblem(this.#clock) };
    this.#failing.set(key, one);
    return { level: one.problem.levelOf(kindOf(error)), delayMs: one.delays.next() };
  }

  /** The list has succeeded, or is no longer asked for. */
  delete(key: string): void {
    this.#failing.delete(key);
  }

  clear(): void {
    this.#failing.clear();
  }
}
