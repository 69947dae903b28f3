import { requestEviction } from '../drain/evictions.ts';
import { createLogger } from '../runtime/log.ts';
import { FakeClock } from '../testing/fake-clock.ts';
import { KubeClient } from './client.ts';
import type { KubeConnection } from './connection.ts';

/** A client whose requests get no response. */
function unanswered() {
  const clock = new FakeClock();
  const request = async ({ signal }: { readonly signal: AbortSignal }): Promise<never> =>
    await new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason), { once: true }));
  const connection = { origin: '', dispatcher: { request }, token: async () => 'token', reloadSoon: () => undefined };
  const log = createLogger({ write: () => undefined });
  const options = { userAgent: 'test', clock, log, access: { host: '', port: 0, serviceAccountDir: '' } };
  return { clock, client: new KubeClient(options, connection as unknown as KubeConnection) };
}

/** A client of several kube-apiservers; the next response comes from one whose clock differs by the given time. */
function dated() {
  const clock = new FakeClock();
  let aheadMs = 0;
  const request = async () => ({
    statusCode: 200,
    headers: { date: new Date(clock.now() + aheadMs).toUTCString() },
    body: [Buffer.from('{}')],
  });
  const connection = { origin: '', dispatcher: { request }, token: async () => 'token', latestDates: [] };
  const log = createLogger({ write: () => undefined });
  const options = { userAgent: 'test', clock, log, access: { host: '', port: 0, serviceAccountDir: '' } };
  const client = new KubeClient(options, connection as unknown as KubeConnection);
  const ask = async (ms: number): Promise<void> => {
    aheadMs = ms;
    await client.request({ method: 'GET', path: '/a' });
  };
  return { clock, client, ask };
}

async function endsAfter(clock: FakeClock, request: Promise<unknown>): Promise<{ ms: number; error: string }> {
  const from = clock.monotonic();
  const end = (error: unknown): { ms: number; error: string } => ({
    ms: clock.monotonic() - from,
    error: error instanceof Error ? error.message : JSON.stringify(error),
  });
  const ended = request.then(end, end);
  for (let second = 0; second < 20; second += 1) await clock.advance(1_000);
  return await ended;
}

it('reads end after 10 s, and writes later than an admission webhook, which the error names', async () => {
  const { clock, client } = unanswered();
  const read = await endsAfter(clock, client.request({ method: 'GET', path: '/a' }));
  expect(read).toMatchObject({ ms: 10_000, error: expect.not.stringContaining('webhook') as string });
  const write = await endsAfter(clock, client.request({ method: 'PATCH', path: '/a' }));
  expect(write).toMatchObject({ ms: 15_000, error: expect.stringContaining('an admission webhook may not') as string });
});

it('an eviction ends later than an admission webhook, and before the answer to its drain', async () => {
  const { clock, client } = unanswered();
  const { ms, error } = await endsAfter(
    clock,
    requestEviction(client, { metadata: { name: 'a', uid: 'a', resourceVersion: '' } }),
  );
  expect([ms, error]).toEqual([11_000, expect.stringContaining('"isUnknown":true')]);
});

describe('the difference to the clock of the Kubernetes API', () => {
  const HOUR = 3_600_000;
  const about = (ms: number): unknown => expect.closeTo(ms, -4);

  it('is unknown before the first response', () => {
    expect(dated().client.clockSkewMs()).toBeUndefined();
  });

  it('does not follow one of several kube-apiservers whose clock is wrong', async () => {
    const { client, ask } = dated();
    const seen: unknown[] = [];
    for (const ms of [0, HOUR, HOUR, 0, HOUR]) {
      await ask(ms);
      seen.push(client.clockSkewMs());
    }
    expect(seen).toEqual(seen.map(() => about(0)));
  });

  it('is that of this machine when all kube-apiservers agree, and ends at once when its clock is set', async () => {
    const { clock, client, ask } = dated();
    for (let i = 0; i < 20; i += 1) await ask(HOUR);
    expect(client.clockSkewMs()).toEqual(about(-HOUR));
    clock.step(HOUR);
    expect(client.clockSkewMs()).toEqual(about(0));
  });

  it('is noticed when the clock of every kube-apiserver has changed', async () => {
    const { client, ask } = dated();
    for (let i = 0; i < 20; i += 1) await ask(0);
    for (let i = 0; i < 16; i += 1) await ask(HOUR);
    expect(client.clockSkewMs()).toEqual(about(-HOUR));
  });
});
