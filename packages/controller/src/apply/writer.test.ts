import { Registry } from 'prom-client';
import { errorFromAnswer, KubeError } from '@brupop/shared/kube/error';
import { createLogger } from '@brupop/shared/runtime/log';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { createMetrics } from '../metrics.ts';
import { forEachOf } from '@brupop/shared/runtime/for-each';
import { NotLeading, UselessWrite, Writer } from './writer.ts';

interface Parts {
  readonly writer: Writer;
  readonly clock: FakeClock;
  readonly leading: { now: boolean };
  readonly registry: Registry;
  readonly lines: string[];
}

function setUp(signal = new AbortController().signal): Parts {
  const clock = new FakeClock();
  const leading = { now: true };
  const registry = new Registry();
  const lines: string[] = [];
  const log = createLogger({ write: (line) => lines.push(line) });
  const metrics = createMetrics(registry);
  const writer = new Writer({ clock, log, metrics, signal, isLeading: () => leading.now });
  return { writer, clock, leading, registry, lines };
}

const fail = (status: number) => async (): Promise<void> => {
  throw new KubeError(status, 'Reason', `answer ${status}`);
};

test('nothing is sent after leadership is lost', async () => {
  const { writer, leading } = setUp();
  leading.now = false;
  let sent = false;
  const attempt = writer.attempt('spec', 'a', async () => {
    sent = true;
  });
  await expect(attempt).rejects.toThrow(NotLeading);
  expect(sent).toBe(false);
});

test('an object that cannot be written backs off, longer each time, and does not block another', async () => {
  const { writer, clock } = setUp();
  expect(await writer.attempt('spec', 'a', fail(500))).toBe(false);
  expect([writer.canWrite('a'), writer.canWrite('b')]).toEqual([false, true]);
  await clock.advance(1_000);
  expect(writer.canWrite('a')).toBe(true);
  for (let i = 0; i < 9; i += 1) await writer.attempt('spec', 'a', fail(500));
  await clock.advance(29_000);
  expect(writer.canWrite('a')).toBe(false);
  expect(writer.nextTryMs()).toBeLessThanOrEqual(31_000);
  await clock.advance(31_000);
  expect(writer.canWrite('a')).toBe(true);
});

test('a write whose delay ends during a reconcile that kept it back is tried again at once', async () => {
  const { writer, clock } = setUp();
  writer.backOff('a');
  expect(writer.canWrite('a')).toBe(false);
  await clock.advance(2_000);
  expect(writer.nextTryMs()).toBe(0);
  expect(writer.nextTryMs()).toBeUndefined();
});

test('each write that ends counts as progress, also one that fails', async () => {
  const { writer, clock } = setUp();
  expect(writer.sinceWriteMs()).toBe(Infinity);
  await writer.attempt('spec', 'a', fail(500));
  await clock.advance(3_000);
  expect(writer.sinceWriteMs()).toBe(3_000);
});

const answers: Record<string, [number, string | undefined]> = {
  'an invalid object is rejected': [422, 'answer 422'],
  'a write that admission denies is rejected': [403, 'answer 403'],
  'a token that is not accepted rejects no object': [401, undefined],
  'a method that is not allowed rejects no object': [405, undefined],
  'a conflict is not a rejection': [409, undefined],
  'a deleted object is not a rejection': [404, undefined],
  'an overloaded API server rejects nothing': [429, undefined],
  'an unreachable API server rejects nothing': [0, undefined],
};
test.each(Object.entries(answers))('%s', async (_, [status, writeRejection]) => {
  const { writer, clock } = setUp();
  expect(await writer.attempt('spec', 'a', fail(status))).toBe(false);
  expect(writer.writeRejection('a')).toBe(writeRejection);
  await clock.advance(1_000);
  expect(writer.writeRejection('a')).toBeUndefined();
});

test('a permission that is missing is not said to be a fault of the object', async () => {
  const { writer } = setUp();
  const text = 'nodes "a" is forbidden: User "system:serviceaccount:x:y" cannot patch resource "nodes"';
  await writer.attempt('spec', 'a', async () => await Promise.reject(new KubeError(403, 'Forbidden', text)));
  expect(writer.writeRejection('a')).toMatch(/^the controller lacks a permission, .*"nodes"$/u);
});

test.each([404, 409, 429])('admission that denies with %i rejects the object', async (status) => {
  const { writer } = setUp();
  const text = 'admission webhook "policy.example.com" denied the request: not now';
  await writer.attempt('spec', 'a', async () => await Promise.reject(new KubeError(status, 'Reason', text)));
  expect(writer.writeRejection('a')).toBe(text);
  expect(writer.nextTryMs()).toBeGreaterThan(250);
});

test('a conflict is retried soon', async () => {
  const { writer } = setUp();
  for (let i = 0; i < 19; i += 1) await writer.attempt('spec', 'a', fail(409));
  expect(writer.nextTryMs()).toBeLessThanOrEqual(250);
  expect(writer.writeRejection('a')).toBeUndefined();
});

test('writes of an object that changes before each attempt back off, so that other nodes go first', async () => {
  const { writer, clock, lines } = setUp();
  for (let i = 0; i < 20; i += 1) await writer.attempt('spec', 'a', fail(409));
  expect(writer.writeRejection('a')).toBe('the object changed before each of 20 attempts');
  expect(lines.join('')).toContain('object changes before each write, backing off');
  await clock.advance(60_000);
  await writer.attempt('spec', 'a', fail(409));
  expect(writer.canWrite('a')).toBe(false);
  await clock.advance(60_000);
  await writer.attempt('spec', 'a', async () => {});
  await writer.attempt('spec', 'a', fail(409));
  expect(writer.nextTryMs()).toBeLessThanOrEqual(250);
});

test('an error that many writes have in common is logged once a minute', async () => {
  const { writer, clock, lines } = setUp();
  const forbid = (name: string) => async (): Promise<void> => {
    throw new KubeError(403, 'Forbidden', `POST /shadows: 403 "brs-${name}" is forbidden: exceeded quota`);
  };
  for (const name of ['a', 'b', 'c']) await writer.attempt('shadow_create', `create/${name}`, forbid(name));
  expect(lines).toHaveLength(1);
  expect(writer.latestRejection('create/c')).toContain('"brs-c" is forbidden: exceeded quota');
  await clock.advance(60_000);
  await writer.attempt('shadow_create', 'create/b', forbid('b'));
  expect(lines).toHaveLength(2);
});

test('so is one of writes whose paths have the names of their objects', async () => {
  const { writer, clock, lines } = setUp();
  const overload = (name: string) => async (): Promise<void> => {
    throw errorFromAnswer({ method: 'PATCH', path: `/apis/x/shadows/brs-${name}` }, 429, {}, 'too many requests');
  };
  const cutOff = (name: string) => async (): Promise<void> => {
    const path = `/apis/x/shadows/brs-${name}/status`;
    throw new KubeError(0, 'Unreachable', `PATCH ${path}: no response from the Kubernetes API: connect ECONNREFUSED`);
  };
  for (const name of ['a', 'b', 'c']) await writer.attempt('spec', `spec/${name}`, overload(name));
  for (const name of ['a', 'b', 'c']) await writer.attempt('spec', `spec/${name}`, cutOff(name));
  expect(lines).toHaveLength(2);
  await clock.advance(60_000);
  await writer.attempt('spec', 'spec/b', overload('b'));
  expect(lines).toHaveLength(3);
});

test('what many writes wait for a user for is logged once each time they are tried', async () => {
  const { writer, clock, lines } = setUp();
  const drop = async (): Promise<void> => {
    throw new UselessWrite('spec.settings is not kept');
  };
  for (let tries = 1; tries <= 2; tries += 1) {
    for (const key of ['a', 'b', 'c']) await writer.attempt('spec', key, drop);
    expect(lines).toHaveLength(tries);
    await clock.advance(600_000);
  }
  expect(lines[0]).toContain('"level":"error","msg":"write failed, waiting for a user"');
});

test('a list that fails backs off, and is a warning when no retry ends it, or once that has lasted', async () => {
  const { writer, clock, lines } = setUp();
  const levels = (): unknown[] =>
    lines.splice(0).map((line) => (JSON.parse(line) as { readonly level: unknown }).level);
  expect(await writer.listed('pods', 'a', async () => 3)).toBe(3);
  for (let seconds = 0; seconds < 120; seconds += 20) {
    expect(await writer.listed('pods', 'a', fail(500))).toBeUndefined();
    expect(writer.canWrite('a')).toBe(false);
    await clock.advance(20_000);
  }
  expect(levels()).toEqual(['info', 'warn']);
  await writer.listed('jobs', 'b', fail(403));
  expect(levels()).toEqual(['warn']);
});

test('work that succeeds is not repeated before the watch can show its result', async () => {
  const { writer, clock } = setUp();
  let runs = 0;
  const work = async (): Promise<void> => {
    runs += 1;
  };
  await writer.once('a', work);
  await writer.once('a', work);
  expect(runs).toBe(1);
  await clock.advance(250);
  await writer.once('a', work);
  expect(runs).toBe(2);
});

test('a write that is cut off by the loss of leadership ends the reconcile', async () => {
  const abort = new AbortController();
  const { writer } = setUp(abort.signal);
  const attempt = writer.attempt('spec', 'a', async () => {
    abort.abort(new Error('lost leadership'));
    throw new Error('lost leadership');
  });
  await expect(attempt).rejects.toThrow('lost leadership');
});

test('writes are counted by their result', async () => {
  const { writer, registry } = setUp();
  await writer.attempt('spec', 'a', async () => undefined);
  await writer.attempt('spec', 'b', fail(409));
  const text = await registry.getSingleMetricAsString('brupop_controller_writes_total');
  expect(text).toContain('{kind="spec",result="ok"} 1');
  expect(text).toContain('{kind="spec",result="conflict"} 1');
});

test('what failed is pending until its next attempt, and what waits for the watch is not', async () => {
  const { writer, clock } = setUp();
  for (const key of ['a', 'b']) await writer.attempt('spec', key, fail(500));
  await writer.attempt('condition', 'c', fail(409));
  await writer.create('shadow_create', 'd', fail(409));
  await writer.once('e', async () => undefined);
  writer.backOff('f');
  expect([...writer.pending()]).toEqual([
    ['spec', 2],
    ['shadow_create', 1],
  ]);
  await writer.attempt('spec', 'a', async () => undefined);
  expect(writer.pending().get('spec')).toBe(1);
  await clock.advance(2_000);
  expect(writer.pending().size).toBe(0);
});

test('why an object cannot be created is known after a minute, also without a rejection', async () => {
  const { writer, clock } = setUp();
  const create = (): Promise<void> => writer.create('shadow_create', 'a', fail(500));
  await create();
  expect(writer.lastingFailure('a')).toBeUndefined();
  for (let seconds = 0; seconds < 60; seconds += 10) {
    await clock.advance(10_000);
    await create();
  }
  expect(writer.lastingFailure('a')).toBe('answer 500');
});

test('each of many items is processed once, ten at a time', async () => {
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
