import { instantOf } from '@brupop/shared/runtime/clock';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { ClockSteps } from './clock-steps.ts';

it.each([
  ['an hour passes', 3_600_000, 0, false],
  ['it is set back by an hour', 0, -3_600_000, true],
  ['it is set forward by an hour', 0, 3_600_000, false],
  ['it is corrected by a second', 0, -1_000, false],
])('a clock was set back, or not: %s', async (_, passesMs, stepMs, expected) => {
  const clock = new FakeClock();
  const steps = new ClockSteps();
  steps.wasSetBack(instantOf(clock));
  await clock.advance(passesMs);
  clock.step(stepMs);
  expect([steps.wasSetBack(instantOf(clock)), steps.wasSetBack(instantOf(clock))]).toEqual([expected, false]);
});
