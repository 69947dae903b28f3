/**
 * Keeps a collection of the Kubernetes API in memory: lists it in pages, then watches it.
 *
 *     list --> watch --ended or failed--> watch from the last resourceVersion --410 Gone--> list
 *
 * The store has what the list returned, and then each event in order. It goes back in time only with
 * etcd. Every failure is logged and retried with backoff; only 410 and a revision that went back
 * require a new list. `idleForMs` is the time since the store was last confirmed to be current: by the
 * last page of a list, a whole event of the watch, a bookmark, or a check of the watch. The headers of
 * a watch confirm nothing.
 *
 * A collection without changes has no events. It has no bookmarks while kube-apiserver knows no
 * revision after the one from which the watch started: etcd reports one every 10 minutes. Therefore
 *
 * - a watch that has received nothing right after its start makes kube-apiserver ask etcd, with one
 *   small read. Bookmarks follow every minute until the watch ends. A kube-apiserver that is cut off from etcd sends them as
 *   well, so those that repeat one resourceVersion for longer than etcd takes to report a newer one confirm nothing;
 * - a watch that is silent for the idle limit is checked with a second, short watch from the same
 *   resourceVersion, and with the same read. If both end in time without an event, the store is
 *   current; otherwise the silent watch is reopened.
 *
 * After etcd was restored from a backup, its revision may be lower than the resourceVersion of a
 * watch. kube-apiserver accepts such a watch and sends it nothing until the revision is higher again.
 * The read shows the revision, so the collection is listed again.
 */
import { WATCH_CATCH_UP_LIMIT_MS, WATCH_IDLE_LIMIT_MS } from '../api/deadlines.ts';
import type { KubernetesObject } from '../api/meta.ts';
import { unlessAborted } from '../runtime/abort.ts';
import { type Backoff, backoff } from '../runtime/backoff.ts';
import type { Clock } from '../runtime/clock.ts';
import { messageOf } from '../runtime/errors.ts';
import { type Logger, RetriedProblem } from '../runtime/log.ts';
import type { KubeClient } from './client.ts';
import { hasStatus, isTransient, kindOf, KubeError } from './error.ts';
import { type List, readList } from './list.ts';
import { type Listener, Store, type StoreLimits } from './store.ts';
import { jsonLines, readEvent, readPage, type WatchEvent } from './watch-protocol.ts';

export type { Listener, ReflectorEvent, StoreLimits } from './store.ts';

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
  /**
   * For how long bookmarks that repeat one resourceVersion are confirmations. Default PROGRESS_LIMIT_MS; 0 for a collection
   * that changes all the time.
   */
  readonly progressLimitMs?: number;
  /** For each page of the list. Default 60 s. */
  readonly listLimitMs?: number;
  /** The list fails with more objects, or more characters of what is kept of them. */
  readonly maxItems?: number;
  readonly maxChars?: number;
  /** More objects are omitted; `overfull` names their namespaces. */
  readonly limits?: StoreLimits<T> | undefined;
  /** Called when a list or watch has failed and is retried. */
  readonly onRestart?: (name: string) => void;
}

const LIST_LIMIT_MS = 60_000;
/** Watches end after 30 to 60 minutes, so that they are spread over the API servers again. */
const WATCH_SECONDS = 1_800;
const OPEN_LIMIT_MS = 10_000;
/** By then the cluster has a newer revision: the Lease is renewed more often. */
const PROGRESS_AFTER_MS = 10_000;
const CATCH_UP_SECONDS = 2;
/** By default etcd reports its revision every 10 minutes, and the bookmark with it follows within a minute. */
const PROGRESS_LIMIT_MS = 720_000;
/** Shorter than client-go's 800 ms, to recover faster after a restart of the API server. */
const RETRY = { baseMs: 200, capMs: 30_000 };
/** Upper bounds for Retry-After, so that a watch does not become stale meanwhile. */
const MAX_RETRY_AFTER_MS = { list: 300_000, watch: 15_000 };
/** Proxies close idle connections after a while, and a restart of kube-apiserver closes all. */
const ORDINARY_CUT_MS = 10_000;
/** As client-go: a watch that ends sooner has failed. */
const MIN_WATCH_MS = 1_000;
/** As client-go: lists are expensive, so their backoff is reset only after this time without. */
const RELIST_RESET_MS = 120_000;
const GONE = 410;
/** RBAC takes the name that comes first in the alphabet, which has to be the one that a Role names. */
const NO_NAME = 'metadata.name=none';

/** No retry explains it: something between this process and the server swallows events. */
class MissedChange extends Error {
  override readonly name = 'MissedChange';
}

/** etcd was restored from a backup: no event is newer than the resourceVersion of the watch. */
class RevisionWentBack extends Error {
  override readonly name = 'RevisionWentBack';
}

/** Retries do not end a rejection, such as a missing right. */
function needsUser(error: unknown): boolean {
  return error instanceof KubeError ? !isTransient(error) : error instanceof MissedChange;
}

export class Reflector<T extends KubernetesObject> {
  readonly #options: ReflectorOptions<T>;
  readonly #store: Store<T>;
  readonly #retry: Backoff = backoff(RETRY);
  readonly #relistRetry: Backoff = backoff(RETRY);
  readonly #firstList = Promise.withResolvers<void>();
  readonly #problem: RetriedProblem;
  #synced = false;
  #resourceVersion: string | undefined;
  #lastActivity: number;
  /** When kube-apiserver last showed that it hears from etcd, monotonic milliseconds. */
  #lastProgress = -Infinity;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#store = new Store(options.limits);
    this.#problem = new RetriedProblem(options.clock);
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

  get overfull(): ReadonlySet<string> {
    return this.#store.overfull;
  }

  /** Calls `listener` for each change from now on. Returns a function that unsubscribes it. */
  subscribe(listener: Listener<T>): () => void {
    return this.#store.subscribe(listener);
  }

  /** Resolves when the first list is complete. Rejects with the signal's reason. */
  async waitSynced(signal: AbortSignal): Promise<void> {
    await unlessAborted(this.#firstList.promise, signal);
    if (!this.synced) throw signal.reason;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const isWatch = this.#resourceVersion !== undefined;
      try {
        if (this.#resourceVersion === undefined) this.replace(await this.readAll(signal));
        else await this.#watch(this.#resourceVersion, signal);
        // Objects may have been deleted since, so that there is space for those that were omitted.
        if (isWatch && this.#store.overfull.size > 0) this.#resourceVersion = undefined;
      } catch (error) {
        if (!signal.aborted) await this.#recover(error, signal);
      }
    }
  }

  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    const gone = hasStatus(error, GONE) || error instanceof RevisionWentBack;
    if (gone) this.#resourceVersion = undefined;
    const request = this.#resourceVersion === undefined ? 'list' : 'watch';
    const retryInMs = retryDelayMs(error, (gone ? this.#relistRetry : this.#retry).next(), request);
    const { log, clock, name, onRestart } = this.#options;
    onRestart?.(name);
    const level = this.#problem.levelOf(kindOf(error), { isLasting: needsUser(error) });
    log[level]('watch failed, reconnecting', { resource: name, error: messageOf(error), retryInMs });
    await clock.sleep(retryInMs, signal).catch(() => undefined);
  }

  /** Replaces the store. Before `run`, saves it the first list. */
  replace({ items, overfull, resourceVersion }: List<T>): void {
    this.#store.replace(items, overfull);
    this.#resourceVersion = resourceVersion;
    this.#synced = true;
    this.#recordActivity();
    this.#lastProgress = this.#lastActivity;
    this.#firstList.resolve();
  }

  /** Reads the collection from the API server and leaves the store as it is. Throws KubeError. */
  async readAll(signal: AbortSignal): Promise<List<T>> {
    const { limits, maxItems } = this.#options;
    if (limits !== undefined && maxItems === undefined) return await this.#readSome(limits, signal);
    return await this.#readList((raw) => this.#slim(raw), signal);
  }

  /** Of each page no more is kept than the store may have: otherwise all that anyone may write would be in memory at once. */
  async #readSome(limits: StoreLimits<T>, signal: AbortSignal): Promise<List<T>> {
    const kept = new Store<T>(limits);
    let read = 0;
    const keep = (raw: unknown): undefined => {
      const object = this.#slim(raw);
      if (object === undefined) return;
      read += 1;
      kept.set(object);
    };
    const { omitted, ...list } = await this.#readList(keep, signal);
    return { ...list, items: kept.list(), omitted: omitted - read, overfull: kept.overfull };
  }

  async #readList(slim: (raw: unknown) => T | undefined, signal: AbortSignal): Promise<List<T>> {
    const { client, path, query = {}, maxItems, maxChars, listLimitMs: timeoutMs = LIST_LIMIT_MS } = this.#options;
    return await readList(client, { path, query, slim, maxItems, maxChars, timeoutMs, signal });
  }

  async #watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const openedAt = clock.monotonic();
    const unconfirmed = new AbortController();
    const ended = new AbortController();
    try {
      const seconds = Math.round(WATCH_SECONDS * (1 + Math.random()));
      const stream = await this.#openWatch(resourceVersion, seconds, AbortSignal.any([signal, unconfirmed.signal]));
      const checks = AbortSignal.any([signal, ended.signal]);
      const onFailure = (reason: unknown): void => unconfirmed.abort(reason);
      void this.#askForProgress(checks, onFailure);
      void this.#checkWhenSilent(checks, onFailure);
      for await (const line of jsonLines(stream)) this.#receive(readEvent(line));
    } catch (error) {
      if (unconfirmed.signal.aborted) throw unconfirmed.signal.reason;
      if (!this.#isOrdinaryCut(error, openedAt, signal)) throw error;
    } finally {
      ended.abort();
      const livedMs = clock.monotonic() - openedAt;
      if (livedMs >= MIN_WATCH_MS && !unconfirmed.signal.aborted) this.#retry.reset();
      if (livedMs >= RELIST_RESET_MS) this.#relistRetry.reset();
    }
    if (!signal.aborted && clock.monotonic() - openedAt < MIN_WATCH_MS) throw endedAtOnce();
  }

  /** True if the connection was open for a while before it ended, which needs no warning. */
  #isOrdinaryCut(error: unknown, openedAt: number, signal: AbortSignal): boolean {
    const { clock, log, name } = this.#options;
    if (signal.aborted) return false;
    const isOrdinary = !(error instanceof KubeError) && clock.monotonic() - openedAt >= ORDINARY_CUT_MS;
    if (isOrdinary) log.debug('watch was closed, reconnecting', { resource: name, error: messageOf(error) });
    return isOrdinary;
  }

  #openWatch(resourceVersion: string, seconds: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const { client, path, query, idleLimitMs = WATCH_IDLE_LIMIT_MS } = this.#options;
    const watch = { watch: 'true', allowWatchBookmarks: 'true', resourceVersion, timeoutSeconds: String(seconds) };
    const timeoutMs = Math.min(OPEN_LIMIT_MS, idleLimitMs);
    return client.stream({ method: 'GET', path, query: { ...query, ...watch }, timeoutMs, signal });
  }

  /** Calls `onFailure` if the new watch is silent and the revision of etcd went back. */
  async #askForProgress(signal: AbortSignal, onFailure: (reason: unknown) => void): Promise<void> {
    const { clock } = this.#options;
    const openedAt = clock.monotonic();
    try {
      await clock.sleep(PROGRESS_AFTER_MS, signal);
      if (this.#lastActivity <= openedAt && !this.#isSilent) await this.#readRevision(signal);
    } catch (error) {
      // After any other error the watch is checked if it stays silent.
      if (error instanceof RevisionWentBack) onFailure(error);
    }
  }

  /**
   * Lists a name that does not exist: a consistent read, after which bookmarks can be sent.
   * Throws RevisionWentBack if its revision is lower than the last resourceVersion.
   */
  async #readRevision(signal: AbortSignal): Promise<void> {
    const { client, path, query } = this.#options;
    // Events that arrive meanwhile may be newer than the response.
    const known = this.#resourceVersion;
    const fieldSelector = [query?.fieldSelector, NO_NAME].filter((selector) => selector !== undefined).join(',');
    const answer = await client.request({ method: 'GET', path, query: { ...query, fieldSelector }, signal });
    if (isLower(readPage(answer).resourceVersion, known))
      throw new RevisionWentBack('the revision of etcd went back, as when it is restored from a backup');
  }

  /** Calls `onFailure` if the watch is silent and its check fails. */
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

  /** Throws if the watch has missed a change or can get none, or the server does not end the check in time. */
  async #catchUp(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const startedAt = clock.monotonic();
    const limit = new AbortController();
    const late = new Error(
      `the watch was silent, and its check did not finish within ${WATCH_CATCH_UP_LIMIT_MS / 1000} s`,
    );
    const cancel = clock.after(WATCH_CATCH_UP_LIMIT_MS, () => limit.abort(late));
    try {
      const inTime = AbortSignal.any([signal, limit.signal]);
      const isMissed = await this.#hasChanges(inTime);
      if (this.#lastActivity >= startedAt) return;
      if (isMissed) throw new MissedChange('the watch missed a change');
      if (clock.monotonic() - startedAt < MIN_WATCH_MS) throw endedAtOnce();
      await this.#readRevision(inTime);
      this.#lastActivity = Math.max(startedAt, this.#lastActivity);
      this.#lastProgress = this.#lastActivity;
    } finally {
      cancel();
    }
  }

  /** Returns true if there are changes after the last resourceVersion; uses a watch that the server ends. */
  async #hasChanges(signal: AbortSignal): Promise<boolean> {
    let changes = 0;
    const stream = await this.#openWatch(this.#resourceVersion ?? '', CATCH_UP_SECONDS, signal);
    for await (const line of jsonLines(stream)) if (readEvent(line).type !== 'BOOKMARK') changes += 1;
    return changes > 0;
  }

  get #isSilent(): boolean {
    return this.idleForMs() >= (this.#options.idleLimitMs ?? WATCH_IDLE_LIMIT_MS);
  }

  #receive(event: WatchEvent): void {
    const isConfirmation = this.#isConfirmation(event);
    this.#apply(event);
    if (isConfirmation) this.#recordActivity();
  }

  #isConfirmation({ type, object }: WatchEvent): boolean {
    const { clock, progressLimitMs = PROGRESS_LIMIT_MS } = this.#options;
    const now = clock.monotonic();
    if (type !== 'BOOKMARK' || object.metadata.resourceVersion !== this.#resourceVersion) this.#lastProgress = now;
    return now - this.#lastProgress <= progressLimitMs;
  }

  #recordActivity(): void {
    this.#lastActivity = this.#options.clock.monotonic();
    if (this.#problem.ended()) this.#options.log.info('watch works again', { resource: this.#options.name });
  }

  #apply({ type, object: raw }: WatchEvent): void {
    this.#resourceVersion = raw.metadata.resourceVersion;
    if (type === 'BOOKMARK') return;
    // The store knows an object by what `slim` leaves of its metadata.
    const object = this.#slim(raw);
    if (type === 'DELETED' || object === undefined) this.#store.remove(object ?? raw);
    else this.#store.set(object);
  }

  /** An object that cannot be read is left out, because its former state is outdated. */
  #slim(raw: unknown): T | undefined {
    const { slim, log, name } = this.#options;
    try {
      return slim(raw);
    } catch (error) {
      const object = nameOf(raw);
      log.error('ignoring an object that cannot be read', { resource: name, object, error: messageOf(error) });
      return undefined;
    }
  }
}

/** `namespace/name`, as far as the object has them. */
function nameOf(raw: unknown): string {
  const { namespace = '', name = '' } = (raw as Partial<KubernetesObject> | null)?.metadata ?? {};
  return `${namespace}/${name}`;
}

/** Of two versions that are numbers, which those of Kubernetes are. */
function isLower(version: string, than = ''): boolean {
  return [version, than].every((text) => /^\d+$/u.test(text)) && BigInt(version) < BigInt(than);
}

function endedAtOnce(): Error {
  return new Error('the watch ended right after it was opened');
}

/** Returns Retry-After within bounds, and at least `ownMs`. */
export function retryDelayMs(error: unknown, ownMs: number, request: keyof typeof MAX_RETRY_AFTER_MS): number {
  const asked = error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0;
  return Math.max(Math.min(asked, MAX_RETRY_AFTER_MS[request]), ownMs);
}
