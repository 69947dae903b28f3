import { DRAIN_DEFAULTS, type DrainSettings } from '@brupop/shared/api/config-spec';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { aPod } from '@brupop/shared/testing/pods';
import { isAbandoned, limitRemainingMs, stageOf } from './settings.ts';

const MINUTE = 60_000;
const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);
const force: Partial<DrainSettings> = { onTimeout: 'Force' };
const since = (minutes: number) => ({
  observedGeneration: 1,
  startTime: rfc3339(NOW - minutes * MINUTE),
  evicted: 0,
  remaining: 1,
});

it.each<[string, number, Partial<DrainSettings>, number, string]>([
  ['a drain has half an hour', 29.9, {}, 30, 'Evict'],
  ['then it is over', 30, {}, 30, 'Over'],
  ['or what is left is deleted', 30, force, 30, 'Force'],
  ['which has 10 minutes beyond the time that pods get', 40, force, 30, 'Force'],
  ['and then is over', 40.5, force, 30, 'Over'],
  ['a patient pod gets its time', 60, force, 3_600, 'Force'],
  ['but no more than an hour', 101, force, 7_200, 'Over'],
  ['no more than the configuration gives it', 60, { ...force, maxGracePeriodMs: 60_000 }, 3_600, 'Over'],
  ['the configuration sets the limit', 30, { timeoutMs: 120 * MINUTE }, 30, 'Evict'],
  ['a start that lies ahead counts as now', -10, {}, 30, 'Evict'],
])('%s', (_what, minutes, changes, graceSeconds, expected) => {
  const settings = { ...DRAIN_DEFAULTS, ...changes };
  expect(stageOf(since(minutes), settings, [aPod('a', { graceSeconds })], NOW)).toBe(expected);
});

it('says how much time is left, a forced end included', () => {
  expect(limitRemainingMs(since(10), DRAIN_DEFAULTS, [], NOW)).toBe(20 * MINUTE);
  expect(limitRemainingMs(since(10), { ...DRAIN_DEFAULTS, ...force }, [aPod('a', { graceSeconds: 60 })], NOW)).toBe(
    31 * MINUTE,
  );
  expect(limitRemainingMs(since(99), DRAIN_DEFAULTS, [], NOW)).toBe(0);
});

it('leaves a pod behind that was to be gone a minute ago, and no other', () => {
  const goneBy = (ago: number): boolean => isAbandoned(aPod('a', { goneBy: rfc3339(NOW - ago) }), NOW);
  expect([isAbandoned(aPod('a'), NOW), goneBy(0), goneBy(59_000), goneBy(61_000)]).toEqual([false, false, false, true]);
});
