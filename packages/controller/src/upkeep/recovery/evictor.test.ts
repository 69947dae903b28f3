import { recordingLogger } from '../../../../../test/framework/recording-logger.ts';
import { KubeError, type KubeRequest } from '@brupop/shared/kube/client';
import { instantOf } from '@brupop/shared/runtime/clock';
import { createRegistry } from '@brupop/shared/runtime/metrics';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { createMetrics } from '../../metrics.ts';
import { choose, CLOSED, type Eviction, recovered, type RecoveryState } from './decide.ts';
import { RecoveryEvictor } from './evictor.ts';

const scope = { kind: 'Service', name: 'etcd' } as const;
const crashing = ['a', 'b', 'c'].map((uid): Eviction => {
  return { scope, pod: { uid, name: `pod-${uid}`, namespace: 'shop', node: 'node-1' }, listedAt: 0 };
});
const never = new AbortController().signal;

/** Evicts three recorded pods; `onRequest` is called before each response. Returns the requests and what is on record. */
async function run(
  mayEvict: () => boolean,
  onRequest: (clock: FakeClock) => Promise<void>,
  pods: readonly Eviction[] = crashing,
  signal = never,
) {
  const clock = new FakeClock();
  const requests: KubeRequest[] = [];
  const request = async <T>(one: KubeRequest): Promise<T> => {
    requests.push(one);
    await onRequest(clock);
    return {} as T;
  };
  const { log, lines } = recordingLogger();
  const metrics = createMetrics(createRegistry('test'));
  const evictor = new RecoveryEvictor({
    client: { request },
    clock,
    log,
    metrics,
    events: { record: () => undefined },
  });
  const open = recovered(CLOSED, scope, 300_000, clock.now());
  const { state, evictions } = choose(open, pods, 10, instantOf(clock));
  const after = await evictor.evict(state, evictions, mayEvict, signal);
  return { evictor, requests, lines, after, recorded: recordedIn(after), now: clock.now() };
}

const recordedIn = ({ recoveries: [one] }: RecoveryState): string[] => [...(one?.pods.keys() ?? [])];

it('each pod is evicted with its UID as a precondition', async () => {
  const { requests, lines, recorded } = await run(
    () => true,
    async () => undefined,
  );
  expect(requests.map(({ path }) => path)).toEqual(
    ['a', 'b', 'c'].map((uid) => `/api/v1/namespaces/shop/pods/pod-${uid}/eviction`),
  );
  expect(requests.map(({ body }) => body)).toMatchObject(
    ['a', 'b', 'c'].map((uid) => ({ kind: 'Eviction', deleteOptions: { preconditions: { uid } } })),
  );
  expect(recorded).toEqual(['a', 'b', 'c']);
  expect(lines.map((line) => (JSON.parse(line) as { node?: string }).node)).toEqual(['node-1', 'node-1', 'node-1']);
});

it('no further pod is evicted when an obstacle arises meanwhile, and they are no longer on record', async () => {
  let isLost = false;
  const { requests, recorded } = await run(
    () => !isLost,
    async () => {
      isLost = true;
    },
  );
  expect(requests).toHaveLength(1);
  expect(recorded).toEqual(['a']);
});

it('no further pod is evicted 15 s after the list began, and they are no longer on record', async () => {
  const { requests, recorded } = await run(
    () => true,
    async (clock) => await clock.advance(7_501),
  );
  expect(requests).toHaveLength(2);
  expect(recorded).toEqual(['a', 'b']);
});

it('a pod of an old list is left, and those of a newer one are evicted', async () => {
  const pods = crashing.map((one, index) => ({ ...one, listedAt: index === 0 ? -15_001 : 0 }));
  const { recorded } = await run(
    () => true,
    async () => undefined,
    pods,
  );
  expect(recorded).toEqual(['b', 'c']);
});

it('a pod whose budget refuses the eviction is no longer on record, and is requested again after ten seconds', async () => {
  const { after, recorded, now } = await run(
    () => true,
    async () => {
      throw new KubeError(429, 'TooManyRequests', 'the disruption budget needs 1 healthy pod');
    },
  );
  expect(recorded).toEqual([]);
  expect(choose(after, crashing, 10, { wall: now + 9_999, monotonic: 9_999 }).evictions).toEqual([]);
  expect(choose(after, crashing, 10, { wall: now + 10_000, monotonic: 10_000 }).evictions).toHaveLength(3);
});

it('a pod whose eviction got no response stays on record', async () => {
  const { recorded } = await run(
    () => true,
    async () => {
      throw new KubeError(0, 'Unreachable', 'no response');
    },
  );
  expect(recorded).toEqual(['a', 'b', 'c']);
});

it('a leader that stops does not wait for the response to an eviction, whose request goes on', async () => {
  const stop = new AbortController();
  const response = Promise.withResolvers<void>();
  const running = run(
    () => true,
    async () => await response.promise,
    crashing,
    stop.signal,
  );
  stop.abort(new Error('received SIGTERM'));
  const { evictor, requests, lines, recorded } = await running;
  expect(requests.map(({ signal }) => signal)).toEqual([undefined]);
  expect(recorded).toEqual(['a', 'b', 'c']);
  let isSettled = false;
  const settled = evictor.settled().then(() => (isSettled = true));
  await new Promise(setImmediate);
  expect([isSettled, lines]).toEqual([false, []]);
  response.resolve();
  await settled;
  expect(lines).toHaveLength(1);
});
