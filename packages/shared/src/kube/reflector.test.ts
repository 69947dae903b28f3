import { WATCH_STALE_MS } from '../api/deadlines.ts';
import { recordingLogger } from '../../../../test/framework/recording-logger.ts';
import type { KubernetesObject } from '../api/meta.ts';
import { FakeClock } from '../testing/fake-clock.ts';
import type { KubeRequest } from './client.ts';
import { KubeError } from './error.ts';
import { Reflector, retryDelayMs } from './reflector.ts';

const asks = (retryAfterMs: number): KubeError => new KubeError(429, 'TooManyRequests', 'later', { retryAfterMs });

const cases: Record<string, [unknown, number]> = {
  'an error that asks for nothing is tried again after the own backoff': [new Error('reset'), 800],
  'a server that asks for more is obeyed': [asks(10_000), 10_000],
  'a server that asks for less gets the own backoff': [asks(1), 800],
  'a server that asks for a day is not obeyed for more than 5 minutes': [asks(86_400_000), 300_000],
};
test.each(Object.entries(cases))('%s', (_, [error, expected]) =>
  expect(retryDelayMs(error, 800, 'list')).toBe(expected),
);

test('a watch is reopened before it is stale, whatever Retry-After the server sends', () => {
  expect(retryDelayMs(asks(86_400_000), 800, 'watch')).toBeLessThan(WATCH_STALE_MS / 4);
});

test('a list of what anyone may write keeps of each page no more than the store may have', async () => {
  const PAGES = 40;
  const page = (index: number): unknown => ({
    metadata: { resourceVersion: '7', ...(index < PAGES && { continue: `${index + 1}` }) },
    items: Array.from({ length: 500 }, (_, i) => ({
      metadata: { name: `${index}-${i}`, namespace: 'crowded', uid: `${index}-${i}`, resourceVersion: '1' },
    })),
  });
  const last = { metadata: { name: 'own', namespace: 'other', uid: 'own', resourceVersion: '1' } };
  const request = <T>({ query = {} }: KubeRequest): Promise<T> => {
    const index = Number(query['continue'] ?? 1);
    const found = page(index) as { items: unknown[] };
    return Promise.resolve((index === PAGES ? { ...found, items: [...found.items, last] } : found) as T);
  };
  const reflector = new Reflector<KubernetesObject>({
    client: { request, stream: () => Promise.reject(new Error('no watch')) },
    clock: new FakeClock(),
    log: recordingLogger().log,
    name: 'budgets',
    path: '/budgets',
    slim: (raw) => raw as KubernetesObject,
    limits: { maxPerNamespace: 100, maxTotal: 1_000 },
  });
  const list = await reflector.readAll(new AbortController().signal);
  expect(list.items).toHaveLength(101);
  expect([list.omitted, [...(list.overfull ?? [])]]).toEqual([0, ['crowded']]);
  reflector.replace(list);
  expect([reflector.list().length, [...reflector.overfull]]).toEqual([101, ['crowded']]);
});
