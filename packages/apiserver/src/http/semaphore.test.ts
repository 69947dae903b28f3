import { Semaphore } from './semaphore.ts';

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
