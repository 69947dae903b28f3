import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { Pace } from './rate-limit.ts';

it('lets a burst go at once and the rest at its rate', () => {
  const pace = new Pace(new FakeClock(), { perSecond: 50, burst: 20 });
  const waits = Array.from({ length: 300 }, () => pace.next());
  expect(waits.filter((ms) => ms === 0)).toHaveLength(20);
  expect(waits[299]).toBe(280 * 20);
});

it('has a burst again after a while', async () => {
  const clock = new FakeClock();
  const pace = new Pace(clock, { perSecond: 50, burst: 2 });
  expect([pace.next(), pace.next(), pace.next()]).toEqual([0, 0, 20]);
  await clock.advance(1_000);
  expect([pace.next(), pace.next(), pace.next()]).toEqual([0, 0, 20]);
});
