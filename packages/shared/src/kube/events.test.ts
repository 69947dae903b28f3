import { FakeClock } from '../testing/fake-clock.ts';
import type { KubeClient } from './client.ts';
import { eventOf, Events, type EventSource } from './events.ts';

const ABOUT = { apiVersion: 'v1', kind: 'Node', name: 'a', uid: 'u' };

describe('Events of a fleet of 5,000 nodes', () => {
  const clock = new FakeClock();
  const counts: Record<string, number> = {};
  const client = { request: async () => await Promise.resolve({}) } as unknown as KubeClient;
  const log = { warn: () => undefined } as unknown as ConstructorParameters<typeof Events>[0]['log'];
  const count = (result: string): void => void (counts[result] = (counts[result] ?? 0) + 1);
  const events = new Events({ client, clock, log, component: 'test', instance: 'test', count });
  const event = (index: number, isMinor: boolean): EventSource => {
    return { reason: 'Waiting', warning: false, about: ABOUT, message: '', key: `${index}`, isMinor };
  };

  it('are bounded when all nodes begin to wait at once, and leave room for those of updates', async () => {
    for (let index = 0; index < 5_000; index += 1) events.record(event(index, true));
    events.record(event(0, false));
    expect(events.queued).toBe(101);
    await clock.advance(0);
    while ((counts['ok'] ?? 0) < 101) await new Promise((done) => setImmediate(done));
    expect(counts).toEqual({ dropped: 4_900, ok: 101 });
    expect(events.queued).toBe(0);
  });

  it('continue at one a second', async () => {
    await clock.advance(10_000);
    for (let index = 0; index < 20; index += 1) events.record(event(index, true));
    while ((counts['ok'] ?? 0) < 111) await new Promise((done) => setImmediate(done));
    expect(counts).toEqual({ dropped: 4_910, ok: 111 });
  });
});

it('Events about several objects within one millisecond have the order in which they happened', async () => {
  const clock = new FakeClock();
  const bodies: { involvedObject: { uid: string }; eventTime: string }[] = [];
  const client = { request: async ({ body }: { body: never }) => await Promise.resolve(bodies.push(body)) };
  const log = { warn: () => undefined } as unknown as ConstructorParameters<typeof Events>[0]['log'];
  const events = new Events({
    client: client as unknown as KubeClient,
    clock,
    log,
    component: 'test',
    instance: 'test',
    count: () => undefined,
  });
  const record = (uid: string): void =>
    events.record({ reason: 'Waiting', warning: false, about: { ...ABOUT, uid }, message: '', key: '' });
  for (const uid of ['c', 'a', 'b']) record(uid);
  await clock.advance(1);
  record('0');
  while (bodies.length < 4) await new Promise((done) => setImmediate(done));
  const times = bodies.map(({ eventTime }) => eventTime);
  expect(bodies.map(({ involvedObject }) => involvedObject.uid)).toEqual(['c', 'a', 'b', '0']);
  expect(times).toEqual([...new Set(times)].toSorted());
  expect(times.every((time) => /\.\d{6}Z$/u.test(time))).toBe(true);
});

describe('Events about one object within one second', () => {
  const clock = new FakeClock();
  const bodies: { reason: string; lastTimestamp: string; eventTime: string; involvedObject: { uid: string } }[] = [];
  const client = { request: async ({ body }: { body: never }) => await Promise.resolve(bodies.push(body)) };
  const log = { warn: () => undefined } as unknown as ConstructorParameters<typeof Events>[0]['log'];
  const events = new Events({
    client: client as unknown as KubeClient,
    clock,
    log,
    component: 'test',
    instance: 'test',
    count: () => undefined,
  });

  it('have the order in which they happened for all that kubectl sorts by, and their exact time', async () => {
    const start = clock.now();
    const reasons = ['UpdateStarted', 'UpdateAdvanced', 'Waiting'];
    for (const reason of reasons) {
      events.record({ reason, warning: false, about: ABOUT, message: '', key: '' });
      await clock.advance(1);
    }
    events.record({ reason: 'Other', warning: false, about: { ...ABOUT, uid: 'other' }, message: '', key: '' });
    while (bodies.length < 4) await new Promise((done) => setImmediate(done));
    const own = bodies.filter(({ involvedObject }) => involvedObject.uid === ABOUT.uid);
    expect(own.toSorted((a, b) => (a.lastTimestamp < b.lastTimestamp ? -1 : 1)).map(({ reason }) => reason)).toEqual(
      reasons,
    );
    expect(new Set(own.map(({ lastTimestamp }) => lastTimestamp)).size).toBe(3);
    expect(own.map(({ eventTime }) => Date.parse(eventTime))).toEqual([start, start + 1, start + 2]);
    const seconds = bodies.map(({ lastTimestamp }) => Date.parse(lastTimestamp) / 1000);
    expect(seconds.at(-1)).toBe(Math.floor(clock.now() / 1000));
  });
});

it('no more objects are remembered than Events fit in the queue, also when a clock was ahead', async () => {
  const clock = new FakeClock();
  const seconds: number[] = [];
  const request = async ({ body }: { body: { lastTimestamp: string } }) =>
    await Promise.resolve(seconds.push(Date.parse(body.lastTimestamp) / 1000));
  const log = { warn: () => undefined } as unknown as ConstructorParameters<typeof Events>[0]['log'];
  const count = (): void => undefined;
  const client = { request } as unknown as KubeClient;
  const events = new Events({ client, clock, log, component: 'test', instance: 'test', count });
  const record = async (uid: string): Promise<void> => {
    events.record({ reason: 'Waiting', warning: false, about: { ...ABOUT, uid }, message: '', key: '' });
    while (events.queued > 0) await new Promise((done) => setImmediate(done));
  };
  for (let index = 0; index <= 1_000; index += 1) await record(`${index}`);
  await record('1000');
  await record('0');
  const current = Math.floor(clock.now() / 1000);
  expect(seconds.slice(-2)).toEqual([current + 1, current]);
});

it.each(['a', '…', '\u0000', '😀'])('the message of an Event is as long as kube-apiserver accepts: %j', (character) => {
  const message = `Error ${character.repeat(2_000)}`;
  const source: EventSource = { reason: 'UpdateFailed', warning: true, about: ABOUT, message, key: '' };
  const body = eventOf(source, { component: 'test', instance: 'test' }, { now: 0, micros: 0, second: 0 }) as {
    message: string;
  };
  expect(Buffer.byteLength(body.message)).toBeLessThanOrEqual(1_024);
  expect(Buffer.byteLength(body.message)).toBeGreaterThan(1_020);
  expect(body.message).toMatch(/^Error (?:a|…|\uFFFD|😀)+$/u);
});
