import { KubeError } from '@brupop/shared/kube/error';
import type { KubeRequest } from '@brupop/shared/kube/client';
import { createLogger } from '@brupop/shared/runtime/log';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { PodLookups } from './lookups.ts';

const scope = { kind: 'Node', name: 'node-1' } as const;
const never = new AbortController().signal;

function setUp(answer: (request: KubeRequest) => Promise<unknown>) {
  const clock = new FakeClock();
  const lines: string[] = [];
  const log = createLogger({ write: (line) => lines.push(line) });
  const request = async <T>(one: KubeRequest): Promise<T> => (await answer(one)) as T;
  const lookups = new PodLookups({ client: { request }, clock, log });
  const levels = (): unknown[] => lines.map((line) => (JSON.parse(line) as { readonly level: unknown }).level);
  return { clock, lookups, levels };
}

it('a list counts from its start', async () => {
  const { clock, lookups } = setUp(async () => {
    await clock.advance(3_000);
    return { metadata: { resourceVersion: '1' }, items: [] };
  });
  await clock.advance(1_000);
  expect(await lookups.onNode(scope, never)).toEqual({ pods: [], listedAt: 1_000 });
});

it('a list that does not end within ten seconds is given up', async () => {
  const { clock, lookups } = setUp(
    async ({ signal }) =>
      await new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error))),
  );
  for (const pauseMs of [50_000, 0]) {
    const listed = lookups.onNode(scope, never);
    await clock.advance(10_000);
    expect(await listed).toBeUndefined();
    await clock.advance(pauseMs);
  }
  expect(lookups.problem).toBe('The pods of Node node-1 cannot be listed: the list did not end within 10 s');
});

it('a list that fails is a problem once that has lasted a minute, or at once if no retry ends it', async () => {
  let status = 500;
  const { clock, lookups, levels } = setUp(async () => {
    throw new KubeError(status, 'Reason', `answer ${status}`);
  });
  const problemOf = async (): Promise<string | undefined> => {
    lookups.reset();
    await lookups.onNode(scope, never);
    return lookups.problem;
  };
  expect(await problemOf()).toBeUndefined();
  await clock.advance(60_000);
  expect(await problemOf()).toContain('answer 500');
  expect(levels()).toEqual(['info', 'warn']);
  lookups.reset();
  lookups.reset();
  status = 403;
  expect(await problemOf()).toContain('answer 403');
  expect(levels()).toEqual(['info', 'warn', 'warn']);
});
