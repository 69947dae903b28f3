import { KubeError } from '@brupop/shared/kube/error';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { choose, CLOSED, type Recovery, recovered, type RecoveryState } from './decide.ts';
import { RecoveryRecord } from './record.ts';

const [db, cache] = [
  { kind: 'Service', name: 'db' },
  { kind: 'Service', name: 'cache' },
] as const;
const WATCH_FOR = 300_000;
const never = new AbortController().signal;
const open = recovered(CLOSED, db, WATCH_FOR, 0).recoveries;

/** A record that has one open window. */
async function setUp() {
  const clock = new FakeClock();
  const results: string[] = [];
  const api: { error: Error | undefined } = { error: undefined };
  const apply = async <T>(): Promise<T> => {
    if (api.error !== undefined) throw api.error;
    return {} as T;
  };
  const request = async <T>(): Promise<T> => ({ metadata: {}, items: [] }) as T;
  const record = new RecoveryRecord({ client: { apply, request }, clock, count: (result) => results.push(result) });
  const write = async (recoveries: readonly Recovery[]): Promise<void> =>
    await record.write('uid-1', recoveries, never);
  await write(open);
  return { clock, results, api, record, write };
}

const extended = (state: RecoveryState, at: number): readonly Recovery[] =>
  recovered(state, db, WATCH_FOR, at).recoveries;
const withPod = (uid: string, now = 0): readonly Recovery[] => {
  const pod = { uid, name: uid, namespace: 'shop', node: 'node-1' };
  return choose({ ...CLOSED, recoveries: open }, [{ scope: db, pod, listedAt: 0 }], 10, { wall: now, monotonic: now })
    .state.recoveries;
};

it('a later end is written half a minute after the last write', async () => {
  const { clock, results, write } = await setUp();
  const writes: number[] = [];
  for (let second = 1; second <= 60; second += 1) {
    await clock.advance(1_000);
    await write(extended({ ...CLOSED, recoveries: open }, second * 1_000));
    writes.push(results.length);
  }
  expect([28, 29, 58, 59].map((index) => writes[index])).toEqual([1, 2, 2, 3]);
});

it.each([
  ['a pod', withPod('a')],
  ['another window', recovered({ ...CLOSED, recoveries: open }, cache, WATCH_FOR, 0).recoveries],
  ['the end of a window', []],
])('%s is written at once', async (_what, recoveries) => {
  const { results, write } = await setUp();
  await write(recoveries);
  expect(results).toEqual(['ok', 'ok']);
});

it('a pod whose eviction was refused is recorded no more at once, and again with the time of the next request', async () => {
  const { results, write } = await setUp();
  await write(withPod('a'));
  await write(open);
  expect(results).toHaveLength(3);
  await write(withPod('a', 20_000));
  expect(results).toHaveLength(4);
});

it('what may not have been written is written again at once', async () => {
  const { results, api, write } = await setUp();
  api.error = new KubeError(0, 'Unreachable', 'no response');
  await expect(write(withPod('a'))).rejects.toThrow('no response');
  api.error = undefined;
  await write(open);
  expect(results).toEqual(['ok', 'error', 'ok']);
});

it('a rejection is a problem at once, and another failure once it has lasted a minute', async () => {
  const { clock, api, record, write } = await setUp();
  api.error = new KubeError(500, 'InternalError', 'later');
  const problemOf = async (): Promise<string | undefined> => {
    await expect(write(withPod('a'))).rejects.toThrow('later');
    return record.problem;
  };
  expect(await problemOf()).toBeUndefined();
  await clock.advance(60_000);
  expect(await problemOf()).toBe('status.recovery cannot be written: later');
  api.error = undefined;
  await write(withPod('a'));
  expect(record.problem).toBeUndefined();
  api.error = new KubeError(403, 'Forbidden', 'no right');
  await expect(write([])).rejects.toThrow('no right');
  expect(record.problem).toBe('status.recovery cannot be written: no right');
});
