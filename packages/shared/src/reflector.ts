import type { Backoff } from './backoff.ts';
import { backoff } from './backoff.ts';
import type { Clock } from './clock.ts';
import { messageOf } from './errors.ts';
import { jsonLines } from './json-lines.ts';
import type { KubeClient } from './kube.ts';
import { KubeError, hasStatus } from './kube-error.ts';
import type { KubernetesObject } from './kubernetes-types.ts';
import type { Logger } from './log.ts';
import { Store } from './store.ts';
import type { Listener } from './store.ts';

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
}

interface List {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly unknown[];
}

interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: KubernetesObject & { readonly code?: number; readonly reason?: string; readonly message?: string };
}

const PAGE_SIZE = '500';
const LIST_LIMIT_MS = 60_000;
/** As client-go: a watch is asked to end after 5 to 10 minutes, so that connections spread over API servers again. */
const WATCH_SECONDS = 300;
/** client-go's reflector backs off from 800 ms; a shorter start hands over faster after a restart. */
const RETRY = { baseMs: 200, capMs: 30_000 };
/** A server that asks for more patience than that is not obeyed: a cache must not stand still for hours. */
const LONGEST_ASKED_MS = 300_000;
/** A watch that lived so long was a good one. */
const GOOD_WATCH_MS = 5_000;
const GONE = 410;

/** Keeps a collection of the Kubernetes API in memory: list, then watch, for ever. The only place that opens a watch. */
export class Reflector<T extends KubernetesObject> {
  readonly #options: ReflectorOptions<T>;
  readonly #store = new Store<T>();
  readonly #retry: Backoff = backoff(RETRY);
  #resourceVersion: string | undefined;
  #synced = false;
  readonly #syncWaiters = new Set<() => void>();
  #heardAt: number;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#heardAt = options.clock.monotonic();
  }

  /** True once the first list is complete. */
  get synced(): boolean {
    return this.#synced;
  }

  /** Milliseconds since the API server was last heard on the list or watch. */
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
    if (hasStatus(error, GONE)) this.#resourceVersion = undefined;
    const delay = retryDelayMs(error, this.#retry.next());
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
      const page: List = await this.#options.client.request<List>({
        method: 'GET',
        path: this.#options.path,
        query: { ...this.#options.query, limit: PAGE_SIZE, ...(token !== undefined && { continue: token }) },
        timeoutMs: LIST_LIMIT_MS,
        signal,
      });
      this.#heard();
      for (const raw of page.items) this.#slim(raw, (object) => items.push(object));
      resourceVersion = page.metadata.resourceVersion;
      token = page.metadata.continue;
    } while (token !== undefined && token !== '');
    return { items, resourceVersion };
  }

  async #watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const openedAt = this.#options.clock.monotonic();
    const stream = await this.#options.client.stream({
      method: 'GET',
      path: this.#options.path,
      query: {
        ...this.#options.query,
        watch: 'true',
        allowWatchBookmarks: 'true',
        resourceVersion,
        timeoutSeconds: String(Math.round(WATCH_SECONDS * (1 + Math.random()))),
      },
      signal,
    });
    this.#heard();
    for await (const event of jsonLines(stream, () => this.#heard())) this.#apply(event as WatchEvent);
    if (signal.aborted) return;
    if (this.#options.clock.monotonic() - openedAt < GOOD_WATCH_MS)
      throw new Error('the watch ended right after it was opened');
    this.#retry.reset();
  }

  #apply({ type, object }: WatchEvent): void {
    if (type === 'ERROR') {
      throw new KubeError(
        object.code ?? 0,
        object.reason ?? 'Unknown',
        `the watch reported: ${object.message ?? 'an error'}`,
      );
    }
    if (type === 'DELETED') this.#store.remove(object);
    else if (type !== 'BOOKMARK') this.#slim(object, (slim) => this.#store.set(slim));
    this.#resourceVersion = object.metadata.resourceVersion;
    this.#retry.reset();
  }

  #slim(raw: unknown, keep: (object: T) => void): void {
    let object: T;
    try {
      object = this.#options.slim(raw);
    } catch (error) {
      this.#options.log.error('an object cannot be read and is left out', {
        resource: this.#options.name,
        error: messageOf(error),
      });
      return;
    }
    keep(object);
  }

  #heard(): void {
    this.#heardAt = this.#options.clock.monotonic();
  }
}

/** How long to wait after `error`, milliseconds: as long as the server asks, within reason, and at least `ownMs`. */
export function retryDelayMs(error: unknown, ownMs: number): number {
  const asked = error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0;
  return Math.max(Math.min(asked, LONGEST_ASKED_MS), ownMs);
}
