import { keyOf, type Scope } from './decide.ts';

export interface PendingRecovery {
  readonly scope: Scope;
  /** When it has recovered, epoch milliseconds. */
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

  /** An obstacle may outlast a window. */
  forgetBefore(time: number): void {
    for (const [key, { at }] of this.#pending) if (at <= time) this.#pending.delete(key);
  }
}
