import { DRAIN_DEFAULTS, readDrainSettings } from './brupop-config.ts';

test('without a configuration the defaults hold', () => {
  expect(readDrainSettings(undefined)).toEqual({ settings: DRAIN_DEFAULTS, problem: undefined });
  expect(DRAIN_DEFAULTS).toEqual({
    timeoutMs: 1_800_000,
    onTimeout: 'Abort',
    emptyDirPods: 'Evict',
    unmanagedPods: 'Evict',
    maxGracePeriodSeconds: undefined,
    volumeDetachTimeoutMs: 120_000,
    replacementTimeoutMs: 120_000,
    taintWaitingNodes: false,
    exclusionMs: 0,
  });
});

test('what people set is read', () => {
  const drain = { timeoutSeconds: 60, onTimeout: 'Force', emptyDirPods: 'Block', maxGracePeriodSeconds: 5 };
  const { settings, problem } = readDrainSettings({ drain, loadBalancer: { exclusionSeconds: 30 } });
  expect(problem).toBeUndefined();
  expect(settings).toMatchObject({ timeoutMs: 60_000, onTimeout: 'Force', emptyDirPods: 'Block' });
  expect(settings).toMatchObject({ maxGracePeriodSeconds: 5, exclusionMs: 30_000 });
});

test.each<[string, unknown]>([
  ['spec.drain.timeoutSeconds: expected a whole number from 60 to 86400, found 59', { drain: { timeoutSeconds: 59 } }],
  [
    'spec.drain.timeoutSeconds: expected a whole number from 60 to 86400, found "1h"',
    { drain: { timeoutSeconds: '1h' } },
  ],
  ['spec.drain.onTimeout: expected Abort or Force, found "force"', { drain: { onTimeout: 'force' } }],
  ['spec.drain.emptyDirPods: expected Evict or Block, found true', { drain: { emptyDirPods: true } }],
  ['spec.drain.taintWaitingNodes: expected true or false, found "yes"', { drain: { taintWaitingNodes: 'yes' } }],
  [
    'spec.drain.maxGracePeriodSeconds: expected a whole number from 1 to 86400, found 0',
    { drain: { maxGracePeriodSeconds: 0 } },
  ],
  [
    'spec.loadBalancer.exclusionSeconds: expected a whole number from 0 to 3600, found 0.5',
    { loadBalancer: { exclusionSeconds: 0.5 } },
  ],
])('%s', (problem, spec) => {
  expect(readDrainSettings(spec).problem).toBe(problem);
});

test.each([undefined, null, 'drain', 7, [], { drain: null }, { drain: 'fast' }])(
  'a spec of %j has the defaults',
  (spec) => {
    expect(readDrainSettings(spec).settings).toEqual(DRAIN_DEFAULTS);
  },
);
