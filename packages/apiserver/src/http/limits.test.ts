import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { TokenBucket } from '@brupop/shared/runtime/token-bucket';
import { RateLimit, Semaphore } from './limits.ts';

describe('a rate limit', () => {
  const setUp = (): { limit: RateLimit; clock: FakeClock; taken: (key: string, tries: number) => number } => {
    const clock = new FakeClock();
    const limit = new RateLimit(clock, { burst: 3, perSecond: 2, keys: 2 });
    const taken = (key: string, tries: number): number =>
      Array.from({ length: tries }, () => limit.take(key)).filter(Boolean).length;
    return { limit, clock, taken };
  };

  it('lets a burst through and no more', () => {
    expect(setUp().taken('a', 10)).toBe(3);
  });

  it('then lets through what the rate allows, and never more than a burst', async () => {
    const { clock, taken } = setUp();
    taken('a', 10);
    await clock.advance(1_000);
    expect(taken('a', 10)).toBe(2);
    await clock.advance(3_600_000);
    expect(taken('a', 10)).toBe(3);
  });

  it('counts each key separately', () => {
    const { taken } = setUp();
    expect([taken('a', 10), taken('b', 10)]).toEqual([3, 3]);
  });

  it('ignores a step of the wall clock', () => {
    const { clock, taken } = setUp();
    taken('a', 3);
    clock.step(3_600_000);
    expect(taken('a', 1)).toBe(0);
  });

  it('forgets the least recently used key when there are too many', () => {
    const { taken } = setUp();
    for (const key of ['a', 'b', 'c']) taken(key, 3);
    expect([taken('c', 1), taken('a', 1)]).toEqual([0, 1]);
  });
});

describe('a token bucket', () => {
  it('lets a burst go at once and the rest at its rate', () => {
    const bucket = new TokenBucket(new FakeClock(), { perSecond: 50, burst: 20 });
    const waits = Array.from({ length: 300 }, () => bucket.reserve());
    expect(waits.filter((ms) => ms === 0)).toHaveLength(20);
    expect(waits[299]).toBe(280 * 20);
  });

  it('has a burst again after some time', async () => {
    const clock = new FakeClock();
    const bucket = new TokenBucket(clock, { perSecond: 50, burst: 2 });
    expect([bucket.reserve(), bucket.reserve(), bucket.reserve()]).toEqual([0, 0, 20]);
    await clock.advance(1_000);
    expect([bucket.reserve(), bucket.reserve(), bucket.reserve()]).toEqual([0, 0, 20]);
  });
});

/** A task that ends when a test calls `end`. */
function task(): { run: () => Promise<string>; end: () => void; started: () => boolean } {
  const { promise, resolve } = Promise.withResolvers<string>();
  let started = false;
  const run = (): Promise<string> => {
    started = true;
    return promise;
  };
  return { run, end: () => resolve('done'), started: () => started };
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('a semaphore', () => {
  it('runs as many tasks as it has slots, and the next when one is free', async () => {
    const semaphore = new Semaphore(2);
    const tasks = [task(), task(), task()];
    const results = tasks.map(({ run }) => semaphore.run(run));
    await settle();
    expect(tasks.map(({ started }) => started())).toEqual([true, true, false]);
    tasks[0]?.end();
    await settle();
    expect(tasks.map(({ started }) => started())).toEqual([true, true, true]);
    for (const { end } of tasks) end();
    expect(await Promise.all(results)).toEqual(['done', 'done', 'done']);
  });

  it('frees the slot of a task that failed', async () => {
    const semaphore = new Semaphore(1);
    await expect(semaphore.run(() => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
    expect(await semaphore.run(async () => 'next')).toBe('next');
  });

  it('is idle when no task runs or waits', async () => {
    const semaphore = new Semaphore(1);
    await semaphore.idle();
    const [first, second] = [task(), task()];
    const results = [first, second].map(({ run }) => semaphore.run(run));
    let isIdle = false;
    const idle = semaphore.idle().then(() => (isIdle = true));
    first.end();
    await settle();
    expect(isIdle).toBe(false);
    second.end();
    await Promise.all([...results, idle]);
    expect(isIdle).toBe(true);
  });

  it('rejects a task when too many wait', async () => {
    const semaphore = new Semaphore(1, 1);
    const [first, second] = [task(), task()];
    const results = [first, second].map(({ run }) => semaphore.run(run));
    await expect(semaphore.run(async () => 'third')).rejects.toMatchObject({ code: 'Unavailable' });
    first.end();
    second.end();
    expect(await Promise.all(results)).toEqual(['done', 'done']);
  });
});
