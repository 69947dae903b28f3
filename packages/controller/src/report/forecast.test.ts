import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { ManagedNode } from '../cluster/snapshot.ts';
import {
  aGroup,
  ago,
  aManagedNode,
  aSnapshot,
  MINUTE,
  NEW,
  NOW,
  type ShadowParts,
  underWay,
  withGroups,
} from '../testing/objects.ts';
import type { Forecast } from './forecast.ts';
import { wholePlan as plan } from '../whole-plan.ts';

const at = (minutes: number): string => rfc3339(NOW + minutes * MINUTE);
const took = (minutes: number): ShadowParts => ({ record: { updateSeconds: minutes * 60 } });
/** It has run for the given number of minutes. */
const updating = (minutes: number): ShadowParts => ({
  spec: underWay('StagedAndPerformedUpdate'),
  status: { current_state: 'Idle' },
  record: { startedAt: ago(minutes * MINUTE) },
});
const done = { ...took(10), status: { current_version: NEW } };
const measured = ['v', 'w', 'x', 'y', 'z'].map((name) => aManagedNode(name, {}, done));

function forecast(
  managedNodes: readonly ManagedNode[],
  spec: object = {},
  status: BrupopConfigStatus = {},
  now = NOW,
): Forecast {
  const snapshot = aSnapshot(managedNodes, spec, now);
  const config = snapshot.config && { ...snapshot.config, status };
  return plan({ ...snapshot, config }, now).forecast;
}

const waiting = ['b', 'c', 'd'].map((name) => aManagedNode(name));
const queue = ({ queue: found }: Forecast): (string | undefined)[][] =>
  found.map(({ node, reason, expectedTime }) => [node, reason, expectedTime]);

test('each slot goes to the next node as soon as it is free, for as long as updates usually take', () => {
  const found = forecast([aManagedNode('a', {}, updating(4)), ...waiting, ...measured]);
  expect(queue(found)).toEqual([
    ['b', 'WaitingForCapacity', at(16)],
    ['c', 'WaitingForCapacity', at(26)],
    ['d', 'WaitingForCapacity', at(36)],
  ]);
  expect(found.completionTime).toBe(at(36));
});

test('two slots are used in parallel', () => {
  const managedNodes = [
    aManagedNode('a', {}, updating(4)),
    aManagedNode('aa', {}, updating(0)),
    ...waiting,
    ...measured,
  ];
  const found = forecast(managedNodes, { concurrency: { maxUpdating: 2 } });
  expect(queue(found).map(([, , time]) => time)).toEqual([at(16), at(20), at(26)]);
});

test('without a measured update the configured estimate holds', () => {
  const found = forecast([aManagedNode('a', {}, updating(4)), ...waiting]);
  expect(queue(found).map(([, , time]) => time)).toEqual([at(56), at(86), at(116)]);
  expect([found.completionTime, found.measuredMs]).toEqual([at(116), undefined]);
});

test('nodes that can update are named before those that need a user', () => {
  const found = forecast([aManagedNode('a', { unschedulable: true }), aManagedNode('aa', {}, updating(4)), ...waiting]);
  expect(queue(found).map(([node]) => node)).toEqual(['b', 'c', 'd', 'a']);
});

test('the end of an update that takes longer than usual is unknown', () => {
  const late = aManagedNode('a', {}, updating(60));
  const found = forecast([late, ...waiting.slice(0, 1), ...measured]);
  expect(queue(found)).toEqual([['b', 'WaitingForCapacity', undefined]]);
  expect(found.completionTime).toBeUndefined();
  const two = [late, aManagedNode('aa', {}, updating(4)), ...waiting.slice(0, 1), ...measured];
  expect(queue(forecast(two, { concurrency: { maxUpdating: 2 } }))).toEqual([['b', 'WaitingForCapacity', at(16)]]);
});

test('while unavailable nodes block all others the end is unknown', () => {
  const found = forecast([aManagedNode('a', { ready: false }), ...waiting], { concurrency: { maxUnavailable: 1 } });
  expect(new Set(queue(found).map(([, , time]) => time))).toEqual(new Set([undefined]));
  expect(found.completionTime).toBeUndefined();
});

test('windows are waited for', () => {
  // NOW is 08:00 UTC on a Friday. Two updates fit into each hour.
  const maintenance = { windows: [{ schedule: '0 9 * * *', duration: '30m' }] };
  const found = forecast([...waiting, ...measured], { maintenance });
  const day = 24 * 60;
  expect(queue(found).map(([, , time]) => time)).toEqual([at(70), at(80), at(day + 70)]);
  expect(found.completionTime).toBe(at(day + 70));
});

test('a node that needs a user does not delay other nodes, and has no time', () => {
  const found = forecast([aManagedNode('a', { unschedulable: true }), ...waiting, ...measured]);
  expect(queue(found).at(-1)).toEqual(['a', 'CordonedExternally', undefined]);
  expect(found.completionTime).toBe(at(30));
});

test('in a pause the end is unknown', () => {
  const found = forecast([...waiting, ...measured], { paused: true });
  expect(queue(found)).toEqual(['b', 'c', 'd'].map((name) => [name, 'Paused', undefined]));
  expect(found.completionTime).toBeUndefined();
});

test('at most 20 nodes are named, and all count', () => {
  const managedNodes = Array.from({ length: 50 }, (_, i) => aManagedNode(`node-${100 + i}`));
  const found = forecast([...managedNodes, ...measured]);
  expect(found.queue.map(({ node }) => node)).toEqual(managedNodes.slice(1, 21).map(({ name }) => name));
  expect(found.completionTime).toBe(at(500));
});

test('a time that is about right stays as it was written', () => {
  const managedNodes = [aManagedNode('a', {}, updating(4)), ...waiting.slice(0, 1), ...measured];
  const before = (minutes: number): BrupopConfigStatus => ({
    plan: [{ node: 'b', reason: 'WaitingForCapacity', expectedTime: at(minutes) }],
    expectedCompletionTime: at(minutes),
  });
  expect(queue(forecast(managedNodes, {}, before(12)))[0]?.[2]).toBe(at(12));
  expect(queue(forecast(managedNodes, {}, before(22)))[0]?.[2]).toBe(at(16));
  expect(queue(forecast(managedNodes, {}, before(-1)))[0]?.[2]).toBe(at(16));
  expect(forecast(managedNodes, {}, before(12)).completionTime).toBe(at(12));
});

test('a node that waits for its own retry time does not delay other nodes', () => {
  const young = aManagedNode('a', {}, { status: { target_version: '1.22.0' } });
  const versions = [{ version: NEW, running: 0, offered: 1, firstOfferedTime: ago(60 * MINUTE) }];
  const other = aManagedNode('y', {}, { status: { current_version: '1.22.0', target_version: '1.22.0' } });
  const managedNodes = [young, aManagedNode('b'), aManagedNode('bb', {}, updating(4)), other, ...measured];
  const found = forecast(managedNodes, { versions: { minimumAge: '1h' } }, { versions });
  expect(queue(found)).toEqual([
    ['a', 'MinimumAgeNotReached', at(70)],
    ['b', 'WaitingForCapacity', at(16)],
  ]);
});

test('maxPerZone and maxUnavailable limit how many update in parallel', () => {
  const maintenance = { blackouts: [{ from: ago(MINUTE), to: ago(0 - 10 * MINUTE) }] };
  const managedNodes = [...waiting, ...measured];
  const ends = (concurrency: object): (string | undefined)[] =>
    queue(forecast(managedNodes, { maintenance, concurrency: { maxUpdating: 4, ...concurrency } })).map(
      ([, , time]) => time,
    );
  expect(ends({})).toEqual([at(20), at(20), at(20)]);
  expect(ends({ maxPerZone: 1 })).toEqual([at(20), at(30), at(40)]);
  expect(ends({ maxUnavailable: 2 })).toEqual([at(20), at(20), at(30)]);
});

test('the forecast ends with the windows known today', () => {
  // In every second of a window of an hour one update fits: 5,000 nodes would take 13 years.
  const many = Array.from({ length: 5_000 }, (_, i) => aManagedNode(`node-${i}`));
  const maintenance = { windows: [{ schedule: '0 9 * * *', duration: '1h' }], updateEstimate: '45m' };
  const found = forecast(many, { maintenance });
  expect(found.completionTime).toBeUndefined();
  expect(found.queue[0]?.expectedTime).toBe(at(105));
});

test('nine in ten of the latest updates set the pace, and of a few all but the two slowest', () => {
  const took30 = Array.from({ length: 30 }, (_, i) =>
    aManagedNode(`z${i}`, {}, { ...took(i + 1), status: { current_version: NEW } }),
  );
  expect(forecast(took30).measuredMs).toBe(27 * MINUTE);
  expect(forecast(took30.slice(0, 10)).measuredMs).toBe(8 * MINUTE);
  expect(forecast(took30.slice(0, 5)).measuredMs).toBe(3 * MINUTE);
  expect(forecast(took30.slice(0, 4)).measuredMs).toBeUndefined();
});

test.each([3, 5, 8, 20])('of %i measured updates, two that took a day close no window for the others', (count) => {
  const slow = ['y', 'z'].map((name) => aManagedNode(name, {}, { ...done, ...took(24 * 60) }));
  const others = Array.from({ length: count - 2 }, (_, i) => aManagedNode(`x${i}`, {}, done));
  const { measuredMs = 0 } = forecast([...slow, ...others]);
  expect(measuredMs).toBeLessThanOrEqual(10 * MINUTE);
});

test('versions are counted by the nodes that run them and that are offered them', () => {
  const found = forecast([...waiting, aManagedNode('z', {}, done), aManagedNode('other', { managed: false })]);
  expect(found.versions).toEqual([
    { version: '1.20.0', running: 3, offered: 0, hasAge: true },
    { version: NEW, running: 1, offered: 3, hasAge: true },
  ]);
});

describe('the expected end counts nodes that wait for others', () => {
  const inPool = (name: string, pool: string): ManagedNode => aManagedNode(name, { labels: { pool } });

  const endOf = (groups: readonly BottlerocketNodeGroup[], spec: object = {}): Forecast =>
    plan(withGroups(aSnapshot([inPool('b', 'web'), inPool('c', 'db'), ...measured], spec), groups), NOW).forecast;

  test('a group after another one, with its soak and its window', () => {
    const found = endOf([aGroup('web'), aGroup('db', { after: ['web'], soak: '2h' })], { paused: false });
    expect(found.completionTime).toBe(at(10 + 120 + 10));
    // NOW is 08:00 UTC: web ends at 09:10, the soak at 11:10, and db gets the window of the next day.
    const windows = [{ schedule: '0 9 * * *', duration: '1h' }];
    const waits = endOf([aGroup('web'), aGroup('db', { after: ['web'], soak: '2h' })], { maintenance: { windows } });
    expect(waits.completionTime).toBe(at(24 * 60 + 70));
    expect(waits.ofGroups.get('db')?.completionTime).toBe(at(24 * 60 + 70));
    expect(waits.ofGroups.get('web')?.completionTime).toBe(at(70));
  });

  test('nodes after canaries, with the soak', () => {
    const rollout = { canary: { nodes: 1 }, soak: '1h' };
    const found = forecast([aManagedNode('a'), aManagedNode('b'), ...measured], { rollout });
    expect(found.completionTime).toBe(at(10 + 60 + 10));
  });

  test('is unknown if the group that goes first waits for a user, or the groups wait for each other', () => {
    const cordoned = aManagedNode('b', { labels: { pool: 'web' }, unschedulable: true });
    const groups = [aGroup('web'), aGroup('db', { after: ['web'] })];
    const nodes = [cordoned, inPool('c', 'db'), inPool('d', 'other'), ...measured];
    expect(plan(withGroups(aSnapshot(nodes, {}), groups), NOW).forecast.completionTime).toBeUndefined();
    const circle = endOf([aGroup('web', { after: ['db'] }), aGroup('db', { after: ['web'] })]);
    expect(circle.completionTime).toBeUndefined();
  });
});
