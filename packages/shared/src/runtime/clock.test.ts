import { FakeClock } from '../testing/fake-clock.ts';
import { parseTime, rfc3339, rfc3339Micro, systemClock } from './clock.ts';

describe('times as text', () => {
  const at = Date.UTC(2026, 10, 21, 11, 2, 3, 45);

  it('writes metav1.Time without and metav1.MicroTime with exactly six fraction digits', () => {
    expect([rfc3339(at), rfc3339Micro(at)]).toEqual(['2026-11-21T11:02:03Z', '2026-11-21T11:02:03.045000Z']);
  });

  it('writes no year of more than four digits', () => {
    const last = '9999-12-31T23:59:59Z';
    expect([Date.parse('9999-12-31T23:59:59-08:00'), 9e15].map(rfc3339)).toEqual([last, last]);
  });

  it('reads both forms, and returns undefined for anything else', () => {
    expect([parseTime(rfc3339Micro(at)), parseTime('soon'), parseTime(null), parseTime(undefined)]).toEqual([
      at,
      undefined,
      undefined,
      undefined,
    ]);
  });
});

describe('sleeping', () => {
  it('ends with the reason of the signal', async () => {
    const stop = new AbortController();
    const slept = systemClock.sleep(60_000, stop.signal);
    stop.abort(new Error('enough'));
    await expect(slept).rejects.toThrow('enough');
  });

  it('happens in the order of the times on the fake clock, and a step of the wall clock fires nothing', async () => {
    const clock = new FakeClock();
    const order: string[] = [];
    clock.after(20, () => order.push('late'));
    clock.after(10, () => order.push('early'));
    clock.after(15, () => order.push('cancelled'))();
    clock.step(3_600_000);
    expect(order).toEqual([]);
    await clock.advance(30);
    expect(order).toEqual(['early', 'late']);
  });
});
