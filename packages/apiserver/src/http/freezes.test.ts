import { CALL_LIMIT_MS } from '@brupop/shared/api/deadlines';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { Freezes } from './freezes.ts';

/** The monotonic time goes on while no timer runs. */
function setUp() {
  const clock = new FakeClock();
  let frozenMs = 0;
  let suspendedMs = 0;
  const freezes = new Freezes({
    now: () => clock.now() + frozenMs + suspendedMs,
    monotonic: () => clock.monotonic() + frozenMs,
    sleep: (ms, signal) => clock.sleep(ms, signal),
    after: (ms, callback) => clock.after(ms, callback),
  });
  const stop = new AbortController();
  freezes.run(stop.signal);
  const freeze = (ms: number): void => {
    frozenMs += ms;
  };
  const suspend = (ms: number): void => {
    suspendedMs += ms;
  };
  return { clock, freezes, freeze, suspend, stop };
}

describe('a process', () => {
  it('that runs accepts calls', async () => {
    const { clock, freezes } = setUp();
    await clock.advance(60_000);
    expect(freezes.problem()).toBeUndefined();
  });

  it('that was slow for 3 s accepts calls', async () => {
    const { clock, freezes, freeze } = setUp();
    await clock.advance(10_000);
    freeze(3_000);
    expect(freezes.problem()).toBeUndefined();
  });

  it.each([6_000, CALL_LIMIT_MS, 600_000])('that was frozen for %i ms accepts none for 2 s', async (ms) => {
    const { clock, freezes, freeze } = setUp();
    await clock.advance(10_000);
    freeze(ms);
    expect(freezes.problem()).toContain('it was frozen for');
    await clock.advance(1_900);
    expect(freezes.problem()).toContain('it was frozen for');
    await clock.advance(200);
    expect(freezes.problem()).toBeUndefined();
  });

  it('that was frozen accepts none also when its timers run before a call is read', async () => {
    const { clock, freezes, freeze } = setUp();
    await clock.advance(10_000);
    freeze(20_000);
    await clock.advance(1_000);
    expect(freezes.problem()).toBe('it was frozen for 21 s');
  });

  it('on a machine that was suspended accepts none for 2 s', async () => {
    const { clock, freezes, suspend } = setUp();
    await clock.advance(10_000);
    suspend(20_000);
    expect(freezes.problem()).toBe('it was frozen for 20 s');
    await clock.advance(2_000);
    expect(freezes.problem()).toBeUndefined();
  });

  it('that stops looks no more', async () => {
    const { clock, stop } = setUp();
    stop.abort();
    await clock.advance(5_000);
    expect(clock.pending).toBe(0);
  });
});
