import { Registry } from 'prom-client';
import { KubeError } from '@brupop/shared/kube/error';
import { createLogger } from '@brupop/shared/runtime/log';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { createMetrics } from '../metrics.ts';
import { forEachOf, NotLeading, Writer } from './writer.ts';

function setUp(): { writes: Writer; clock: FakeClock; leading: { now: boolean }; registry: Registry } {
  const clock = new FakeClock();
  const leading = { now: true };
  const registry = new Registry();
  const log = createLogger({ write: () => undefined });
  const metrics = createMetrics(registry);
  return { writes: new Writer({ clock, log, metrics, isLeading: () => leading.now }), clock, leading, registry };
}

const { signal } = new AbortController();
const fail = (status: number) => async (): Promise<void> => {
  throw new KubeError(status, 'Reason', `answer ${status}`);
};

test('without the lead nothing is sent', async () => {
  const { writes, leading } = setUp();
  leading.now = false;
  let sent = false;
  const attempt = writes.attempt('spec', 'a', signal, async () => {
    sent = true;
  });
  await expect(attempt).rejects.toThrow(NotLeading);
  expect(sent).toBe(false);
});

test('an object that cannot be written waits, longer each time, and holds up no other', async () => {
  const { writes, clock } = setUp();
  expect(await writes.attempt('spec', 'a', signal, fail(500))).toBe(false);
  expect([writes.canWrite('a'), writes.canWrite('b')]).toEqual([false, true]);
  await clock.advance(1_000);
  expect(writes.canWrite('a')).toBe(true);
  for (let i = 0; i < 9; i += 1) await writes.attempt('spec', 'a', signal, fail(500));
  await clock.advance(29_000);
  expect(writes.canWrite('a')).toBe(false);
  expect(writes.nextTryMs()).toBeLessThanOrEqual(31_000);
  await clock.advance(31_000);
  expect(writes.canWrite('a')).toBe(true);
});

test('each write that ends is a sign of life, also one that fails', async () => {
  const { writes, clock } = setUp();
  expect(writes.sinceWriteMs()).toBe(Infinity);
  await writes.attempt('spec', 'a', signal, fail(500));
  await clock.advance(3_000);
  expect(writes.sinceWriteMs()).toBe(3_000);
});

const answers: Record<string, [number, string | undefined]> = {
  'an invalid object is refused': [422, 'answer 422'],
  'a forbidden write is refused': [403, 'answer 403'],
  'a conflict is no refusal': [409, undefined],
  'an object that is gone is no refusal': [404, undefined],
  'an overloaded API server refuses nothing': [429, undefined],
  'an API server out of reach refuses nothing': [0, undefined],
};
test.each(Object.entries(answers))('%s', async (_, [status, writeRejection]) => {
  const { writes, clock } = setUp();
  expect(await writes.attempt('spec', 'a', signal, fail(status))).toBe(false);
  expect(writes.writeRejection('a')).toBe(writeRejection);
  await clock.advance(1_000);
  expect(writes.writeRejection('a')).toBeUndefined();
});

test('a conflict is looked at again soon, however often it comes', async () => {
  const { writes } = setUp();
  for (let i = 0; i < 20; i += 1) await writes.attempt('spec', 'a', signal, fail(409));
  expect(writes.nextTryMs()).toBeLessThanOrEqual(250);
});

test('a write that is cut off by the end of the lead ends the turn', async () => {
  const { writes } = setUp();
  const abort = new AbortController();
  const attempt = writes.attempt('spec', 'a', abort.signal, async () => {
    abort.abort(new Error('the lead is lost'));
    throw new Error('the lead is lost');
  });
  await expect(attempt).rejects.toThrow('the lead is lost');
});

test('writes are counted by their result', async () => {
  const { writes, registry } = setUp();
  await writes.attempt('spec', 'a', signal, async () => undefined);
  await writes.attempt('spec', 'b', signal, fail(409));
  const text = await registry.getSingleMetricAsString('brupop_controller_writes_total');
  expect(text).toContain('{kind="spec",result="ok"} 1');
  expect(text).toContain('{kind="spec",result="conflict"} 1');
});

test('of many items each is done once, ten at a time', async () => {
  const done: number[] = [];
  let running = 0;
  let most = 0;
  await forEachOf([...Array(50).keys()], async (item) => {
    running += 1;
    most = Math.max(most, running);
    await Promise.resolve();
    running -= 1;
    done.push(item);
  });
  expect(done.toSorted((a, b) => a - b)).toEqual([...Array(50).keys()]);
  expect(most).toBe(10);
});
