/** How often Jobs are started for one node, whatever its agent reports. */
import { KubeError } from '@brupop/shared/kube/client';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { CheckLookups } from '../cluster/checks.ts';
import { anApplyContext } from '../testing/apply-context.ts';
import { NO_CHECKS } from '../testing/checks.ts';
import { JobWorld } from '../testing/job-world.ts';
import { ago, MINUTE, NOW } from '../testing/objects.ts';
import type { CheckWork, NodeJobs } from '../plan/look-ups.ts';
import { CheckJobs } from './jobs.ts';

/** What a plan asks for, for a staged node that is to be checked. */
function stagedWork(): NodeJobs {
  const world = new JobWorld({ health: { checks: [{ name: 'smoke', when: ['Before'], job: { cronJob: 'smoke' } }] } });
  world.reconcile();
  const [work] = world.plan().checks.nodes;
  if (work === undefined) throw new Error('expected a Job to start');
  return work;
}

let clock: FakeClock;
let created: number;
let lists: number;
let isAnswered: boolean;
let isListed: boolean;
let jobs: CheckJobs;

beforeEach(() => {
  clock = new FakeClock(NOW);
  created = 0;
  lists = 0;
  isAnswered = true;
  isListed = true;
  const template = { metadata: {}, spec: { containers: [{}] } };
  const work = stagedWork();
  const client = {
    find: async () => ({ spec: { jobTemplate: { spec: { template } } } }),
    mergePatch: async () => {
      if (!isAnswered) throw new KubeError(500, 'InternalError', 'no answer');
      return work.shadow;
    },
    request: async ({ method }: { readonly method: string }) => {
      if (method === 'POST') created += 1;
      else lists += 1;
      if (!isListed) throw new KubeError(503, 'ServiceUnavailable', 'no answer');
      return { items: [], metadata: { resourceVersion: '1' } };
    },
  };
  const config = { ...NO_CHECKS, namespace: 'checks', serviceAccount: 'checks' };
  const context = anApplyContext({ clock, client });
  const lookups = new CheckLookups({ ...context, config, count: () => undefined });
  jobs = new CheckJobs(context, lookups);
});

/** @param attempt - how many seconds ago it began */
function workOf(attempt: number): CheckWork {
  const work = stagedWork();
  const { shadow } = work;
  const nodes = [{ ...work, shadow: { ...shadow, record: { ...shadow.record, startedAt: ago(attempt * 1_000) } } }];
  return { evaluate: [], read: [], nodes, attempts: new Set() };
}

const NONE: CheckWork = { evaluate: [], read: [], nodes: [], attempts: new Set() };

/** As a node has them whose agent ends each of its attempts. */
async function attempts(count: number): Promise<void> {
  for (let attempt = count; attempt > 0; attempt -= 1) {
    await jobs.run(workOf(attempt + clock.monotonic()));
    await clock.advance(2_000);
  }
}

test('a node gets Jobs for five attempts at once, and for one every five minutes after that', async () => {
  await attempts(30);
  expect(created).toBe(5);
  await clock.advance(5 * MINUTE);
  await attempts(30);
  expect(created).toBe(6);
});

test('an attempt that gets none yet is looked at again soon', async () => {
  await attempts(5);
  // The Jobs of the latest one are listed, and deleted, five seconds after those of the ones before it.
  await clock.advance(1_000);
  expect(await jobs.run(workOf(1_000))).toBe(15_000);
  await clock.advance(5 * MINUTE);
  await jobs.run(workOf(1_000));
  expect(created).toBe(6);
});

test('an attempt that cannot be recorded counts once', async () => {
  isAnswered = false;
  for (let turn = 0; turn < 10; turn += 1) {
    await jobs.run(workOf(1_000));
    await clock.advance(2_000);
  }
  isAnswered = true;
  await clock.advance(5 * MINUTE);
  await jobs.run(workOf(1_000));
  await clock.advance(2_000);
  await attempts(4);
  expect(created).toBe(5);
});

test('the Jobs are not listed for each of many attempts that are over', async () => {
  for (let attempt = 20; attempt > 0; attempt -= 1) {
    await jobs.run(workOf(attempt));
    await clock.advance(500);
  }
  expect([created, lists]).toEqual([5, 2]);
});

test('while the Jobs cannot be listed, only the end of the backoff asks for another list', async () => {
  isListed = false;
  const asked = new Set<number | undefined>();
  for (let turn = 0; turn < 300; turn += 1) {
    asked.add(await jobs.run(turn === 0 ? workOf(1_000) : NONE));
    await clock.advance(1_000);
  }
  expect([...asked]).toEqual([undefined]);
  expect(lists).toBeLessThan(20);
});

test('a first list that fails is made again, also if no Job is known', async () => {
  isListed = false;
  await jobs.run(NONE);
  isListed = true;
  await clock.advance(2_000);
  await jobs.run(NONE);
  await clock.advance(2_000);
  await jobs.run(NONE);
  expect(lists).toBe(2);
});
