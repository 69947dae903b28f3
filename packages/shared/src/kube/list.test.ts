import fc from 'fast-check';
import type { KubernetesObject } from '../api/meta.ts';
import type { KubeClient, KubeRequest } from './client.ts';
import { KubeError } from './error.ts';
import { readList } from './list.ts';

const MIB = 1024 * 1024;

/** A collection of objects of one size or of several, which rejects a response as the client does. */
class Collection implements Pick<KubeClient, 'request'> {
  readonly queries: Readonly<Record<string, string>>[] = [];
  /** How many responses were rejected. */
  failed = 0;
  readonly #count: number;
  readonly #bytesOf: (index: number) => number;

  constructor(count: number, bytes: number | ((index: number) => number)) {
    this.#count = count;
    this.#bytesOf = typeof bytes === 'number' ? () => bytes : bytes;
  }

  async request<T>({ query = {}, maxBytes = 16 * MIB }: KubeRequest): Promise<T> {
    this.queries.push(query);
    const from = Number(query['continue'] ?? 0);
    const to = Math.min(this.#count, from + Number(query['limit'] ?? Infinity));
    const indexes = Array.from({ length: to - from }, (_, i) => from + i);
    if (indexes.reduce((sum, index) => sum + this.#bytesOf(index), 0) > maxBytes) {
      this.failed += 1;
      throw new KubeError(0, 'ResponseTooLarge', 'too large');
    }
    const items = indexes.map((index) => ({ metadata: { name: `o-${index}` } }));
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

it.each([
  [undefined, 'GET /things: expected at most 2 objects, found more'],
  ['spec.nodeName=a', 'GET /things?fieldSelector=spec.nodeName=a: expected at most 2 objects, found more'],
])('is rejected with more objects than expected, and named with its selector (%s)', async (selector, message) => {
  await expect(names(new Collection(3, 1_000), selector, 2)).rejects.toMatchObject({ message });
});

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

it('is read in pages of the usual size again after one large object', async () => {
  const collection = new Collection(10_000, (index) => (index === 700 ? 5 * MIB : 1_000));
  expect(await names(collection)).toHaveLength(10_000);
  expect(collection.queries.length).toBeLessThan(20 + 5 * 10);
  expect(collection.queries.at(-1)?.['limit']).toBe('500');
});

it('is read with at most one failed page for four other ones, and nine at the start, whatever the sizes', async () => {
  const sizes = fc.array(fc.constantFrom(1_000, MIB, 3 * MIB, 9 * MIB), { minLength: 1, maxLength: 50 });
  const run = fc.record({ sizes, repeats: fc.integer({ min: 1, max: 100 }) });
  await fc.assert(
    fc.asyncProperty(run, fc.constantFrom(undefined, 'spec.nodeName=a'), async (found, selector) => {
      const bytes = found.sizes.flatMap((size) => Array.from({ length: found.repeats }, () => size));
      const collection = new Collection(bytes.length, (index) => bytes[index] ?? 0);
      expect(await names(collection, selector)).toEqual(bytes.map((_, i) => `o-${i}`));
      const read = collection.queries.length - collection.failed;
      expect(collection.failed).toBeLessThanOrEqual(read / 4 + 9);
    }),
  );
});

it('fails when there are too many objects or an object is too large', async () => {
  await expect(names(new Collection(5_001, 1_000), 'spec.nodeName=a', 5_000)).rejects.toThrow('at most 5000 objects');
  await expect(names(new Collection(2, 17 * MIB))).rejects.toMatchObject({ reason: 'ResponseTooLarge' });
});
