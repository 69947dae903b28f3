/**
 * What the writes of labels, annotations and taints have found that no watch shows: which other field managers own keys that
 * a group wants, and what the API server rejected. A note holds until the next read of its Node; it is repeated from time to
 * time, since another manager may give its key up without a change of the Node.
 */
import type { KeyField } from './group-metadata.ts';

/** A key, or a taint, that another field manager has set to another value. */
export interface Conflict {
  readonly field: KeyField | 'taints';
  readonly key: string;
  /** What the Node has. */
  readonly found: string;
  readonly manager: string;
}

export interface MetadataNote {
  readonly conflicts: readonly Conflict[];
  /** Why the API server rejected the latest write. */
  readonly rejection: string | undefined;
  /** When the Node is to be read again, epoch milliseconds. */
  readonly checkAt: number;
}

const CHECK_AGAIN_MS = 10 * 60_000;

export class MetadataNotes {
  readonly #notes = new Map<string, MetadataNote>();

  /** By the UID of the Node. */
  get view(): ReadonlyMap<string, MetadataNote> {
    return this.#notes;
  }

  /** Returns whether this is news. */
  note(uid: string, conflicts: readonly Conflict[], rejection: string | undefined, now: number): boolean {
    const before = this.#notes.get(uid);
    if (conflicts.length === 0 && rejection === undefined) return this.#notes.delete(uid);
    this.#notes.set(uid, { conflicts, rejection, checkAt: now + CHECK_AGAIN_MS });
    return JSON.stringify([before?.conflicts, before?.rejection]) !== JSON.stringify([conflicts, rejection]);
  }

  clear(): void {
    this.#notes.clear();
  }

  forget(uid: string): void {
    this.#notes.delete(uid);
  }
}
