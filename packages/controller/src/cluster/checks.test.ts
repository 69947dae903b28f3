import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { JOB_OF_ANNOTATION } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { createLogger } from '@brupop/shared/runtime/log';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { NO_CHECKS } from '../testing/checks.ts';
import { CheckLookups, type Evaluation, readJob } from './checks.ts';
import { keyOf, type Probe } from './probes.ts';

const SECOND = 1_000;
const PROBE: Probe = { check: 'errors', kind: 'prometheus', query: 'up' };

describe('evaluations', () => {
  let value = '1';
  let requests = 0;
  let server: Server;
  let lookups: CheckLookups;
  let clock: FakeClock;
  const counted: string[] = [];

  beforeAll(async () => {
    server = createServer((_, response) => {
      requests += 1;
      response.end(JSON.stringify({ data: { resultType: 'scalar', result: [1, value] } }));
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  });
  afterAll(async () => await new Promise((done) => server.close(done)));
  beforeEach(() => {
    clock = new FakeClock();
    requests = 0;
    counted.length = 0;
    const log = createLogger({ level: 'error', write: () => undefined });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const config = { ...NO_CHECKS, prometheus: { url, credentials: '' } };
    const count = ({ check, phase, result }: { check: string; phase: string; result: string }): void =>
      void counted.push(`${check} ${phase} ${result}`);
    lookups = new CheckLookups({ client: {} as KubeClient, clock, log, config, count });
  });

  /** Evaluates the check, some time after the latest evaluation. */
  async function evaluate(answer: string, afterMs = 0): Promise<Evaluation | undefined> {
    value = answer;
    await clock.advance(afterMs);
    const { promise, resolve } = Promise.withResolvers<void>();
    const unsubscribe = lookups.answers.subscribe(resolve);
    lookups.look({ evaluate: [PROBE, PROBE], read: [] }, new AbortController().signal);
    await promise;
    unsubscribe();
    return lookups.view.evaluations.get(keyOf(PROBE));
  }

  it('are asked once at a time, and counted', async () => {
    await evaluate('1');
    expect([requests, counted]).toEqual([1, ['errors Query Passed']]);
  });

  it('have passed since the first one of an unbroken series', async () => {
    const start = clock.now();
    const isCut = true;
    expect(await evaluate('1')).toMatchObject({ passed: true, at: start, since: start, isCut });
    expect(await evaluate('1', 15 * SECOND)).toMatchObject({ at: start + 15 * SECOND, since: start, isCut });
    expect(await evaluate('1', 46 * SECOND)).toMatchObject({ since: start + 61 * SECOND, isCut });
    expect(await evaluate('0', 15 * SECOND)).toMatchObject({ passed: false, since: start + 76 * SECOND, isCut: false });
    expect(await evaluate('1', 15 * SECOND)).toMatchObject({ passed: true, since: start + 91 * SECOND, isCut: false });
  });

  it('do not change what nodes show with each number', async () => {
    expect(await evaluate('NaN')).toMatchObject({ found: 'the query is NaN' });
    expect(await evaluate('0')).toMatchObject({ found: 'the query is 0' });
    expect(await evaluate('0.0')).toMatchObject({ found: 'the query is 0' });
  });

  it('are forgotten with the leadership', async () => {
    await evaluate('1');
    lookups.clear();
    expect(lookups.view.evaluations.size).toBe(0);
  });
});

describe('a Job', () => {
  const job = (conditions?: object[]): object => ({
    metadata: { name: 'a', uid: 'u', annotations: { 'brupop.bottlerocket.aws/job-of': 'x' } },
    status: { ...(conditions && { conditions }) },
  });

  it.each([
    ['runs without conditions', undefined, undefined],
    ['runs while it is about to fail', [{ type: 'FailureTarget', status: 'True' }], undefined],
    ['has succeeded', [{ type: 'Complete', status: 'True' }], 'Succeeded'],
    ['has failed', [{ type: 'Failed', status: 'True', reason: 'BackoffLimitExceeded' }], 'Failed'],
    ['has timed out', [{ type: 'Failed', status: 'True', reason: 'DeadlineExceeded' }], 'TimedOut'],
  ])('%s', (_, conditions, result) =>
    expect(readJob(job(conditions))).toEqual({ name: 'a', uid: 'u', jobOf: 'x', result, hasPods: false }),
  );

  it.each(['active', 'succeeded', 'failed'])('has pods when some are %s', (field) =>
    expect(readJob({ ...job(), status: { [field]: 1 } }).hasPods).toBe(true),
  );

  it('of another owner is known as such', () => {
    expect(readJob({ metadata: { name: 'a', uid: 'u' } }).jobOf).toBe('');
    const annotations = { [JOB_OF_ANNOTATION]: 'x'.repeat(200_000) };
    expect(readJob({ metadata: { name: 'a', uid: 'u', annotations } }).jobOf).toBe('');
    expect(() => readJob({ metadata: {} })).toThrow('the Job.metadata.name: expected a text, found nothing');
  });
});

describe('a Job that runs', () => {
  const ref = { node: 'n', jobName: 'a', jobOf: 'x', name: 'check', phase: 'After', timeoutMs: 60 * SECOND } as const;
  const raw = { metadata: { name: 'a', uid: 'u', annotations: { [JOB_OF_ANNOTATION]: 'x' } }, status: { active: 1 } };

  it('is not late when the clock was set forward: only when its time has passed', async () => {
    const clock = new FakeClock();
    const log = createLogger({ level: 'error', write: () => undefined });
    const client = { find: async () => raw } as unknown as KubeClient;
    const lookups = new CheckLookups({ client, clock, log, config: NO_CHECKS, count: () => undefined });
    const read = async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const unsubscribe = lookups.answers.subscribe(resolve);
      lookups.look({ evaluate: [], read: [ref] }, new AbortController().signal);
      await promise;
      unsubscribe();
      return lookups.view.jobs.get('a')?.state;
    };
    lookups.created(ref);
    clock.step(3_600 * SECOND);
    expect(await read()).toBe('Running');
    await clock.advance(119 * SECOND);
    expect(await read()).toBe('Running');
    await clock.advance(2 * SECOND);
    expect(await read()).toBe('TimedOut');
  });

  it('is known for as long as before when the clock was set forward while it could not be created', () => {
    const clock = new FakeClock();
    const log = createLogger({ level: 'error', write: () => undefined });
    const client = {} as unknown as KubeClient;
    const lookups = new CheckLookups({ client, clock, log, config: NO_CHECKS, count: () => undefined });
    lookups.creating(ref, 'refused by a webhook');
    clock.step(3_600 * SECOND);
    expect(lookups.view.jobs.get('a')?.since).toBe(clock.now());
  });
});

it('the Events of all Jobs without a pod are listed once, since etcd reads all of the namespace for each list', async () => {
  const clock = new FakeClock();
  const jobs = Array.from({ length: 20 }, (_, i) => ({
    node: `node-${i}`,
    jobName: `job-${i}`,
    jobOf: `shadow-${i}/2026-01-01T00:00:00Z/x`,
    name: 'smoke',
    phase: 'Before' as const,
    timeoutMs: 300 * SECOND,
  }));
  const items = ['is forbidden: violates PodSecurity', 'failed calling webhook'].map((message, i) => ({
    metadata: { name: `event-${i}`, uid: `event-${i}`, resourceVersion: '1' },
    involvedObject: { uid: `uid-job-${i}` },
    message,
    lastTimestamp: '2026-01-01T00:00:00Z',
  }));
  let lists = 0;
  const client = {
    find: (path: string): Promise<unknown> => {
      const name = path.split('/').at(-1) ?? '';
      const jobOf = jobs.find(({ jobName }) => jobName === name)?.jobOf ?? '';
      return Promise.resolve({ metadata: { name, uid: `uid-${name}`, annotations: { [JOB_OF_ANNOTATION]: jobOf } } });
    },
    request: (): Promise<unknown> => {
      lists += 1;
      return Promise.resolve({ metadata: { resourceVersion: '1' }, items });
    },
  } as unknown as KubeClient;
  const log = createLogger({ level: 'error', write: () => undefined });
  const lookups = new CheckLookups({
    client,
    clock,
    log,
    config: { ...NO_CHECKS, namespace: 'checks' },
    count: () => undefined,
  });
  const read = async (): Promise<void> => {
    lookups.look({ evaluate: [], read: jobs }, new AbortController().signal);
    await new Promise((done) => setImmediate(done));
  };
  await read();
  await clock.advance(6 * SECOND);
  await read();
  const { jobs: seen } = lookups.view;
  expect(['job-0', 'job-1', 'job-2'].map((name) => [seen.get(name)?.state, seen.get(name)?.problem])).toEqual([
    ['Failed', 'no pod could be created: is forbidden: violates PodSecurity'],
    ['Running', 'no pod could be created: failed calling webhook'],
    ['Running', undefined],
  ]);
  expect(lists).toBe(1);
});
