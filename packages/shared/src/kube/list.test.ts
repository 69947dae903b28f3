import type { KubernetesObject } from '../api/meta.ts';
import type { KubeClient, KubeRequest } from './client.ts';
import { KubeError } from './error.ts';
import { readList } from './list.ts';

const MIB = 1024 * 1024;

/** A collection of objects of one size, which rejects a response as the client does. */
class Collection implements Pick<KubeClient, 'request'> {
  readonly queries: Readonly<Record<string, string>>[] = [];
  readonly #count: number;
  readonly #bytes: number;

  constructor(count: number, bytes: number) {
    this.#count = count;
    this.#bytes = bytes;
  }

  async request<T>({ query = {}, maxBytes = 16 * MIB }: KubeRequest): Promise<T> {
    this.queries.push(query);
    const from = Number(query['continue'] ?? 0);
    const to = Math.min(this.#count, from + Number(query['limit'] ?? Infinity));
    if ((to - from) * this.#bytes > maxBytes) throw new KubeError(0, 'ResponseTooLarge', 'too large');
    const items = Array.from({ length: to - from }, (_, i) => ({ metadata: { name: `o-${from + i}` } }));
    return { items, metadata: { resourceVersion: '7', ...(to < this.#count && { continue: String(to) }) } } as T;
  }
}

const names = (collection: Collection, fieldSelector?: string, maxItems?: number): Promise<readonly string[]> =>
  readList(collection, {
    path: '/things',
    query: { ...(fieldSelector !== undefined && { fieldSelector, resourceVersion: '0' }) },
    slim: (raw) => (raw as KubernetesObject).metadata.name,
    ...(maxItems !== undefined && { maxItems }),
  }).then(({ items }) => items);

it('is read in pages', async () => {
  const collection = new Collection(1_200, 1_000);
  expect(await names(collection)).toHaveLength(1_200);
  expect(collection.queries.map(({ limit }) => limit)).toEqual(['500', '500', '500']);
});

it('is read in one request from the watch cache when it has a field selector', async () => {
  const collection = new Collection(110, 10_000);
  expect(await names(collection, 'spec.nodeName=a')).toHaveLength(110);
  expect(collection.queries).toEqual([{ fieldSelector: 'spec.nodeName=a', resourceVersion: '0' }]);
});

it.each([undefined, 'spec.nodeName=a'])(
  'is complete when objects are as large as they can be (%s)',
  async (selector) => {
    for (const bytes of [MIB, 9 * MIB]) {
      const collection = new Collection(300, bytes);
      const found = await names(collection, selector);
      expect(found).toEqual(Array.from({ length: 300 }, (_, i) => `o-${i}`));
      expect(collection.queries.slice(1).some((query) => 'resourceVersion' in query)).toBe(false);
    }
  },
);

it('fails when there are too many objects or an object is too large', async () => {
  await expect(names(new Collection(5_001, 1_000), 'spec.nodeName=a', 5_000)).rejects.toThrow('at most 5000 objects');
  await expect(names(new Collection(2, 17 * MIB))).rejects.toMatchObject({ reason: 'ResponseTooLarge' });
});
