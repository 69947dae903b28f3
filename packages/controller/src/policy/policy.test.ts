import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { wholePlan as plan } from '../whole-plan.ts';
import { aManagedNode, aSnapshot, MINUTE, NEW, NOW, underWay, withPolicy } from '../testing/objects.ts';
import { nodesAtOnce, readPolicy, type UpdatePolicy } from './policy.ts';

const read = (spec: unknown): ReturnType<typeof readPolicy> => readPolicy(aSnapshot([], spec).config);

const limits: Record<string, [unknown, number, number]> = {
  'without a limit one node updates at once': [{}, 10, 1],
  'a number is the limit': [{ concurrency: { maxUpdating: 3 } }, 10, 3],
  'a percentage is rounded down': [{ concurrency: { maxUpdating: '25%' } }, 11, 2],
  'a percentage of few nodes is at least 1': [{ concurrency: { maxUpdating: '1%' } }, 10, 1],
  'all nodes may update at once': [{ concurrency: { maxUpdating: '100%' } }, 10, 10],
};
test.each(Object.entries(limits))('%s', (_, [spec, managed, expected]) => {
  const settings = read(spec);
  expect(settings.problem).toBeUndefined();
  expect(nodesAtOnce(settings.concurrency.maxUpdating, managed)).toBe(expected);
});

const problems: Record<string, [unknown, RegExp]> = {
  '0 % cannot be followed': [{ concurrency: { maxUpdating: '0%' } }, /maxUpdating: expected .* found "0%"/],
  '101 % cannot be followed': [{ concurrency: { maxUpdating: '101%' } }, /found "101%"/],
  'a number in quotes cannot be followed': [{ concurrency: { maxUpdating: '3' } }, /found "3"/],
  '0 cannot be followed': [{ concurrency: { maxUpdating: 0 } }, /found 0/],
  'half a node cannot be followed': [{ concurrency: { maxUpdating: 1.5 } }, /found 1.5/],
  'a list cannot be followed': [{ concurrency: { maxUpdating: [1] } }, /found a list/],
  'a pause that is neither true nor false cannot be followed': [{ paused: 'yes' }, /paused: expected .* found "yes"/],
};
test.each(Object.entries(problems))('%s', (_, [spec, expected]) => expect(read(spec).problem).toMatch(expected));

test.each([
  ['a text', 'a string'],
  [['paused'], 'a list'],
  [7, 'a number'],
])('a spec that is %p starts nothing, and says so', (spec, found) => {
  const { config } = aSnapshot([], {});
  const misshapen = { ...config, spec } as unknown as BrupopConfig;
  expect(readPolicy(misshapen).problem).toBe(`spec: expected an object, found ${found}`);
});

test('a spec of null means the defaults', () => {
  const { config } = aSnapshot([], {});
  expect(readPolicy({ ...config, spec: null } as unknown as BrupopConfig).problem).toBeUndefined();
});

describe('without a configuration', () => {
  const outcomes = (policy: UpdatePolicy): string[] =>
    plan({ ...withPolicy(aSnapshot([aManagedNode('a')], {}), policy), config: undefined }, NOW).specs.map(
      ({ outcome }) => outcome,
    );

  it('nothing starts', () => {
    expect(outcomes(read({}))).toEqual(['Started']);
    expect(outcomes(readPolicy(undefined))).toEqual([]);
  });

  it('nodes that are updating follow the one that was deleted, and a pause remains', () => {
    const before = read({ paused: true, pauseReason: 'freeze', drain: { timeout: '1h' } });
    const after = readPolicy(undefined, before);
    expect(after).toMatchObject({ paused: true, pauseReason: 'freeze', drain: { timeoutMs: 60 * MINUTE } });
    expect(after.problem).toContain('does not exist');
  });
});

test('how long a node is monitored is a setting that acts at the next plan', () => {
  const node = aManagedNode(
    'a',
    {},
    { spec: underWay('MonitoringUpdate', 5 * MINUTE), status: { current_version: NEW } },
  );
  const outcomes = (healthyFor: string): string[] =>
    plan(aSnapshot([node], { monitoring: { healthyFor } }), NOW).specs.map(({ outcome }) => outcome);
  expect(['1h', '6m', '5m', '0s'].map(outcomes)).toEqual([[], [], ['Succeeded'], ['Succeeded']]);
});

test('a node that is not healthy in time counts as failed by the limit that is set now', () => {
  const node = aManagedNode(
    'a',
    { ready: false },
    { spec: underWay('MonitoringUpdate', 10 * MINUTE), status: { current_version: NEW } },
  );
  const reasons = (timeout: string): string[] =>
    plan(aSnapshot([node], { monitoring: { timeout, healthyFor: '1m' } }), NOW)
      .conditions.flat()
      .map(({ progressing }) => progressing.reason);
  expect(reasons('5m')).toEqual(['DeadlineExceeded']);
  expect(reasons('30m')).not.toEqual(['DeadlineExceeded']);
});

test('a pause with its reason is read', () => {
  expect(read({ paused: true, pauseReason: 'holidays' })).toMatchObject({ paused: true, pauseReason: 'holidays' });
});

test('of a broken configuration that nothing was in force before all counts that can be made out', () => {
  const zone = { maintenance: { timeZone: 'Mars/Phobos', windows: [{ schedule: '0 2 * * *', duration: '1h' }] } };
  expect(read(zone).calendar.at(0).open).toBe(false);
  const pinned = read({ versions: { pin: '1.20.0' }, order: 'Nope' });
  expect([pinned.versions.pin, pinned.problem]).toEqual(['1.20.0', expect.stringContaining('spec.order')]);
});
