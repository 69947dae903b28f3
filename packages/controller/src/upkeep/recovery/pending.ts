import { keyOf, type Scope } from './decide.ts';

export interface PendingRecovery {
  readonly scope: Scope;
  /** When it has recovered, on the monotonic clock: the other one may be set back before the window opens. */
  readonly at: number;
}

/** What has recovered, until its window opens. */
export class PendingRecoveries {
  readonly #pending = new Map<string, PendingRecovery>();

  get size(): number {
    return this.#pending.size;
  }

  get all(): readonly PendingRecovery[] {
    return [...this.#pending.values()];
  }

  add(scope: Scope, at: number): void {
    this.#pending.set(keyOf(scope), { scope, at });
  }

  take(): readonly PendingRecovery[] {
    const { all } = this;
    this.#pending.clear();
    return all;
  }

  /** An obstacle may outlast a window. `time` is on the monotonic clock, milliseconds. */
  forgetBefore(time: number): void {
    for (const [key, { at }] of this.#pending) if (at <= time) this.#pending.delete(key);
  }
}
