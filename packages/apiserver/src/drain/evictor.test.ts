/** The requests of a drain pass while those of others wait for their responses. */
import type { KubeRequest } from '@brupop/shared/kube/client';
import { RetriedProblem } from '@brupop/shared/runtime/log';
import { TokenBucket } from '@brupop/shared/runtime/token-bucket';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { aPod } from '@brupop/shared/testing/pods';
import { Semaphore } from '../http/limits.ts';
import type { PassContext } from './context.ts';
import { Evictor } from './evictor.ts';

const clock = new FakeClock();
const rateLimit = new TokenBucket(clock, { perSecond: 100, burst: 100 });

const always = (): boolean => true;

function evictorOf(request: (request: KubeRequest) => Promise<unknown>, slots = new Semaphore(50)): Evictor {
  const context = {
    client: { request },
    log: { info: () => undefined, debug: () => undefined },
    metrics: { evictions: { inc: () => undefined } },
    settings: {},
    shadow: { metadata: {} },
    signal: new AbortController().signal,
  } as unknown as PassContext;
  return new Evictor(context, rateLimit, slots, new RetriedProblem(clock));
}

it('requests no eviction while those of all drains wait for as many responses as they may', async () => {
  const { promise, resolve } = Promise.withResolvers<object>();
  const paths: string[] = [];
  const request = ({ path }: KubeRequest): Promise<unknown> => (paths.push(path), promise);
  const slots = new Semaphore(1);
  const first = evictorOf(request, slots).evict(aPod('a'), false, always);
  const second = evictorOf(request, slots).evict(aPod('b'), false, always);
  expect(await second).toMatchObject({ kind: 'blocked', block: { reason: 'Throttled' } });
  resolve({});
  expect(await first).toEqual({ kind: 'accepted' });
  expect(paths).toEqual(['/api/v1/namespaces/apps/pods/a/eviction']);
});

it('requests no eviction when the drain ends while it waits for the rate limit', async () => {
  for (let taken = 0; taken < 300; taken += 1) rateLimit.reserve();
  const paths: string[] = [];
  let isOver = false;
  const evictor = evictorOf(async ({ path }) => paths.push(path));
  const outcome = evictor.evict(aPod('a'), false, () => !isOver);
  await clock.advance(1_000);
  isOver = true;
  await clock.advance(5_000);
  expect(await outcome).toMatchObject({ kind: 'blocked' });
  expect(paths).toEqual([]);
});

it('lists the budgets of ten namespaces at a time', async () => {
  let open = 0;
  let most = 0;
  const request = async (): Promise<unknown> => {
    open += 1;
    most = Math.max(most, open);
    await new Promise(setImmediate);
    open -= 1;
    return { items: [], metadata: { resourceVersion: '1' } };
  };
  const pods = Array.from({ length: 30 }, (_, n) => {
    const pod = aPod(`a${n}`);
    return { ...pod, metadata: { ...pod.metadata, namespace: `n${n}` } };
  });
  expect((await evictorOf(request).budgetsFor(pods)).size).toBe(30);
  expect(most).toBe(10);
});
