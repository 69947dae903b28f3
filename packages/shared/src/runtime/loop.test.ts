import { FakeClock } from '../testing/fake-clock.ts';
import { createLogger } from './log.ts';
import { Loop } from './loop.ts';

interface Trial {
  readonly clock: FakeClock;
  readonly loop: Loop;
  readonly runs: number[];
  /** Of the log. */
  readonly lines: string[];
  readonly stop: () => Promise<void>;
}

function start(
  reconcile: (run: number) => number | undefined | Promise<undefined>,
  minGapMs: number | ((delay: number | undefined) => number) = 0,
): Trial {
  const clock = new FakeClock();
  const runs: number[] = [];
  const lines: string[] = [];
  const loop = new Loop({
    clock,
    log: createLogger({ level: 'info', write: (line) => lines.push(line) }),
    minGapMs,
    reconcile: async () => {
      runs.push(clock.monotonic());
      return reconcile(runs.length);
    },
  });
  const stopped = new AbortController();
  const running = loop.run(stopped.signal);
  const stop = async (): Promise<void> => {
    stopped.abort();
    await running;
  };
  return { clock, loop, runs, lines, stop };
}

const levelOf = (line: string): unknown => (JSON.parse(line) as { readonly level: unknown }).level;

describe('a loop', () => {
  it('runs at the start, when woken, and when the time it asked for has come', async () => {
    const { clock, loop, runs, stop } = start(() => 1_000);
    await clock.advance(400);
    loop.wake();
    await clock.advance(1_500);
    expect(runs).toEqual([0, 400, 1_400]);
    await stop();
  });

  it('pauses as long as it is said to after each run', async () => {
    const gaps = [100, 300];
    const { clock, runs, stop } = start(
      () => 0,
      () => gaps.shift() ?? 1_000,
    );
    await clock.advance(500);
    expect(runs).toEqual([0, 100, 400]);
    await stop();
  });

  it('runs once for many wakes, after the pause', async () => {
    const { clock, loop, runs, stop } = start(() => undefined, 100);
    await clock.advance(0);
    for (let i = 0; i < 10; i += 1) loop.wake();
    await clock.advance(500);
    expect(runs).toEqual([0, 100]);
    await stop();
  });

  it('retries a failed run with backoff until it succeeds', async () => {
    const { clock, runs, stop } = start((run) => {
      if (run <= 3) throw new Error('not yet');
      return undefined;
    });
    await clock.advance(10_000);
    expect(runs).toHaveLength(4);
    expect((runs[3] ?? 0) - (runs[2] ?? 0)).toBeGreaterThan((runs[1] ?? 0) - (runs[0] ?? 0));
    await stop();
  });

  it('warns of runs that fail once that has lasted, and once', async () => {
    const { clock, lines, stop } = start((run) => {
      if (run !== 2) throw new Error('not yet');
      return 0;
    });
    await clock.advance(1_000);
    expect(lines.map(levelOf)).toEqual(['info', 'info']);
    await clock.advance(300_000);
    expect(lines.map(levelOf)).toEqual(['info', 'info', 'warn']);
    await stop();
  });

  it('reports how long a run lasts, and 0 between runs', async () => {
    const hanging = Promise.withResolvers<undefined>();
    const { clock, loop, stop } = start((run) => (run === 1 ? undefined : hanging.promise));
    await clock.advance(60_000);
    expect(loop.runningForMs).toBe(0);
    loop.wake();
    await clock.advance(5_000);
    expect(loop.runningForMs).toBe(5_000);
    hanging.resolve(undefined);
    await clock.advance(5_000);
    expect(loop.runningForMs).toBe(0);
    await stop();
  });

  it('leaves no timer behind when it stops', async () => {
    const { clock, stop } = start(() => 60_000);
    await clock.advance(10);
    await stop();
    expect(clock.pending).toBe(0);
  });
});
