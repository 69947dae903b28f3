/**
 * Keeps a collection in memory while it is shown: lists it, then watches it for a minute at a time.
 *
 *     list --> watch --ended--> watch from the last resourceVersion
 *              watch --410 Gone, or any other failure--> wait, list again
 *
 * A list and a watch that ends as asked confirm that the collection is current; so a connection that is silently gone is
 * found within WATCH_SECONDS and GRACE_MS. Until a failed request succeeds again, what is shown is stale since it failed.
 */
import type { KubernetesObject } from '@brupop/shared/api/meta';
import { hasStatus } from '@brupop/shared/kube/error';
import { readList } from '@brupop/shared/kube/list';
import { Store } from '@brupop/shared/kube/store';
import { jsonLines, readEvent } from '@brupop/shared/kube/watch-protocol';
import { delayAfter } from '@brupop/shared/runtime/backoff';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { Client } from './client.ts';

const WATCH_SECONDS = 60;
const GRACE_MS = 15_000;
/** Between two watches, also if a proxy ends each at once. */
const PAUSE_MS = 500;
const RETRY = { baseMs: 1_000, capMs: 30_000 };
const GONE = 410;

export interface Stale {
  /** Epoch milliseconds. */
  readonly since: number;
  readonly problem: unknown;
}

export interface FollowOptions<T> {
  readonly client: Pick<Client, 'request' | 'stream'>;
  readonly clock: Clock;
  readonly path: string;
  readonly slim: (raw: unknown) => T;
  /** Called after each change of what is shown. */
  readonly onChange: () => void;
}

export class Followed<T extends KubernetesObject> {
  readonly #options: FollowOptions<T>;
  readonly #objects = new Store<T>();
  #resourceVersion: string | undefined;
  #stale: Stale | undefined;
  #isListed = false;
  /** Since a watch was open. */
  #failures = 0;

  constructor(options: FollowOptions<T>) {
    this.#options = options;
  }

  get stale(): Stale | undefined {
    return this.#stale;
  }

  get isListed(): boolean {
    return this.#isListed;
  }

  list(): readonly T[] {
    return this.#objects.list();
  }

  /** Until the signal aborts. Throws when the first list fails; later failures are retried with backoff. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    while (!signal.aborted) {
      try {
        if (this.#resourceVersion === undefined) await this.#list(signal);
        await this.#watch(signal);
        await clock.sleep(PAUSE_MS, signal).catch(() => undefined);
      } catch (error) {
        if (signal.aborted) return;
        if (!this.#isListed) throw error;
        this.#resourceVersion = undefined;
        if (hasStatus(error, GONE)) continue;
        this.#failed(error);
        this.#failures += 1;
        await clock.sleep(delayAfter(this.#failures, RETRY), signal).catch(() => undefined);
      }
    }
  }

  async #list(signal: AbortSignal): Promise<void> {
    const { client, path, slim } = this.#options;
    const { items, resourceVersion } = await readList(client, { path, slim, signal });
    this.#objects.replace(items);
    this.#resourceVersion = resourceVersion;
    this.#isListed = true;
    this.#stale = undefined;
    this.#options.onChange();
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const { client, path, slim, onChange } = this.#options;
    const query = {
      watch: 'true',
      allowWatchBookmarks: 'true',
      timeoutSeconds: String(WATCH_SECONDS),
      resourceVersion: this.#resourceVersion ?? '',
    };
    const timeoutMs = WATCH_SECONDS * 1000 + GRACE_MS;
    const chunks = await client.stream({ method: 'GET', path, query, signal, timeoutMs });
    this.#failures = 0;
    for await (const line of jsonLines(chunks)) {
      const { type, object } = readEvent(line);
      this.#resourceVersion = object.metadata.resourceVersion;
      if (type === 'BOOKMARK') continue;
      if (type === 'DELETED') this.#objects.remove(object);
      else this.#objects.set(slim(object));
      onChange();
    }
  }

  #failed(problem: unknown): void {
    this.#stale = { since: this.#stale?.since ?? this.#options.clock.now(), problem };
    this.#options.onChange();
  }
}

/** The older of two. */
export function olderOf(a: Stale | undefined, b: Stale | undefined): Stale | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a.since <= b.since ? a : b;
}

/** In one line. */
export function staleText({ problem }: Stale): string {
  return messageOf(problem).split('\n', 1)[0] ?? '';
}
