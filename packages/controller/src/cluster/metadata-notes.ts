/**
 * What the writes of labels, annotations and taints have found that no watch shows: which other field managers own keys that
 * a group wants, what the API server rejected, and which Nodes another writer changes back. A note holds until the next read of its Node; it is repeated from time to
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
  /** Another writer has changed the Node back after each of several writes. */
  readonly isChangedBack?: boolean;
  /** When the Node is to be read again, epoch milliseconds. */
  readonly checkAt: number;
}

type Found = Omit<MetadataNote, 'checkAt'>;

const CHECK_AGAIN_MS = 10 * 60_000;

export class MetadataNotes {
  readonly #notes = new Map<string, MetadataNote>();

  /** By the UID of the Node. */
  get view(): ReadonlyMap<string, MetadataNote> {
    return this.#notes;
  }

  /** Returns whether this is news. */
  note(uid: string, found: Found, now: number): boolean {
    const before = this.#notes.get(uid);
    const { conflicts, rejection, isChangedBack = false } = found;
    if (conflicts.length === 0 && rejection === undefined && !isChangedBack) return this.#notes.delete(uid);
    this.#notes.set(uid, { ...found, checkAt: now + CHECK_AGAIN_MS });
    return before === undefined || textOf(before) !== textOf(found);
  }

  clear(): void {
    this.#notes.clear();
  }

  forget(uid: string): void {
    this.#notes.delete(uid);
  }
}

function textOf({ conflicts, rejection, isChangedBack = false }: Found): string {
  return JSON.stringify([conflicts, rejection, isChangedBack]);
}
