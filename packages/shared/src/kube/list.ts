/**
 * Reads a whole collection with bounded memory. The client limits the size of each response; a page
 * that exceeds the limit is read again with half of the objects, down to one. After four pages in a
 * row that do not, the next one may have twice as many: one large object makes only the pages around
 * it small, and of many large ones no more than every fifth page is read for nothing. Each page is
 * reduced by `slim` before the next one is read.
 *
 * A list with a field selector, or one that is said to be narrow, has few objects, so it is first read in one request:
 * kube-apiserver up to 1.33 serves a list with a `limit` from etcd, where it reads all objects of the kind.
 */
import { getHeapStatistics } from 'node:v8';
import type { KubernetesObject } from '../api/meta.ts';
import type { Clock } from '../runtime/clock.ts';
import type { KubeClient, KubeRequest } from './client.ts';
import { isTooLarge, KubeError, TOO_LARGE } from './error.ts';
import { type ListPage, readPage } from './watch-protocol.ts';

interface ListOptions<T> extends Pick<KubeRequest, 'path' | 'query' | 'signal' | 'timeoutMs'> {
  /** Reduces a raw object to the fields kept; undefined omits the object. */
  readonly slim: (raw: unknown) => T | undefined;
  /** Few objects are expected. By default of a list with a field selector. */
  readonly isNarrow?: boolean;
  /** A collection with more objects is rejected. */
  readonly maxItems?: number | undefined;
  /** A collection of which more is kept, as JSON, is rejected. */
  readonly maxChars?: number | undefined;
}

/** The reduced objects of a collection, and the resourceVersion to watch from. */
export interface List<T> {
  readonly items: readonly T[];
  /** How many objects were omitted. */
  readonly omitted: number;
  /** The namespaces of which objects were omitted, since there are too many. */
  readonly overfull?: ReadonlySet<string>;
  readonly resourceVersion: string;
}

const PAGE_SIZE = 500;
/** The first page size for a list that is too large for one response. */
const SMALLER_PAGE_SIZE = 16;
const PAGES_BEFORE_LARGER = 4;
/** Of a page with several objects, since lists are read in parallel. */
const MAX_PAGE_BYTES = 4 * 1024 * 1024;

/** How much memory an object takes, about, of which anyone may decide the size. */
export function charsOf(object: unknown): number {
  return JSON.stringify(object).length;
}

/** How many characters may be kept of a kind that fills the heap with them, while others of it are still there. */
export function quarterOfHeap(): number {
  return getHeapStatistics().heap_size_limit / 4;
}

/** Throws KubeError, also `ResponseTooLarge` for a single object, or for more than `maxItems` or `maxChars`. */
export async function readList<T>(client: Pick<KubeClient, 'request'>, options: ListOptions<T>): Promise<List<T>> {
  const { slim, maxItems = Infinity, maxChars } = options;
  const sizes = new Sizes();
  const items: T[] = [];
  let read = 0;
  let resourceVersion = '';
  for await (const page of readPages(client, options)) {
    read += page.items.length;
    if (read > maxItems)
      throw new KubeError(0, TOO_LARGE, `${nameOf(options)}: expected at most ${maxItems} objects, found more`);
    const kept = page.items.map((raw) => slim(raw)).filter((object) => object !== undefined);
    items.push(...kept);
    if (maxChars !== undefined && sizes.add(kept) > maxChars) {
      const most = `most of them in the namespace "${sizes.largest()}"`;
      const message = `expected at most ${maxChars} characters, found more, ${most}`;
      throw new KubeError(0, TOO_LARGE, `${nameOf(options)}: ${message}`);
    }
    resourceVersion = page.resourceVersion;
  }
  return { items, omitted: read - items.length, resourceVersion };
}

/** Reads one list or several, with a signal that also aborts after `limitMs` milliseconds. */
export async function listWithin<T>(
  limitMs: number,
  clock: Pick<Clock, 'after'>,
  signal: AbortSignal,
  read: (limited: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = new AbortController();
  const tooLong = new KubeError(0, 'Timeout', `the list did not end within ${limitMs / 1000} s`);
  const cancel = clock.after(limitMs, () => limit.abort(tooLong));
  try {
    return await read(AbortSignal.any([signal, limit.signal]));
  } finally {
    cancel();
  }
}

/** With the selectors, since one list may be of a node, and another one of the cluster. */
function nameOf({ path, query = {} }: Pick<KubeRequest, 'path' | 'query'>): string {
  const { resourceVersion: _, ...selectors } = query;
  const parts = Object.entries(selectors).map(([key, value]) => `${key}=${value}`);
  return `GET ${path}${parts.length === 0 ? '' : `?${parts.join('&')}`}`;
}

/** How many characters the objects of each namespace have. */
export class Sizes {
  readonly #byNamespace = new Map<string, number>();
  #total = 0;

  /** Returns the total. */
  add(objects: readonly unknown[]): number {
    for (const object of objects) {
      const chars = charsOf(object);
      // Of an object, or of what is kept of one without its metadata.
      const { metadata, namespace = metadata?.namespace ?? '' } = object as Partial<KubernetesObject> & {
        readonly namespace?: string;
      };
      this.#total += chars;
      this.#byNamespace.set(namespace, (this.#byNamespace.get(namespace) ?? 0) + chars);
    }
    return this.#total;
  }

  /** The namespace that has most of them. */
  largest(): string {
    const [name = ''] = [...this.#byNamespace].toSorted(([, a], [, b]) => b - a)[0] ?? [];
    return name;
  }
}

async function* readPages(
  client: Pick<KubeClient, 'request'>,
  options: ListOptions<unknown>,
): AsyncGenerator<ListPage, void> {
  const { isNarrow = options.query?.['fieldSelector'] !== undefined } = options;
  let pageSize = isNarrow ? undefined : PAGE_SIZE;
  let next: string | undefined;
  /** Pages in a row that were not too large. */
  let fitted = 0;
  for (;;) {
    try {
      const page = await requestPage(client, options, pageSize, next);
      yield page;
      ({ next } = page);
      if (next === undefined) return;
      fitted += 1;
      if (fitted % PAGES_BEFORE_LARGER === 0) pageSize = larger(pageSize);
    } catch (error) {
      if (!isTooLarge(error) || pageSize === 1) throw error;
      fitted = 0;
      pageSize = smaller(pageSize);
    }
  }
}

function larger(pageSize: number | undefined): number | undefined {
  return pageSize === undefined ? undefined : Math.min(PAGE_SIZE, 2 * pageSize);
}

function smaller(pageSize: number | undefined): number {
  return pageSize === undefined ? SMALLER_PAGE_SIZE : Math.ceil(pageSize / 2);
}

async function requestPage(
  client: Pick<KubeClient, 'request'>,
  { path, query, signal, timeoutMs }: ListOptions<unknown>,
  pageSize: number | undefined,
  next: string | undefined,
): Promise<ListPage> {
  // A watch cache that is asked for any resourceVersion ignores the limit.
  const { resourceVersion: _, ...others } = query ?? {};
  const paged = { ...others, limit: String(pageSize), ...(next !== undefined && { continue: next }) };
  const answer = await client.request({
    method: 'GET',
    path,
    query: pageSize === undefined ? query : paged,
    signal,
    timeoutMs,
    maxBytes: pageSize === 1 ? undefined : MAX_PAGE_BYTES,
  });
  return readPage(answer);
}
