import { CrashBackOff } from './crash-back-off.ts';

/** The delays of a container that ends again right after each restart. */
function delays(backOff: CrashBackOff, count: number): number[] {
  let now = 0;
  return Array.from({ length: count }, () => {
    const delay = backOff.next(now);
    now += delay + 100;
    return delay;
  });
}

describe('the crash back-off', () => {
  test('the first restart comes at once, later ones wait 10 s, doubling up to 5 min', () => {
    expect(delays(new CrashBackOff(), 9)).toEqual([0, 10, 20, 40, 80, 160, 300, 300, 300].map((s) => s * 1000));
  });

  test('a container that ran for 10 min starts from the beginning', () => {
    const backOff = new CrashBackOff();
    const last = delays(backOff, 4).reduce((sum, delay) => sum + delay + 100, 0);
    expect(backOff.next(last + 601_000)).toBe(0);
    expect(backOff.next(last + 602_000)).toBe(10_000);
  });

  test('a shorter run does not reset it', () => {
    const backOff = new CrashBackOff();
    const last = delays(backOff, 3).reduce((sum, delay) => sum + delay + 100, 0);
    expect(backOff.next(last + 500_000)).toBe(40_000);
  });

  test('all times can be scaled', () => {
    expect(delays(new CrashBackOff(0.01), 4)).toEqual([0, 100, 200, 400]);
  });
});
