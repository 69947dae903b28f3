/**
 * Keeps a collection of the Kubernetes API in memory: lists it in pages, then watches it.
 *
 *     list --> watch --ended or failed--> watch from the last resourceVersion --410 Gone--> list
 *
 * The store never goes back in time: it has what the list returned, and then each event in order.
 * Every failure is logged and retried with backoff; only 410 costs a new list. `idleForMs` is the
 * time for which nothing has shown that the store is current: the last page of a list, a whole event
 * of the watch, a bookmark, or a catch-up. A watch that was accepted shows nothing.
 *
 * A collection without changes has no events, and no bookmarks either while kube-apiserver knows of
 * no revision after the one from which the watch started: etcd reports one every 10 minutes. So
 *
 * - a watch that has received nothing right after its start makes kube-apiserver ask etcd, by one
 *   small read. Bookmarks follow every minute, for as long as the watch lives (Kubernetes 1.31);
 * - a watch that is silent for the idle limit is compared with a second, short one from the same
 *   resourceVersion. If that ends in time without a change, the store is current; otherwise the
 *   silent watch is opened again.
 */
import { addAbortListener } from 'node:events';
import { WATCH_CATCH_UP_LIMIT_MS, WATCH_IDLE_LIMIT_MS } from '../api/deadlines.ts';
import type { KubernetesObject } from '../api/meta.ts';
import { type Backoff, backoff } from '../runtime/backoff.ts';
import type { Clock } from '../runtime/clock.ts';
import { messageOf } from '../runtime/errors.ts';
import type { Logger } from '../runtime/log.ts';
import type { KubeClient } from './client.ts';
import { hasStatus, KubeError } from './error.ts';
import { type Listener, Store } from './store.ts';
import { jsonLines, type ListPage, readEvent, readPage, type WatchEvent } from './watch-protocol.ts';

export type { Listener, ReflectorEvent } from './store.ts';

interface ReflectorOptions<T extends KubernetesObject> {
  readonly client: Pick<KubeClient, 'request' | 'stream'>;
  /** Collection, for example `/api/v1/nodes`. */
  readonly path: string;
  readonly query?: { readonly labelSelector?: string; readonly fieldSelector?: string };
  /** Cuts a raw object to the fields kept. When it throws, the object is left out and logged. */
  readonly slim: (raw: unknown) => T;
  readonly clock: Clock;
  readonly log: Logger;
  /** Resource, for log lines. */
  readonly name: string;
  /** A watch that is silent for this time is checked. Default WATCH_IDLE_LIMIT_MS. */
  readonly idleLimitMs?: number;
  /** For each page of the list. Default 60 s. */
  readonly listLimitMs?: number;
}

const PAGE_SIZE = '500';
const LIST_LIMIT_MS = 60_000;
/** Watches end after 30 to 60 minutes, to spread over the API servers again. */
const WATCH_SECONDS = 1_800;
const OPEN_LIMIT_MS = 10_000;
/** By then the cluster has made a newer revision: the Lease alone is renewed more often. */
const PROGRESS_AFTER_MS = 10_000;
const CATCH_UP_SECONDS = 2;
/** Shorter than client-go's 800 ms, to recover faster after a restart of the API server. */
const RETRY = { baseMs: 200, capMs: 30_000 };
/** Upper bound for what a server may ask for in Retry-After. */
const MAX_RETRY_AFTER_MS = 300_000;
/** As client-go: a watch that ends sooner has failed. */
const MIN_WATCH_MS = 1_000;
/** As client-go: lists are expensive, so their backoff is reset only after this time without. */
const RELIST_RESET_MS = 120_000;
const GONE = 410;
const NO_NAME = 'metadata.name=none';

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
    const unconfirmed = new AbortController();
    const ended = new AbortController();
    try {
      const stream = await this.#openWatch(
        resourceVersion,
        watchSeconds(),
        AbortSignal.any([signal, unconfirmed.signal]),
      );
      const checks = AbortSignal.any([signal, ended.signal]);
      void this.#askForProgress(checks);
      void this.#checkWhenSilent(checks, (reason) => unconfirmed.abort(reason));
      for await (const line of jsonLines(stream)) {
        this.#apply(readEvent(line));
        this.#recordActivity();
      }
    } catch (error) {
      throw unconfirmed.signal.aborted ? unconfirmed.signal.reason : error;
    } finally {
      ended.abort();
      const livedMs = clock.monotonic() - openedAt;
      if (livedMs >= MIN_WATCH_MS && !unconfirmed.signal.aborted) this.#retry.reset();
      if (livedMs >= RELIST_RESET_MS) this.#relistRetry.reset();
    }
    if (!signal.aborted && clock.monotonic() - openedAt < MIN_WATCH_MS) throw endedAtOnce();
  }

  #openWatch(resourceVersion: string, seconds: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const { client, path, query, idleLimitMs = WATCH_IDLE_LIMIT_MS } = this.#options;
    const watch = { watch: 'true', allowWatchBookmarks: 'true', resourceVersion, timeoutSeconds: String(seconds) };
    const timeoutMs = Math.min(OPEN_LIMIT_MS, idleLimitMs);
    return client.stream({ method: 'GET', path, query: { ...query, ...watch }, timeoutMs, signal });
  }

  /** Reads a name that nothing has: a consistent read, after which bookmarks can be sent. */
  async #askForProgress(signal: AbortSignal): Promise<void> {
    const { client, clock, path, query } = this.#options;
    const openedAt = clock.monotonic();
    try {
      await clock.sleep(PROGRESS_AFTER_MS, signal);
      if (this.#lastActivity > openedAt || this.#isSilent) return;
      const fieldSelector = [query?.fieldSelector, NO_NAME].filter((selector) => selector !== undefined).join(',');
      await client.request({ method: 'GET', path, query: { ...query, fieldSelector }, signal });
    } catch {
      // If the watch stays silent, a catch-up finds out why.
    }
  }

  /** Calls `onFailure` when the watch is silent and a catch-up does not show that it is complete. */
  async #checkWhenSilent(signal: AbortSignal, onFailure: (reason: unknown) => void): Promise<void> {
    const { clock, idleLimitMs = WATCH_IDLE_LIMIT_MS } = this.#options;
    try {
      // What a watch has missed while it was closed arrives right after it was opened.
      await clock.sleep(MIN_WATCH_MS, signal);
      for (;;) {
        if (this.#isSilent) await this.#catchUp(signal);
        await clock.sleep(Math.max(0, idleLimitMs - this.idleForMs()), signal);
      }
    } catch (error) {
      if (!signal.aborted) onFailure(error);
    }
  }

  /** Throws when the watch has missed a change, and when the server cannot show that it has not. */
  async #catchUp(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const startedAt = clock.monotonic();
    const limit = new AbortController();
    const late = new Error(`the watch was silent, and a second one did not end within ${WATCH_CATCH_UP_LIMIT_MS} ms`);
    const cancel = clock.after(WATCH_CATCH_UP_LIMIT_MS, () => limit.abort(late));
    try {
      const isMissed = await this.#hasChanges(AbortSignal.any([signal, limit.signal]));
      if (this.#lastActivity >= startedAt) return;
      if (isMissed) throw new Error('the watch was silent although there was a change');
      if (clock.monotonic() - startedAt < MIN_WATCH_MS) throw endedAtOnce();
      this.#lastActivity = startedAt;
    } finally {
      cancel();
    }
  }

  /** Whether there are changes after the last resourceVersion, by a watch that the server ends. */
  async #hasChanges(signal: AbortSignal): Promise<boolean> {
    let changes = 0;
    const stream = await this.#openWatch(this.#resourceVersion ?? '', CATCH_UP_SECONDS, signal);
    for await (const line of jsonLines(stream)) if (readEvent(line).type !== 'BOOKMARK') changes += 1;
    return changes > 0;
  }

  get #isSilent(): boolean {
    return this.idleForMs() >= (this.#options.idleLimitMs ?? WATCH_IDLE_LIMIT_MS);
  }

  #recordActivity(): void {
    this.#lastActivity = this.#options.clock.monotonic();
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

function watchSeconds(): number {
  return Math.round(WATCH_SECONDS * (1 + Math.random()));
}

function endedAtOnce(): Error {
  return new Error('the watch ended right after it was opened');
}

/** What the server asks for, within bounds, and at least `ownMs`. */
export function retryDelayMs(error: unknown, ownMs: number): number {
  const asked = error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0;
  return Math.max(Math.min(asked, MAX_RETRY_AFTER_MS), ownMs);
}
