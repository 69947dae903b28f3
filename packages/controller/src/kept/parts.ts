/**
 * A list in parts of a few dozen elements, so that a plan asks again only about parts in which something has changed:
 *
 *     split      a part whose elements are the same objects as in the plan before is the same array as there
 *     ofParts    an answer about a part is kept for this very array
 *     ofPartsAt  the same for one that depends on the time as well, until its {@link Moment} ends
 *
 * Answers that are arrays are parts as well: the same ones as before while nothing has changed. What an answer depends on
 * besides the elements and the time has to be given to `split`.
 */
import { isPair, type ManagedNode } from '../cluster/snapshot.ts';
import { Kept, type Moment } from './moment.ts';

export type Parts<T> = readonly (readonly T[])[];

const SIZE = 64;

export class Splitter<T> {
  readonly #size: number;
  #list: readonly T[] = [];
  #parts: Parts<T> = [];
  #with: unknown;

  constructor(size = SIZE) {
    this.#size = size;
  }

  /** @param dependsOn - if it is another one than before, all parts are new */
  split(list: readonly T[], dependsOn?: unknown): Parts<T> {
    const before = dependsOn === this.#with ? this.#parts : [];
    if (list === this.#list && before.length > 0) return before;
    this.#parts = Array.from({ length: Math.ceil(list.length / this.#size) }, (_, index) => {
      const known = before[index];
      const from = index * this.#size;
      return known !== undefined && this.#isSame(known, list, from) ? known : list.slice(from, from + this.#size);
    });
    this.#list = list;
    this.#with = dependsOn;
    return this.#parts;
  }

  #isSame(known: readonly T[], list: readonly T[], from: number): boolean {
    if (known.length !== Math.min(this.#size, list.length - from)) return false;
    return known.every((one, i) => one === list[from + i]);
  }
}

/** @param find - depends on nothing but the part */
export function ofParts<T, R>(find: (part: readonly T[]) => R): (parts: Parts<T>) => readonly R[] {
  const kept = new WeakMap<readonly T[], { readonly answer: R }>();
  return (parts) =>
    parts.map((part) => {
      const known = kept.get(part);
      if (known !== undefined) return known.answer;
      const answer = find(part);
      kept.set(part, { answer });
      return answer;
    });
}

/** @param find - depends on nothing but the part and the time */
export function ofPartsAt<T, R>(
  find: (part: readonly T[], now: Moment) => R,
): (parts: Parts<T>, now: number) => readonly R[] {
  const kept = new Kept<readonly T[], R>();
  return (parts, now) => parts.map((part) => kept.of(part, now, (moment) => find(part, moment)));
}

/** Answers about each element, kept by the element and by its part. */
export class KeptEach<T extends object, R> {
  readonly #ofOne = new Kept<T, R>();
  readonly #ofPart = new Kept<readonly T[], readonly R[]>();

  of(parts: Parts<T>, now: number, find: (one: T, moment: Moment) => R): Parts<R> {
    return parts.map((part) =>
      this.#ofPart.of(part, now, (within) =>
        part.map((one) => this.#ofOne.of(one, now, (moment) => find(one, moment), within)),
      ),
    );
  }
}

export function countOf(parts: Parts<unknown>): number {
  return parts.reduce((sum, part) => sum + part.length, 0);
}

/** Returns what finds the elements of the group with a name. */
export function ofGroup<T>(
  groupOf: (one: T) => ManagedNode['group'],
): (name: string | undefined, parts: Parts<T>) => Parts<T> {
  const groupedIn = ofParts((part: readonly T[]) => Map.groupBy(part, (one) => groupOf(one)?.name));
  return (name, parts) =>
    groupedIn(parts).flatMap((byName) => {
      const members = byName.get(name);
      return members === undefined ? [] : [members];
    });
}

/** Returns what finds the element with a key, such as its name. */
export function ofKey<T>(keyOf: (one: T) => string): (key: string, parts: Parts<T>) => T | undefined {
  const indexIn = ofParts((part: readonly T[]) => new Map(part.map((one) => [keyOf(one), one])));
  return (key, parts) =>
    indexIn(parts)
      .find((index) => index.has(key))
      ?.get(key);
}

export const pairsIn = ofParts((part: readonly ManagedNode[]) => part.filter(isPair));

export const membersOf = ofGroup(({ group }: ManagedNode) => group);
