import { Registry } from 'prom-client';
import { type KubeClient, KubeError } from '@brupop/shared/kube/client';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { recordingLogger } from '../../../test/framework/recording-logger.ts';
import { createKey } from './apply/shadows.ts';
import { Writer } from './apply/writer.ts';
import type { Cluster } from './cluster/cluster.ts';
import { Controller, failuresOf, gapAfter, stalled } from './controller.ts';
import { createMetrics } from './metrics.ts';

const MINUTE = 60_000;
const cases: Record<string, [number, number, boolean]> = {
  'a loop that waits for changes does not hang, however long nothing was written': [0, Infinity, false],
  'a short reconcile does not hang': [MINUTE, Infinity, false],
  'a long reconcile in which writes end does not hang': [30 * MINUTE, MINUTE, false],
  'a long reconcile without writes hangs': [3 * MINUTE, Infinity, true],
  'a long reconcile whose writes have ceased hangs': [30 * MINUTE, 3 * MINUTE, true],
};
test.each(Object.entries(cases))('%s', (_, [runningForMs, sinceWriteMs, hangs]) => {
  expect(stalled(runningForMs, sinceWriteMs) !== undefined).toBe(hangs);
});

test.each([
  ['a small fleet', 5, 0, 50],
  ['a large fleet, nine times as long as its plan took', 40, 0, 360],
  ['a large fleet, but not for as long as was written', 40, 300, 60],
  ['what was written for long, only a moment', 40, 2_000, 50],
  ['a plan that took very long, but not for longer than half a second', 3_000, 0, 500],
])('the next reconcile waits for %s', (_, plannedForMs, sincePlanMs, gapMs) =>
  expect(gapAfter(plannedForMs, sincePlanMs, undefined)).toBe(gapMs),
);

test('the next reconcile follows soon when there is more to write', () => expect(gapAfter(60, 0, 0)).toBe(50));

/** A new leader whose first lists fail with `failure` until it is undefined. */
function lead(first: KubeError) {
  const clock = new FakeClock();
  const { log, lines } = recordingLogger();
  const metrics = createMetrics(new Registry());
  const seen = { failure: first as KubeError | undefined, lists: 0, plans: 0, hasEnded: false };
  const clear = { retain: () => undefined, clear: () => undefined };
  const cluster = {
    lookups: clear,
    checks: clear,
    allPods: clear,
    members: clear,
    onChange: () => () => undefined,
    catchUp: async () => {
      seen.lists += 1;
      if (seen.failure !== undefined) throw seen.failure;
      return undefined;
    },
    snapshot: () => {
      seen.plans += 1;
      throw new Error('this test plans nothing');
    },
  } as unknown as Cluster;
  const names = { namespace: 'brupop', agentNamespace: 'brupop', podName: 'controller-a' };
  const client = {} as KubeClient;
  const controller = new Controller({ ...names, client, clock, log, cluster, metrics, isLeading: () => true });
  const stop = new AbortController();
  const running = controller.run(stop.signal).finally(() => {
    seen.hasEnded = true;
  });
  const end = async (): Promise<void> => {
    stop.abort(new Error('the Lease is held by another'));
    await clock.advance(0);
    await running;
  };
  const levels = (): unknown[] => lines.map((line) => (JSON.parse(line) as { level: string }).level);
  return { seen, clock, controller, levels, end, isLeader: async () => (await metrics.leader.get()).values[0]?.value };
}

it('a leader whose first lists fail keeps the Lease, lists again as Retry-After asks, and plans nothing', async () => {
  const asked = new KubeError(429, 'TooManyRequests', 'GET shadows: 429', { retryAfterMs: 45_000 });
  const { seen, clock, controller, levels, end, isLeader } = lead(asked);
  await clock.advance(44_000);
  expect(seen).toEqual({ failure: asked, lists: 1, plans: 0, hasEnded: false });
  await clock.advance(5 * MINUTE);
  expect(seen).toMatchObject({ lists: 8, plans: 0, hasEnded: false });
  expect(levels().filter((level) => level !== 'debug')).toEqual(['info', 'warn']);
  expect(controller.stalled()).toBeUndefined();
  expect(await isLeader()).not.toBe(1);
  seen.failure = undefined;
  await clock.advance(45_000);
  expect(seen).toMatchObject({ lists: 9, hasEnded: false });
  expect(seen.plans).toBeGreaterThan(0);
  expect(await isLeader()).toBe(1);
  await end();
});

it('a leader whose first lists fail lists again with growing pauses, until it loses the Lease', async () => {
  const { seen, clock, end } = lead(new KubeError(500, 'InternalError', 'GET shadows: 500'));
  await clock.advance(10 * MINUTE);
  expect(seen.lists).toBeGreaterThan(20);
  expect(seen.lists).toBeLessThan(55);
  await end();
  expect(seen).toMatchObject({ plans: 0, hasEnded: true });
});

test('a shadow whose creation has failed for a minute, as with a webhook that is down, cannot be created', async () => {
  const clock = new FakeClock();
  const { log } = recordingLogger();
  const { signal } = new AbortController();
  const writer = new Writer({ clock, log, metrics: createMetrics(new Registry()), signal, isLeading: () => true });
  const found: (string | undefined)[] = [];
  for (let seconds = 0; seconds <= 120; seconds += 60) {
    await writer.create('shadow_create', createKey('a'), async () => {
      throw new KubeError(500, 'InternalError', 'failed calling webhook');
    });
    found.push(failuresOf(writer, 'a', undefined).writeRejection);
    await clock.advance(60_000);
  }
  expect(found).toEqual([undefined, 'failed calling webhook', 'failed calling webhook']);
});
