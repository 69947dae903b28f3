/**
 * Writes beside the reconciles, so that neither specs nor plans wait for the objects of a large fleet, or for one that is slow
 * to write. Of each key the newest wish is written:
 *
 *     wanted      the latest plan has it; a later plan replaces or withdraws it
 *     in flight   one for each object; what a later plan wants of it follows it
 *     failed      the key backs off (`writer.ts`), and the controller wakes to find out when it is tried again
 *
 * Those of one priority take no more than half of what may be in flight while others are wanted, so that the ones that hang
 * keep back none of another kind.
 *
 * What counts towards a limit is never written here: a plan does not see what is in flight, and would grant it twice.
 */
import { messageOf } from '@brupop/shared/runtime/errors';
import type { Logger } from '@brupop/shared/runtime/log';
import { NotLeading, type Writer } from './writer.ts';

export interface Wish {
  /** What is written of which object, as `writer.ts` has it. */
  readonly key: string;
  /** Of one object, one write is in flight at a time. */
  readonly object: string;
  /** Those with a smaller number go first; of the same number, the longest wanted. */
  readonly priority: number;
}

/** Of what is written of Nodes: what frees a node first. */
export const PRIORITY = { cleanup: 0, outOfService: 0, create: 1, taint: 2, metadata: 3 } as const;

/** A write of a Node, or of what goes with it. */
export interface NodeWrite extends Wish {
  /** It follows from the configuration alone. */
  readonly isOfConfig?: boolean;
  readonly write: () => Promise<void>;
}

interface QueueOptions<T> {
  readonly writer: Pick<Writer, 'canWrite' | 'backOff'>;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** Writes in flight at most. */
  readonly parallel: number;
  /** Wakes the controller if the next plan may differ. After NotLeading nothing more is written. */
  readonly write: (wish: T) => Promise<void>;
}

const NONE: ReadonlySet<number> = new Set();

export class WriteQueue<T extends Wish> {
  readonly #options: QueueOptions<T>;
  /** By key, in the order in which they are written. */
  #wanted = new Map<string, T>();
  /** Wishes of more than one priority were wanted at the latest {@link offer}. */
  #isMixed = false;
  /** By object. */
  readonly #inFlight = new Map<string, T>();
  readonly #workers = new Set<Promise<void>>();
  /** How many of the workers still look for more to write. */
  #busy = 0;

  constructor(options: QueueOptions<T>) {
    this.#options = options;
  }

  /** Replaces what is left to be written. */
  offer(wishes: readonly T[]): void {
    const { writer, parallel } = this.#options;
    const due = new Map(wishes.filter(({ key }) => writer.canWrite(key)).map((one) => [one.key, one] as const));
    const earlier = [...this.#wanted].filter(([key]) => due.has(key));
    // The newest wish takes the place of the one before.
    const all = [...new Map([...earlier, ...due])].toSorted(([, a], [, b]) => a.priority - b.priority);
    this.#wanted = new Map(all);
    this.#isMixed = all[0]?.[1].priority !== all.at(-1)?.[1].priority;
    for (let idle = parallel - this.#busy; idle > 0 && this.#wanted.size > 0; idle -= 1) {
      const worker = this.#work();
      this.#workers.add(worker);
      void worker.finally(() => this.#workers.delete(worker));
    }
  }

  inFlight(object: string): T | undefined {
    return this.#inFlight.get(object);
  }

  /** Of which a write is in flight. */
  objectsInFlight(): Iterable<string> {
    return this.#inFlight.keys();
  }

  /** What is left to be written, or in flight. */
  get left(): readonly T[] {
    return [...this.#wanted.values(), ...this.#inFlight.values()];
  }

  /** Resolves when nothing is left to be written, or the signal has aborted. */
  async idle(): Promise<void> {
    while (this.#workers.size > 0) await Promise.all(this.#workers);
  }

  async #work(): Promise<void> {
    this.#busy += 1;
    for (let next = this.#take(); next !== undefined; next = this.#take()) await this.#write(next);
    this.#busy -= 1;
  }

  #take(): T | undefined {
    if (this.#options.signal.aborted) return undefined;
    const full = this.#fullPriorities();
    const others = full.size === 0 ? undefined : this.#next(({ priority }) => !full.has(priority));
    const next = others ?? this.#next(() => true);
    if (next === undefined) return undefined;
    this.#wanted.delete(next.key);
    this.#inFlight.set(next.object, next);
    return next;
  }

  #next(isMeant: (wish: T) => boolean): T | undefined {
    for (const [key, wish] of this.#wanted) {
      if (this.#inFlight.has(wish.object) || !isMeant(wish)) continue;
      if (this.#options.writer.canWrite(key)) return wish;
      // A write meanwhile has failed.
      this.#wanted.delete(key);
    }
    return undefined;
  }

  /** Those that have their share in flight, if several are wanted. */
  #fullPriorities(): ReadonlySet<number> {
    if (!this.#isMixed) return NONE;
    const counts = Map.groupBy(this.#inFlight.values(), ({ priority }) => priority);
    const full = [...counts].filter(([, { length }]) => length >= this.#options.parallel / 2);
    return new Set(full.map(([priority]) => priority));
  }

  async #write(wish: T): Promise<void> {
    try {
      await this.#options.write(wish);
    } catch (error) {
      this.#failed(wish, error);
    } finally {
      this.#inFlight.delete(wish.object);
    }
  }

  #failed({ key }: T, error: unknown): void {
    const { writer, log, signal } = this.#options;
    // The Lease is lost, or the process ends: the reconcile says so.
    if (signal.aborted || error instanceof NotLeading) return this.#wanted.clear();
    log.error('a write has failed in an unexpected way', { key, error: messageOf(error) });
    writer.backOff(key);
  }
}
