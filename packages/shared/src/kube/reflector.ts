/**
 * Keeps a collection of the Kubernetes API in memory: lists it in pages, then watches it.
 *
 *     list --> watch --ended or failed--> watch from the last resourceVersion --410 Gone--> list
 *
 * The store never goes back in time: it has what the list returned, and then each event in order.
 * Every failure is logged and retried with backoff; only 410 costs a new list. `idleForMs` is how
 * old the store may be: the time since the last page of a list or whole event of a watch, bookmarks
 * included. A watch that is idle for the limit is reopened. An accepted watch counts as activity
 * too, because a quiet collection has no events, but not after MAX_EMPTY_WATCHES that brought
 * nothing: a server that accepts watches and sends nothing must not look healthy.
 */
import { addAbortListener } from 'node:events';
import { WATCH_IDLE_LIMIT_MS } from '../api/deadlines.ts';
import type { KubernetesObject } from '../api/meta.ts';
import { type Backoff, backoff } from '../runtime/backoff.ts';
import type { Clock } from '../runtime/clock.ts';
import { messageOf } from '../runtime/errors.ts';
import type { Logger } from '../runtime/log.ts';
import type { KubeClient } from './client.ts';
import { errorFromStatus, hasStatus, KubeError } from './error.ts';
import { type Listener, Store } from './store.ts';

export type { Listener, ReflectorEvent } from './store.ts';

interface ReflectorOptions<T extends KubernetesObject> {
  readonly client: KubeClient;
  /** Collection, for example `/api/v1/nodes`. */
  readonly path: string;
  readonly query?: { readonly labelSelector?: string; readonly fieldSelector?: string };
  /** Cuts a raw object to the fields kept. When it throws, the object is left out and logged. */
  readonly slim: (raw: unknown) => T;
  readonly clock: Clock;
  readonly log: Logger;
  /** Resource, for log lines. */
  readonly name: string;
  /** A watch without activity is reopened after this time. Default WATCH_IDLE_LIMIT_MS. */
  readonly idleLimitMs?: number;
  /** For each page of the list. Default 60 s. */
  readonly listLimitMs?: number;
}

const PAGE_SIZE = '500';
const LIST_LIMIT_MS = 60_000;
/** As client-go: watches end after 5 to 10 minutes, to spread over the API servers again. */
const WATCH_SECONDS = 300;
/** Shorter than client-go's 800 ms, to recover faster after a restart of the API server. */
const RETRY = { baseMs: 200, capMs: 30_000 };
/** Upper bound for what a server may ask for in Retry-After. */
const MAX_RETRY_AFTER_MS = 300_000;
/** As client-go: a watch that ends sooner has failed. */
const MIN_WATCH_MS = 1_000;
/** As client-go: lists are expensive, so their backoff is reset only after this time without. */
const RELIST_RESET_MS = 120_000;
const MAX_EMPTY_WATCHES = 2;
const GONE = 410;
/** etcd refuses objects over 1.5 MiB, so a longer line is no watch event. */
const MAX_LINE_CHARS = 8 * 1024 * 1024;

/** A whole collection, and where to watch it from. */
export interface ListResult<T> {
  readonly items: readonly T[];
  /** How many objects were left out because they cannot be read. */
  readonly unreadable: number;
  readonly resourceVersion: string;
}

export class Reflector<T extends KubernetesObject> {
  readonly #options: ReflectorOptions<T>;
  readonly #store = new Store<T>();
  readonly #retry: Backoff = backoff(RETRY);
  readonly #relistRetry: Backoff = backoff(RETRY);
  readonly #firstList = Promise.withResolvers<void>();
  #synced = false;
  #resourceVersion: string | undefined;
  #lastActivity: number;
  /** Watches in a row that were accepted and brought nothing. */
  #emptyWatches = 0;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#lastActivity = options.clock.monotonic();
  }

  get synced(): boolean {
    return this.#synced;
  }

  idleForMs(): number {
    return this.#options.clock.monotonic() - this.#lastActivity;
  }

  get(name: string, namespace?: string): T | undefined {
    return this.#store.get(name, namespace);
  }

  list(): readonly T[] {
    return this.#store.list();
  }

  /** Calls `listener` for each change from now on. Returns a function that unsubscribes it. */
  subscribe(listener: Listener<T>): () => void {
    return this.#store.subscribe(listener);
  }

  /** Resolves when the first list is complete. Rejects with the signal's reason. */
  async waitSynced(signal: AbortSignal): Promise<void> {
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const listener = addAbortListener(signal, () => reject(signal.reason as Error));
    await Promise.race([this.#firstList.promise, aborted]).finally(() => listener[Symbol.dispose]());
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (this.#resourceVersion === undefined) this.replace(await this.readAll(signal, () => this.#recordActivity()));
        else await this.#watch(this.#resourceVersion, signal);
      } catch (error) {
        if (!signal.aborted) await this.#recover(error, signal);
      }
    }
  }

  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    const gone = hasStatus(error, GONE);
    if (gone) this.#resourceVersion = undefined;
    const retryInMs = retryDelayMs(error, (gone ? this.#relistRetry : this.#retry).next());
    const { log, clock, name } = this.#options;
    log.warn('watch failed, reconnecting', { resource: name, error: messageOf(error), retryInMs });
    await clock.sleep(retryInMs, signal).catch(() => undefined);
  }

  /** Replaces the store. Before `run`, saves it the first list. */
  replace({ items, resourceVersion }: ListResult<T>): void {
    this.#store.replace(items);
    this.#resourceVersion = resourceVersion;
    this.#synced = true;
    this.#firstList.resolve();
  }

  /** Reads the collection from the API server and leaves the store as it is. Throws KubeError. */
  async readAll(signal: AbortSignal, onPage?: () => void): Promise<ListResult<T>> {
    const { client, path, query, listLimitMs: timeoutMs = LIST_LIMIT_MS } = this.#options;
    const items: T[] = [];
    let unreadable = 0;
    let page: ListPage | undefined;
    do {
      const more = { limit: PAGE_SIZE, ...(page?.next !== undefined && { continue: page.next }) };
      page = readPage(await client.request({ method: 'GET', path, query: { ...query, ...more }, timeoutMs, signal }));
      onPage?.();
      const readable = page.items.flatMap((raw) => this.#slim(raw) ?? []);
      items.push(...readable);
      unreadable += page.items.length - readable.length;
    } while (page.next !== undefined);
    return { items, unreadable, resourceVersion: page.resourceVersion };
  }

  async #watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const openedAt = clock.monotonic();
    const idle = new AbortController();
    const cancel = this.#abortWhenIdle(openedAt, idle);
    try {
      const stream = await this.#openWatch(resourceVersion, AbortSignal.any([signal, idle.signal]));
      if (this.#emptyWatches < MAX_EMPTY_WATCHES) {
        this.#lastActivity = clock.monotonic();
        this.#emptyWatches += 1;
      }
      for await (const line of jsonLines(stream)) {
        this.#apply(readEvent(line));
        this.#recordActivity();
      }
    } finally {
      cancel();
      const livedMs = clock.monotonic() - openedAt;
      if (livedMs >= MIN_WATCH_MS) this.#retry.reset();
      if (livedMs >= RELIST_RESET_MS) this.#relistRetry.reset();
    }
    if (!signal.aborted && clock.monotonic() - openedAt < MIN_WATCH_MS)
      throw new Error('the watch ended right after it was opened');
  }

  #openWatch(resourceVersion: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const { client, path, query } = this.#options;
    const timeoutSeconds = String(Math.round(WATCH_SECONDS * (1 + Math.random())));
    const watch = { watch: 'true', allowWatchBookmarks: 'true', resourceVersion, timeoutSeconds };
    return client.stream({ method: 'GET', path, query: { ...query, ...watch }, signal });
  }

  /** Counts whole events only, however many bytes arrive. Returns a function that cancels it. */
  #abortWhenIdle(openedAt: number, watch: AbortController): () => void {
    const { clock, idleLimitMs = WATCH_IDLE_LIMIT_MS } = this.#options;
    let cancel: (() => void) | undefined;
    const check = (): void => {
      const left = Math.max(openedAt, this.#lastActivity) + idleLimitMs - clock.monotonic();
      if (left > 0) cancel = clock.after(left, check);
      else {
        this.#emptyWatches = MAX_EMPTY_WATCHES;
        watch.abort(new Error(`the watch was idle for ${idleLimitMs} ms`));
      }
    };
    check();
    return () => cancel?.();
  }

  #recordActivity(): void {
    this.#lastActivity = this.#options.clock.monotonic();
    this.#emptyWatches = 0;
  }

  #apply({ type, object: raw }: WatchEvent): void {
    this.#resourceVersion = raw.metadata.resourceVersion;
    if (type === 'BOOKMARK') return;
    const object = type === 'DELETED' ? undefined : this.#slim(raw);
    if (object === undefined) this.#store.remove(raw);
    else this.#store.set(object);
  }

  /** An object that cannot be read is left out, because its former state is outdated. */
  #slim(raw: unknown): T | undefined {
    const { slim, log, name } = this.#options;
    try {
      return slim(raw);
    } catch (error) {
      log.error('an object cannot be read and is left out', { resource: name, error: messageOf(error) });
      return undefined;
    }
  }
}

/** What the server asks for, within bounds, and at least `ownMs`. */
export function retryDelayMs(error: unknown, ownMs: number): number {
  const asked = error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0;
  return Math.max(Math.min(asked, MAX_RETRY_AFTER_MS), ownMs);
}

/** Throws when a line is no JSON or too long, or when the stream ends within a line. */
export async function* jsonLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > MAX_LINE_CHARS)
      throw new Error(`a line of the stream is longer than ${MAX_LINE_CHARS} characters`);
    for (const line of lines) if (line.trim() !== '') yield JSON.parse(line);
  }
  if (rest.trim() !== '') throw new Error('the stream ended in the middle of a line');
}

/** One page of a list; `next` is undefined on the last one. */
interface ListPage {
  readonly items: readonly unknown[];
  readonly resourceVersion: string;
  readonly next: string | undefined;
}

interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  readonly object: KubernetesObject;
}

const TYPES: readonly unknown[] = ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK'] satisfies WatchEvent['type'][];

/** Throws KubeError for anything but a page of a list, which would empty the store. */
export function readPage(answer: unknown): ListPage {
  const { items, metadata } = (answer ?? {}) as { items?: unknown; metadata?: { continue?: unknown } };
  const resourceVersion = versionOf(answer);
  if (!Array.isArray(items) || resourceVersion === undefined) throw malformed('list', 'items and a resourceVersion');
  const next = metadata?.continue;
  return { items, resourceVersion, next: typeof next === 'string' && next !== '' ? next : undefined };
}

/** Throws KubeError for an ERROR event, with its status, and for anything but an event. */
export function readEvent(line: unknown): WatchEvent {
  const { type, object } = (line ?? {}) as { type?: unknown; object?: KubernetesObject };
  if (type === 'ERROR') throw errorFromStatus('the watch reported', object);
  if (!TYPES.includes(type) || versionOf(object) === undefined)
    throw malformed('watch', `one of ${TYPES.join(', ')} with an object that has a resourceVersion`);
  return line as WatchEvent;
}

function versionOf(object: unknown): string | undefined {
  const version = (object as Partial<KubernetesObject> | null | undefined)?.metadata?.resourceVersion;
  return typeof version === 'string' && version !== '' ? version : undefined;
}

function malformed(what: string, expected: string): KubeError {
  return new KubeError(0, 'MalformedAnswer', `the ${what} sent something other than ${expected}`);
}
