/**
 * What is to be set and ended, and when. An entry is one silence, known by its matchers:
 *
 *     wanted     it is due at once, and again after 15 minutes; it lasts for 25
 *     unwanted   its node is not away any more: it is due at once, and forgotten when it was ended or has ended by itself
 *     ended      if it is wanted again, it is due five minutes after it was set first: an agent may claim in turn to reboot and
 *                to have returned, and Alertmanager keeps each silence for days
 *
 * Times are monotonic milliseconds. There are at most 500 entries.
 */
import type { SilenceSettings } from '@brupop/shared/api/config-silences';
import { LASTS_MS } from './alertmanager.ts';
import type { Silence } from './wanted.ts';

const AGAIN_MS = 900_000;
export const MAX_ENTRIES = 500;
const PAUSE_MS = 300_000;

export interface Wanted {
  readonly node: string;
  readonly silence: Silence;
  /** False: a former leader may have left it. */
  readonly isWanted: boolean;
}

export interface Entry extends Wanted {
  /** Where it is set or ended: the latest ones, if there still are any. */
  settings: SilenceSettings;
  isWanted: boolean;
  dueAt: number;
  /** When it was requested first; undefined: it was not, by this leader. */
  startedAt: number | undefined;
  /** When it has ended by itself. */
  endsAt: number;
}

export class Entries {
  readonly #entries = new Map<string, Entry>();
  /** By matchers, of those that were ended, and for which nothing was requested since: when the pause is over. */
  readonly #pauses = new Map<string, number>();

  get size(): number {
    return this.#entries.size;
  }

  clear(): void {
    this.#entries.clear();
    this.#pauses.clear();
  }

  /**
   * Takes over what is wanted now. Returns how many there was no room for.
   * @param settings - of all that are wanted
   */
  want(wanted: readonly Wanted[], settings: SilenceSettings | undefined, now: number): number {
    const byMatchers = new Map(wanted.map((one) => [keyOf(one), one]));
    for (const [key, entry] of this.#entries)
      if (entry.isWanted && byMatchers.get(key)?.isWanted !== true) this.#unwant(key, entry, now);
    if (settings === undefined) return 0;
    for (const entry of this.#entries.values())
      if (entry.settings !== settings) Object.assign(entry, { settings, dueAt: now });
    return [...byMatchers].filter(([key, one]) => !this.#take(key, one, settings, now)).length;
  }

  /** What is due first, if anything is left. */
  next(): Entry | undefined {
    let next: Entry | undefined;
    for (const entry of this.#entries.values()) if (next === undefined || entry.dueAt < next.dueAt) next = entry;
    return next;
  }

  /** A request that fails may have arrived, so this comes before it. */
  starts(entry: Entry, now: number): void {
    entry.startedAt ??= now;
    entry.endsAt = now + LASTS_MS;
    this.#pauses.delete(keyOf(entry));
  }

  /** @param settings - with which it was set; with others it is due */
  wasSet(entry: Entry, settings: SilenceSettings, now: number): void {
    if (entry.isWanted && entry.settings === settings) entry.dueAt = now + AGAIN_MS;
  }

  /**
   * It may be wanted again by now.
   * @param count - how many Alertmanager had; none: no former leader has left one, and no pause begins
   */
  wasEnded(entry: Entry, count: number, now: number): void {
    const key = keyOf(entry);
    const until = (entry.startedAt ?? (count > 0 ? now : -Infinity)) + PAUSE_MS;
    this.#pauses.set(key, until);
    if (entry.isWanted) Object.assign(entry, { dueAt: Math.max(now, until), startedAt: undefined });
    else this.#entries.delete(key);
  }

  forgetEnded(now: number): void {
    for (const [key, until] of this.#pauses) if (now >= until && !this.#entries.has(key)) this.#pauses.delete(key);
    for (const [key, { isWanted, endsAt }] of this.#entries) if (!isWanted && now >= endsAt) this.#entries.delete(key);
  }

  #unwant(key: string, entry: Entry, now: number): void {
    if (this.#pauses.has(key)) this.#entries.delete(key);
    else Object.assign(entry, { isWanted: false, dueAt: now });
  }

  /** Returns false if there is no room. */
  #take(key: string, one: Wanted, settings: SilenceSettings, now: number): boolean {
    const entry = this.#entries.get(key);
    if (entry === undefined) {
      if (this.#entries.size >= MAX_ENTRIES) return false;
      const dueAt = Math.max(now, this.#pauses.get(key) ?? now);
      this.#entries.set(key, { ...one, settings, dueAt, startedAt: undefined, endsAt: now + LASTS_MS });
    } else if (one.isWanted && !entry.isWanted) {
      Object.assign(entry, { isWanted: true, dueAt: now });
    }
    return true;
  }
}

function keyOf({ silence }: Pick<Wanted, 'silence'>): string {
  return JSON.stringify(silence.matchers);
}
