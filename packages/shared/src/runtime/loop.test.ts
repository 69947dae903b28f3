import { FakeClock } from '../testing/fake-clock.ts';
import { createLogger } from './log.ts';
import { Loop } from './loop.ts';

interface Trial {
  readonly clock: FakeClock;
  readonly loop: Loop;
  readonly turns: number[];
  readonly stop: () => Promise<void>;
}

function start(step: (turn: number) => number | undefined | Promise<undefined>, minGapMs = 0): Trial {
  const clock = new FakeClock();
  const turns: number[] = [];
  const loop = new Loop({
    clock,
    log: createLogger({ write: () => undefined }),
    minGapMs,
    step: async () => {
      turns.push(clock.monotonic());
      return step(turns.length);
    },
  });
  const stopped = new AbortController();
  const running = loop.run(stopped.signal);
  const stop = async (): Promise<void> => {
    stopped.abort();
    await running;
  };
  return { clock, loop, turns, stop };
}

describe('a loop', () => {
  it('turns once at the start, then when woken or when the time it asked for has come', async () => {
    const { clock, loop, turns, stop } = start(() => 1_000);
    await clock.advance(400);
    loop.wake();
    await clock.advance(1_500);
    expect(turns).toEqual([0, 400, 1_400]);
    await stop();
  });

  it('makes one turn of many wakes, and keeps its distance', async () => {
    const { clock, loop, turns, stop } = start(() => undefined, 100);
    await clock.advance(0);
    for (let i = 0; i < 10; i += 1) loop.wake();
    await clock.advance(500);
    expect(turns).toEqual([0, 100]);
    await stop();
  });

  it('repeats a failed turn with backoff until it works', async () => {
    const { clock, turns, stop } = start((turn) => {
      if (turn <= 3) throw new Error('not yet');
      return undefined;
    });
    await clock.advance(10_000);
    expect(turns).toHaveLength(4);
    expect((turns[3] ?? 0) - (turns[2] ?? 0)).toBeGreaterThan((turns[1] ?? 0) - (turns[0] ?? 0));
    await stop();
  });

  it('says how long a turn takes, but nothing of the time between turns', async () => {
    const hanging = Promise.withResolvers<undefined>();
    const { clock, loop, stop } = start((turn) => (turn === 1 ? undefined : hanging.promise));
    await clock.advance(60_000);
    expect(loop.turningForMs).toBe(0);
    loop.wake();
    await clock.advance(5_000);
    expect(loop.turningForMs).toBe(5_000);
    hanging.resolve(undefined);
    await clock.advance(5_000);
    expect(loop.turningForMs).toBe(0);
    await stop();
  });

  it('leaves no timer behind when it stops', async () => {
    const { clock, stop } = start(() => 60_000);
    await clock.advance(10);
    await stop();
    expect(clock.pending).toBe(0);
  });
});
