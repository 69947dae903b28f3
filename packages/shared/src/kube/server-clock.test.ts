import { FakeClock } from '../testing/fake-clock.ts';
import { serverClock } from './server-clock.ts';

const HOUR = 3_600_000;

it.each<[string, number | undefined, number]>([
  ['an hour ahead', HOUR, -HOUR],
  ['an hour behind', -HOUR, HOUR],
  ['unknown', undefined, 0],
  ['within the resolution of a response', 2_000, 0],
])('a clock whose skew is %s shows the time of kube-apiserver', (_, skew, difference) => {
  const own = new FakeClock();
  expect(serverClock(own, () => skew).now() - own.now()).toBe(difference);
});

it('durations and timers stay those of the machine', async () => {
  const own = new FakeClock();
  const clock = serverClock(own, () => HOUR);
  const before = clock.monotonic();
  const slept = clock.sleep(1_000);
  await own.advance(1_000);
  await slept;
  expect(clock.monotonic() - before).toBe(1_000);
});
