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
