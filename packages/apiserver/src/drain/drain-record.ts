import { isDeepStrictEqual } from 'node:util';
import type { DrainStatus } from '@brupop/shared/shadow';

/** The drain as the shadow has it; written only when it changes. */
export class DrainRecord {
  readonly #write: (drain: DrainStatus) => Promise<void>;
  #current: DrainStatus;

  /** @param current - what the shadow has now */
  constructor(current: DrainStatus, write: (drain: DrainStatus) => Promise<void>) {
    this.#current = current;
    this.#write = write;
  }

  get current(): DrainStatus {
    return this.#current;
  }

  /** Throws what the write throws; then the record stays as it was. */
  async set(next: DrainStatus): Promise<void> {
    if (isDeepStrictEqual(next, this.#current)) return;
    await this.#write(next);
    this.#current = next;
  }
}
