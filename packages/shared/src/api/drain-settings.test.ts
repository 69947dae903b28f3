import { DRAIN_DEFAULTS, readDrainSettings } from './config-spec.ts';

test('without a configuration the defaults hold', () => {
  expect(readDrainSettings({})).toEqual({ value: DRAIN_DEFAULTS, problems: [] });
  expect(DRAIN_DEFAULTS).toEqual({
    timeoutMs: 1_800_000,
    onTimeout: 'Abort',
    // A record of an earlier release.
    blockedBudgets: 'Wait',
    emptyDirPods: 'Evict',
    unmanagedPods: 'Evict',
    maxGracePeriodMs: undefined,
    volumeDetachTimeoutMs: 120_000,
    replacementTimeoutMs: 120_000,
    taintWaitingNodes: false,
    startupTaint: false,
    exclusionMs: 0,
  });
});

test('what users set is read', () => {
  const drain = { timeout: '1m', onTimeout: 'Force', emptyDirPods: 'Block', maxGracePeriod: '5s' };
  const { value: settings, problems } = readDrainSettings({ drain, loadBalancer: { exclusion: '30s' } });
  expect(problems).toEqual([]);
  expect(settings).toMatchObject({ timeoutMs: 60_000, onTimeout: 'Force', emptyDirPods: 'Block' });
  expect(settings).toMatchObject({ maxGracePeriodMs: 5_000, exclusionMs: 30_000 });
});

test.each<[string, unknown]>([
  [
    'spec.drain.timeout: expected a duration from 1m to 24h, such as 90s or 1h30m, found "59s"',
    { drain: { timeout: '59s' } },
  ],
  [
    'spec.drain.timeout: expected a duration from 1m to 24h, such as 90s or 1h30m, found 1800',
    { drain: { timeout: 1_800 } },
  ],
  ['spec.drain.onTimeout: expected one of Abort, Force, found "force"', { drain: { onTimeout: 'force' } }],
  ['spec.drain.emptyDirPods: expected one of Evict, Block, found true', { drain: { emptyDirPods: true } }],
  ['spec.drain.taintWaitingNodes: expected true or false, found "yes"', { drain: { taintWaitingNodes: 'yes' } }],
  ['spec.drain: expected an object, found a list', { drain: [] }],
  [
    'spec.loadBalancer.exclusion: expected a duration from 0s to 1h, such as 90s or 1h30m, found "0.5s"',
    { loadBalancer: { exclusion: '0.5s' } },
  ],
])('%s', (problem, spec) => {
  expect(readDrainSettings(spec).problems).toEqual([problem]);
});

test.each([undefined, null, 'drain', 7, [], { drain: null }, { drain: 'fast' }])(
  'a spec of %j has the defaults',
  (spec) => {
    expect(readDrainSettings(spec).value).toEqual(DRAIN_DEFAULTS);
  },
);
