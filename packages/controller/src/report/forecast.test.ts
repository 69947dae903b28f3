import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import { UPDATE_NOW_ANNOTATION } from '@brupop/shared/api/names';
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
import type { FleetForecast, Forecast } from './forecast.ts';
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
): FleetForecast {
  const snapshot = aSnapshot(managedNodes, spec, now);
  const config = snapshot.config && { ...snapshot.config, status };
  return plan({ ...snapshot, config }, now).forecast;
}

const waiting = ['b', 'c', 'd'].map((name) => aManagedNode(name));
const queue = ({ queue: found }: Forecast): (string | undefined)[][] =>
  found.map(({ node, reason, expectedTime }) => [node, reason, expectedTime]);

test('after a blackout without an end the times are those that the Kubernetes API accepts', () => {
  const blackouts = [{ from: ago(MINUTE), to: '9999-12-31T23:59:59Z' }];
  const found = forecast(waiting, { maintenance: { blackouts } });
  const times = [found.completionTime, ...queue(found).map(([, , time]) => time)];
  expect(new Set(times)).toEqual(new Set(['9999-12-31T23:59:59Z']));
});

test('an expected time that no window has any more is not kept, however little it is wrong', () => {
  // NOW is a Friday.
  const maintenance = { windows: [{ schedule: '0 2 * * THU', duration: '4h' }] };
  const [wednesday, thursday] = ['2027-01-20T02:30:00Z', '2027-01-21T02:30:00Z'];
  const [one] = waiting;
  if (one === undefined) throw new Error('a node waits');
  const plannedFor = (expectedTime: string): BrupopConfigStatus => ({
    plan: [{ node: 'b', version: NEW, reason: 'OutsideMaintenanceWindow', expectedTime }],
    expectedCompletionTime: expectedTime,
  });
  const found = (before: string): unknown[] => {
    const { queue: planned, completionTime } = forecast([one], { maintenance }, plannedFor(before));
    return [planned[0]?.expectedTime, completionTime];
  };
  expect(found(wednesday)).toEqual([thursday, thursday]);
  const later = '2027-01-21T03:00:00Z';
  expect(found(later)).toEqual([later, later]);
});

test('while nodes update and none waits, an expected end that is about right is kept, windows or not', () => {
  const updatingOnly = [aManagedNode('a', {}, updating(4)), ...measured];
  const maintenance = { windows: [{ schedule: '0 2 * * THU', duration: '4h' }] };
  for (const spec of [{}, { maintenance }]) {
    const { completionTime = '' } = forecast(updatingOnly, spec);
    const later = rfc3339(Date.parse(completionTime) + 2 * 60_000);
    expect(forecast(updatingOnly, spec, { expectedCompletionTime: later }).completionTime).toBe(later);
  }
});

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

test('a node keeps its position while pods are being listed, and the end is unknown', () => {
  const found = forecast([...waiting, ...measured], { health: { workloads: 'Required' } });
  expect(queue(found).map(([node, reason]) => [node, reason])).toEqual([
    ['b', 'WaitingForCapacity'],
    ['c', 'WaitingForCapacity'],
    ['d', 'WaitingForCapacity'],
  ]);
  expect(found.completionTime).toBeUndefined();
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

test('a node whose own update takes longer than the window is still open has the next one', () => {
  const maintenance = { windows: [{ schedule: '0 9 * * *', duration: '1h' }] };
  const slow = aManagedNode('c', {}, took(41));
  const found = forecast([aManagedNode('b'), slow, ...measured], { maintenance });
  expect(queue(found).map(([, , time]) => time)).toEqual([at(70), at(24 * 60 + 60 + 41)]);
});

test('the rollout is complete when the last node is, also if another one comes after it', () => {
  const maintenance = { windows: [{ schedule: '0 9 * * *', duration: '1h' }] };
  const nodes = [aManagedNode('b', {}, took(41)), aManagedNode('c'), ...measured];
  const found = forecast(nodes, { maintenance, concurrency: { maxUpdating: 2 } });
  expect(queue(found).map(([, , time]) => time)).toEqual([at(101), at(70)]);
  expect(found.completionTime).toBe(at(101));
});

test('updates that take no time at all have a time', () => {
  const instant = measured.map(({ name }) => aManagedNode(name, {}, { ...done, ...took(0) }));
  const maintenance = { windows: [{ schedule: '0 9 * * *', duration: '10m' }] };
  const found = forecast([...waiting, ...instant], { maintenance });
  expect(queue(found).map(([, , time]) => time)).toEqual([at(60), at(24 * 60 + 60), at(48 * 60 + 60)]);
});

test('an update that a user asks for now is expected outside of the windows, but not in a blackout', () => {
  const asked = aManagedNode('b', {}, { annotations: { [UPDATE_NOW_ANNOTATION]: NEW } });
  const nodes = [aManagedNode('a', {}, updating(4)), asked, aManagedNode('c'), ...measured];
  const windows = [{ schedule: '0 9 * * *', duration: '1h' }];
  const ends = (maintenance: object): (string | undefined)[] =>
    queue(forecast(nodes, { maintenance: { windows, ...maintenance } })).map(([, , time]) => time);
  expect(ends({})).toEqual([at(6 + 10), at(60 + 10)]);
  const blackouts = [{ from: ago(MINUTE), to: ago(-40 * MINUTE) }];
  expect(ends({ blackouts })).toEqual([at(40 + 10), at(60 + 10)]);
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

describe('nodes that may start in an hour', () => {
  const versions = [{ version: NEW, running: 0, offered: 1, firstOfferedTime: ago(60 * MINUTE) }];
  const other = aManagedNode('y', {}, { status: { current_version: '1.22.0', target_version: '1.22.0' } });
  const young = (name: string): ManagedNode => aManagedNode(name, {}, { status: { target_version: '1.22.0' } });
  const found = (...nodes: readonly ManagedNode[]): FleetForecast =>
    forecast(
      [...nodes, aManagedNode('bb', {}, updating(4)), other, ...measured],
      { versions: { minimumAge: '1h' } },
      { versions },
    );

  test('do not delay others', () => {
    expect(queue(found(young('a'), aManagedNode('b')))).toEqual([
      ['a', 'MinimumAgeNotReached', at(60 + 10)],
      ['b', 'WaitingForCapacity', at(6 + 10)],
    ]);
  });

  test('share the slots then', () => {
    const all = found(young('a'), young('b'), young('c'));
    expect(queue(all).map(([, , time]) => time)).toEqual([at(70), at(80), at(90)]);
    expect(all.completionTime).toBe(at(90));
  });
});

test('while more nodes update than may, the next one starts when all but one have ended', () => {
  const busy = [aManagedNode('a', {}, updating(4)), aManagedNode('aa', {}, updating(0))];
  // They end after 6 and 10 minutes.
  expect(queue(forecast([...busy, ...waiting, ...measured]))).toEqual([
    ['b', 'WaitingForCapacity', at(10 + 10)],
    ['c', 'WaitingForCapacity', at(10 + 20)],
    ['d', 'WaitingForCapacity', at(10 + 30)],
  ]);
});

test('5,000 nodes in 500 slots take ten updates in a row, or as many nights as these fit into', () => {
  const many = Array.from({ length: 5_000 }, (_, i) => aManagedNode(`node-${10_000 + i}`));
  const ends = (maintenance: object): (string | undefined)[] => {
    const managed = [...many.slice(0, -measured.length), ...measured];
    const { queue: first, completionTime } = forecast(managed, { concurrency: { maxUpdating: '10%' }, maintenance });
    return [first[0]?.expectedTime, completionTime];
  };
  const blackouts = [{ from: ago(MINUTE), to: ago(-5 * MINUTE) }];
  expect(ends({ blackouts })).toEqual([at(5 + 10), at(5 + 10 * 10)]);
  // NOW is 08:00 UTC. With the margin of 10 minutes, five updates in a row fit into each hour.
  expect(ends({ windows: [{ schedule: '0 9 * * *', duration: '1h' }] })).toEqual([at(70), at(24 * 60 + 60 + 50)]);
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

const inPool = (name: string, pool: string): ManagedNode => aManagedNode(name, { labels: { pool } });

describe('in groups', () => {
  const maintenance = { blackouts: [{ from: ago(MINUTE), to: ago(-10 * MINUTE) }] };
  const found = (
    nodes: readonly ManagedNode[],
    maxUpdating: number | string,
    groups: readonly BottlerocketNodeGroup[],
  ): FleetForecast =>
    plan(withGroups(aSnapshot([...nodes, ...measured], { concurrency: { maxUpdating }, maintenance }), groups), NOW)
      .forecast;

  test('nodes share the slots of the fleet', () => {
    const nodes = [inPool('a', 'db'), inPool('b', 'db'), inPool('c', 'web'), inPool('d', 'web')];
    const { queue: all, completionTime, ofGroups } = found(nodes, 2, [aGroup('db'), aGroup('web')]);
    expect(all.map(({ expectedTime }) => expectedTime)).toEqual([at(20), at(20), at(30), at(30)]);
    expect([completionTime, ofGroups.get('db')?.completionTime]).toEqual([at(30), at(20)]);
  });

  test('others with other windows take slots, but no time of its windows', () => {
    // NOW is 08:00 UTC, and one update of db still fits into its window.
    const windows = [{ schedule: '0 8 * * *', duration: '35m' }];
    const nodes = [inPool('a', 'db'), inPool('b', 'web'), inPool('c', 'web'), inPool('d', 'db'), aManagedNode('e')];
    const groups = [aGroup('db', { maintenance: { windows } }), aGroup('web')];
    const { queue: all, completionTime, ofGroups } = found(nodes, 1, groups);
    expect(all.map(({ node, expectedTime }) => [node, expectedTime])).toEqual([
      ['a', at(20)],
      ['b', at(30)],
      ['c', at(40)],
      ['d', at(24 * 60 + 10)],
      ['e', at(60)],
    ]);
    expect([completionTime, ofGroups.get('web')?.completionTime]).toEqual([at(24 * 60 + 10), at(40)]);
  });

  test('the tighter limit counts, and the fleet ends with its slowest group', () => {
    const nodes = [inPool('a', 'db'), inPool('b', 'db'), inPool('c', 'db'), inPool('d', 'web')];
    const groups = [aGroup('db', { concurrency: { maxUpdating: 1 } }), aGroup('web')];
    const { queue: all, completionTime, ofGroups } = found(nodes, 2, groups);
    expect(all.map(({ expectedTime }) => expectedTime)).toEqual([at(20), at(30), at(40), at(30)]);
    expect([completionTime, ofGroups.get('web')?.completionTime]).toEqual([at(40), at(30)]);
  });

  test('a percentage of the fleet is none of the nodes of a group', () => {
    const current = ['q', 'r', 's', 't', 'u'].map((name) => aManagedNode(name, {}, done));
    const nodes = [...current, ...['a', 'b', 'c', 'd'].map((name) => inPool(name, 'db')), aManagedNode('e')];
    // Of 15 nodes.
    const { queue: all, completionTime } = found(nodes, '30%', [aGroup('db')]);
    expect(all.map(({ expectedTime }) => expectedTime)).toEqual([at(20), at(20), at(20), at(20), at(30)]);
    expect(completionTime).toBe(at(30));
    const ofGroup = found(nodes, '30%', [aGroup('db', { concurrency: { maxUpdating: '50%' } })]);
    expect(ofGroup.queue.map(({ expectedTime }) => expectedTime)).toEqual([at(20), at(20), at(30), at(30), at(30)]);
  });
});

describe('the expected end counts nodes that wait for others', () => {
  const endOf = (groups: readonly BottlerocketNodeGroup[], spec: object = {}): FleetForecast =>
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
