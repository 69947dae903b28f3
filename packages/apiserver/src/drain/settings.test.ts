import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { DRAIN_DEFAULTS, type DrainSettings } from '@brupop/shared/api/config-spec';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { recordingLogger } from '../../../../test/framework/recording-logger.ts';
import { aPod } from '@brupop/shared/testing/pods';
import { isAbandoned, limitRemainingMs, Settings, stageOf } from './settings.ts';

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

describe('the settings of a drain', () => {
  it('remain those of a configuration that was deleted, or whose spec is no object', () => {
    const good = { metadata: { name: 'cluster' }, spec: { drain: { emptyDirPods: 'Block' } } } as BrupopConfig;
    let found: BrupopConfig | undefined = good;
    const gpu = { metadata: { name: 'gpu' }, spec: { drain: { timeout: '2h' } } } as BottlerocketNodeGroup;
    const sources = { configs: { get: () => found }, groups: { get: () => gpu } };
    const settings = new Settings(sources, recordingLogger().log);
    expect(settings.ofGroup(undefined).emptyDirPods).toBe('Block');
    found = undefined;
    expect(settings.ofGroup(undefined).emptyDirPods).toBe('Block');
    expect(settings.ofGroup('gpu')).toMatchObject({ emptyDirPods: 'Block', timeoutMs: 120 * MINUTE });
    found = { ...good, spec: 'none' as BrupopConfig['spec'] };
    expect(settings.ofGroup(undefined).emptyDirPods).toBe('Block');
    expect(() => new Settings(sources, recordingLogger().log).ofGroup(undefined)).toThrow(
      'expected an object, found a string',
    );
  });

  const metadata = { name: 'cluster', uid: 'c', resourceVersion: '1' };
  const of = (config: object, group: object, name: string | undefined): DrainSettings => {
    const configs = { get: () => ({ metadata, spec: config }) as BrupopConfig };
    const gpu = { metadata: { ...metadata, name: 'gpu' }, spec: group } as BottlerocketNodeGroup;
    const groups = { get: (wanted: string) => (wanted === 'gpu' ? gpu : undefined) };
    return new Settings({ configs, groups }, recordingLogger().log).ofGroup(name);
  };
  const config = { drain: { timeout: '1h', onTimeout: 'Force' }, retry: { backoff: '1h' } };

  it.each<[string, object, string | undefined, Partial<DrainSettings>]>([
    [
      'are those of its group, and of the rest those of the configuration',
      { drain: { timeout: '2h' } },
      'gpu',
      { timeoutMs: 120 * MINUTE, onTimeout: 'Force' },
    ],
    [
      'include the exclusion from load balancers',
      { loadBalancer: { exclusion: '90s' } },
      'gpu',
      { exclusionMs: 90_000 },
    ],
    [
      'are those of the configuration without a group',
      { drain: { timeout: '2h' } },
      undefined,
      { timeoutMs: 60 * MINUTE },
    ],
    [
      'are those of the configuration when the group is gone',
      { drain: { timeout: '2h' } },
      'web',
      { timeoutMs: 60 * MINUTE },
    ],
    [
      'are those of the configuration when the group has a mistake',
      { drain: { timeout: 'soon', onTimeout: 'Abort' } },
      'gpu',
      { timeoutMs: 60 * MINUTE, onTimeout: 'Force' },
    ],
    [
      'are those of its group when only another field of it is wrong',
      { drain: { onTimeout: 'Abort', emptyDirPods: 'Block' }, retry: { maxBackoff: '30m' } },
      'gpu',
      { timeoutMs: 60 * MINUTE, onTimeout: 'Abort', emptyDirPods: 'Block' },
    ],
  ])('%s', (_, group, name, expected) => {
    expect(of(config, group, name)).toMatchObject(expected);
  });
});
