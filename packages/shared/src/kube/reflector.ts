import { WATCH_IDLE_LIMIT_MS } from '../api/deadlines.ts';
import { messageOf } from '../runtime/errors.ts';
import { type Backoff, backoff } from '../runtime/backoff.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { KubeClient } from './client.ts';
import { hasStatus, KubeError } from './error.ts';
import { type Listener, Store } from './store.ts';
import type { KubernetesObject } from '../api/meta.ts';

export type { Listener, ReflectorEvent } from './store.ts';

export interface ReflectorOptions<T extends KubernetesObject> {
  readonly client: KubeClient;
  /** Collection, for example `/api/v1/nodes`. */
  readonly path: string;
  readonly query?: { readonly labelSelector?: string; readonly fieldSelector?: string };
  /** Cuts a raw object to the fields kept. When it throws, the object is left out, with a log line. */
  readonly slim: (raw: unknown) => T;
  readonly clock: Clock;
  readonly log: Logger;
  /** For log lines. */
  readonly name: string;
  /** A watch without a whole event for so long is given up, milliseconds. Default 100 s: the API server sends a bookmark about once a minute. */
  readonly silenceLimitMs?: number;
  /** For each page of the list, milliseconds. Default 60 s. */
  readonly listLimitMs?: number;
}

const PAGE_SIZE = '500';
const LIST_LIMIT_MS = 60_000;
/** As client-go: a watch is asked to end after 5 to 10 minutes, so that connections spread over API servers again. */
const WATCH_SECONDS = 300;
/** client-go's reflector backs off from 800 ms; a shorter start hands over faster after a restart. */
const RETRY = { baseMs: 200, capMs: 30_000 };
/** A server that asks for more patience than that is not obeyed: a cache must not stand still for hours. */
const LONGEST_ASKED_MS = 300_000;
/** As client-go: a watch that ends sooner has failed. */
const GOOD_WATCH_MS = 1_000;
/** As client-go: lists are expensive for the API server, so only so long without the need for one begins their backoff anew. */
const RELIST_RESET_MS = 120_000;
/** So many watches in a row are taken for a sign of life although nothing has come through them. */
const MOST_UNHEARD = 2;
const GONE = 410;

/** Keeps a collection of the Kubernetes API in memory: list, then watch, for ever. The only place that opens a watch. */
export class Reflector<T extends KubernetesObject> {
  readonly #options: ReflectorOptions<T>;
  readonly #store = new Store<T>();
  readonly #retry: Backoff = backoff(RETRY);
  readonly #relistRetry: Backoff = backoff(RETRY);
  #resourceVersion: string | undefined;
  #synced = false;
  readonly #syncWaiters = new Set<() => void>();
  #heardAt: number;
  /** How many watches in a row were let in and have brought nothing whole; a silent one counts as many. */
  #unheard = 0;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#heardAt = options.clock.monotonic();
  }

  /** True once the first list is complete. */
  get synced(): boolean {
    return this.#synced;
  }

  /** Milliseconds since the API server last sent a page of the list or a whole event of the watch, or let a watch in: how old the view may be. */
  silentForMs(): number {
    return this.#options.clock.monotonic() - this.#heardAt;
  }

  get(name: string, namespace?: string): T | undefined {
    return this.#store.get(name, namespace);
  }

  list(): readonly T[] {
    return this.#store.list();
  }

  /** Calls `listener` for each change from now on; the returned function ends that. */
  subscribe(listener: Listener<T>): () => void {
    return this.#store.subscribe(listener);
  }

  /** Resolves when the first list is complete; rejects with the signal's reason. */
  async waitSynced(signal: AbortSignal): Promise<void> {
    if (this.#synced) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const onAbort = (): void => reject(signal.reason as Error);
    this.#syncWaiters.add(resolve);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    await promise.finally(() => {
      this.#syncWaiters.delete(resolve);
      signal.removeEventListener('abort', onAbort);
    });
  }

  /** Lists and watches until `signal` aborts; resolves then. Every failure is logged and tried again with backoff. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (this.#resourceVersion === undefined) await this.#relist(signal);
        else await this.#watch(this.#resourceVersion, signal);
      } catch (error) {
        if (!signal.aborted) await this.#recover(error, signal);
      }
    }
  }

  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    const gone = hasStatus(error, GONE);
    if (gone) this.#resourceVersion = undefined;
    const delay = retryDelayMs(error, (gone ? this.#relistRetry : this.#retry).next());
    const { log, clock, name } = this.#options;
    log.warn('watch broke and is opened again', { resource: name, error: messageOf(error), retryInMs: delay });
    await clock.sleep(delay, signal).catch(() => undefined);
  }

  async #relist(signal: AbortSignal): Promise<void> {
    const { items, resourceVersion } = await this.#listAll(signal);
    this.#store.replace(items);
    this.#resourceVersion = resourceVersion;
    this.#synced = true;
    for (const resolve of this.#syncWaiters) resolve();
  }

  async #listAll(signal: AbortSignal): Promise<{ items: T[]; resourceVersion: string }> {
    const items: T[] = [];
    let token: string | undefined;
    let resourceVersion: string;
    do {
      const page: ListPage = readPage(await this.#page(token, signal));
      this.#heard();
      for (const raw of page.items) {
        const object = this.#slim(raw);
        if (object !== undefined) items.push(object);
      }
      resourceVersion = page.resourceVersion;
      token = page.next;
    } while (token !== undefined);
    return { items, resourceVersion };
  }

  #page(token: string | undefined, signal: AbortSignal): Promise<unknown> {
    const { client, path, query, listLimitMs = LIST_LIMIT_MS } = this.#options;
    return client.request({
      method: 'GET',
      path,
      query: { ...query, limit: PAGE_SIZE, ...(token !== undefined && { continue: token }) },
      timeoutMs: listLimitMs,
      signal,
    });
  }

  async #watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const openedAt = this.#options.clock.monotonic();
    const silence = new AbortController();
    const cancel = this.#abortWhenSilent(openedAt, silence);
    try {
      const stream = await this.#openWatch(resourceVersion, AbortSignal.any([signal, silence.signal]));
      this.#opened();
      for await (const line of jsonLines(stream)) {
        this.#apply(readEvent(line));
        this.#heard();
      }
    } finally {
      cancel();
      this.#endedAfter(this.#options.clock.monotonic() - openedAt);
    }
    if (signal.aborted) return;
    if (this.#options.clock.monotonic() - openedAt < GOOD_WATCH_MS)
      throw new Error('the watch ended right after it was opened');
  }

  #openWatch(resourceVersion: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const { client, path, query } = this.#options;
    return client.stream({
      method: 'GET',
      path,
      query: {
        ...query,
        watch: 'true',
        allowWatchBookmarks: 'true',
        resourceVersion,
        timeoutSeconds: String(Math.round(WATCH_SECONDS * (1 + Math.random()))),
      },
      signal,
    });
  }

  /** Ends a watch through which nothing whole has come for the limit, however many bytes have. The returned function ends that. */
  #abortWhenSilent(openedAt: number, watch: AbortController): () => void {
    const { clock, silenceLimitMs = WATCH_IDLE_LIMIT_MS } = this.#options;
    let cancel: (() => void) | undefined;
    const check = (): void => {
      const left = Math.max(openedAt, this.#heardAt) + silenceLimitMs - clock.monotonic();
      if (left > 0) cancel = clock.after(left, check);
      else {
        this.#unheard = MOST_UNHEARD;
        watch.abort(new Error(`the watch was silent for ${silenceLimitMs} ms`));
      }
    };
    check();
    return () => cancel?.();
  }

  #endedAfter(livedMs: number): void {
    if (livedMs >= GOOD_WATCH_MS) this.#retry.reset();
    if (livedMs >= RELIST_RESET_MS) this.#relistRetry.reset();
  }

  #apply({ type, object }: WatchEvent): void {
    if (type === 'DELETED') this.#store.remove(object);
    else if (type !== 'BOOKMARK') this.#put(object);
    this.#resourceVersion = object.metadata.resourceVersion;
  }

  /** What cannot be read is left out, as it is of a list: its former state is no longer true. */
  #put(raw: KubernetesObject): void {
    const object = this.#slim(raw);
    if (object === undefined) this.#store.remove(raw);
    else this.#store.set(object);
  }

  #slim(raw: unknown): T | undefined {
    try {
      return this.#options.slim(raw);
    } catch (error) {
      this.#options.log.error('an object cannot be read and is left out', {
        resource: this.#options.name,
        error: messageOf(error),
      });
      return undefined;
    }
  }

  #heard(): void {
    this.#heardAt = this.#options.clock.monotonic();
    this.#unheard = 0;
  }

  /**
   * A watch that is let in shows a live server, also after one that was cut before anything came, but not again and again: a server that lets
   * watches in and then sends nothing must not look alive.
   */
  #opened(): void {
    if (this.#unheard >= MOST_UNHEARD) return;
    this.#unheard += 1;
    this.#heardAt = this.#options.clock.monotonic();
  }
}

/** How long to wait after `error`, milliseconds: as long as the server asks, within reason, and at least `ownMs`. */
export function retryDelayMs(error: unknown, ownMs: number): number {
  const asked = error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0;
  return Math.max(Math.min(asked, LONGEST_ASKED_MS), ownMs);
}

/** A line longer than this is no watch event: etcd refuses objects over 1.5 MiB. */
const MAX_LINE_CHARS = 8 * 1024 * 1024;

/** Parses newline-delimited JSON as it comes. Throws when a line is no JSON or too long, or when the stream ends within a line. */
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

/** One page of a list. */
export interface ListPage {
  readonly items: readonly unknown[];
  readonly resourceVersion: string;
  /** Undefined on the last page. */
  readonly next: string | undefined;
}

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  readonly object: KubernetesObject;
}

const TYPES: readonly unknown[] = ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK'] satisfies WatchEvent['type'][];

/**
 * Reads a page of a list. Throws KubeError when the answer is no list or does not say of which time it is: what is taken for a list empties
 * the cache of all that it does not name.
 */
export function readPage(answer: unknown): ListPage {
  const { items, metadata } = (answer ?? {}) as { items?: unknown; metadata?: { continue?: unknown } };
  const resourceVersion = versionOf(answer);
  if (!Array.isArray(items) || resourceVersion === undefined) throw malformed('list', 'items and a resourceVersion');
  const next = metadata?.continue;
  return { items, resourceVersion, next: typeof next === 'string' && next !== '' ? next : undefined };
}

/** Reads a line of a watch. Throws KubeError for an ERROR event, with its status and how long it asks to wait, and for what is no event. */
export function readEvent(line: unknown): WatchEvent {
  const { type, object } = (line ?? {}) as { type?: unknown; object?: KubernetesObject };
  if (type === 'ERROR') throw reported(object);
  if (!TYPES.includes(type) || versionOf(object) === undefined)
    throw malformed('watch', `one of ${TYPES.join(', ')} with an object that has a resourceVersion`);
  return line as WatchEvent;
}

function versionOf(object: unknown): string | undefined {
  const version = (object as Partial<KubernetesObject> | null | undefined)?.metadata?.resourceVersion;
  return typeof version === 'string' && version !== '' ? version : undefined;
}

function malformed(what: string, expected: string): KubeError {
  return new KubeError(0, 'MalformedAnswer', `the ${what} sent something else than ${expected}`);
}

function reported(object: unknown): KubeError {
  const { code, reason, message, details } = (object ?? {}) as {
    readonly code?: number;
    readonly reason?: string;
    readonly message?: string;
    readonly details?: { readonly retryAfterSeconds?: number };
  };
  const seconds = details?.retryAfterSeconds;
  return new KubeError(code ?? 0, reason ?? 'Unknown', `the watch reported: ${message ?? 'an error'}`, {
    ...(seconds !== undefined && { retryAfterMs: seconds * 1000 }),
  });
}
