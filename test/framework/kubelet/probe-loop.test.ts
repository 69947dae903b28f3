import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { eagerDelayMs, probeLoop, type ProbeLoopOptions } from './probe-loop.ts';

/**
 * Runs a loop for `ms` against `healthy`, and returns when checks were made and what was reported.
 */
async function watch(
  ms: number,
  healthy: (at: number) => boolean,
  options: Pick<ProbeLoopOptions, 'probe' | 'eager'>,
): Promise<{ checks: number[]; reports: [at: number, result: boolean][] }> {
  const clock = new FakeClock();
  const checks: number[] = [];
  const reports: [number, boolean][] = [];
  const end = new AbortController();
  const done = probeLoop({
    ...options,
    clock,
    signal: end.signal,
    check: async () => {
      checks.push(clock.monotonic());
      return healthy(clock.monotonic()) ? undefined : 'no';
    },
    report: (result) => {
      reports.push([clock.monotonic(), result]);
      return false;
    },
  });
  await clock.advance(ms);
  end.abort(new Error('over'));
  await done;
  return { checks, reports };
}

const probe = { periodSeconds: 10, failureThreshold: 3, successThreshold: 1, initialDelaySeconds: 0 };

describe('probing', () => {
  test('a container that gets ready is seen at once, not a period later', async () => {
    const { reports } = await watch(1_000, (at) => at >= 120, { probe, eager: true });
    expect(reports[0]).toEqual([150, true]);
  });

  test('once ready it is looked at once in a period', async () => {
    const { checks } = await watch(30_000, () => true, { probe, eager: true });
    expect(checks).toEqual([0, 10_000, 20_000, 30_000]);
  });

  test('failures count only once in a period, however often it is looked at', async () => {
    const { reports } = await watch(25_000, () => false, { probe, eager: true });
    expect(reports).toEqual([[20_000, false]]);
  });

  test('liveness is looked at once in a period', async () => {
    const { checks, reports } = await watch(40_000, (at) => at < 15_000, { probe, eager: false });
    expect(checks).toEqual([0, 10_000, 20_000, 30_000, 40_000]);
    expect(reports).toEqual([
      [0, true],
      [10_000, true],
      [40_000, false],
    ]);
  });

  test('nothing is looked at before the initial delay', async () => {
    const { checks } = await watch(5_000, () => true, { probe: { ...probe, initialDelaySeconds: 5 }, eager: true });
    expect(checks).toEqual([5_000]);
  });

  test('several successes in a row are counted at the regular times', async () => {
    const { reports } = await watch(20_000, () => true, { probe: { ...probe, successThreshold: 3 }, eager: true });
    expect(reports).toEqual([[20_000, true]]);
  });

  test('the eager delay grows with the time waited', () => {
    expect([0, 400, 1_000, 20_000].map(eagerDelayMs)).toEqual([50, 50, 100, 2_000]);
  });
});
