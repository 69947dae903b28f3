import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { UPDATE_SECONDS_ANNOTATION, UPDATE_STARTED_ANNOTATION } from '@brupop/shared/api/names';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { Member } from '../cluster/snapshot.ts';
import { ago, aMember, aSnapshot, MINUTE, NEW, NOW, type ShadowParts, underWay } from '../testing/objects.ts';
import type { Outlook } from './forecast.ts';
import { plan } from './plan.ts';

const at = (minutes: number): string => rfc3339(NOW + minutes * MINUTE);
const took = (minutes: number): ShadowParts => ({ annotations: { [UPDATE_SECONDS_ANNOTATION]: String(minutes * 60) } });
/** It has run for so many minutes. */
const updating = (minutes: number): ShadowParts => ({
  spec: underWay('StagedAndPerformedUpdate'),
  status: { current_state: 'Idle' },
  annotations: { [UPDATE_STARTED_ANNOTATION]: ago(minutes * MINUTE) },
});
const done = { ...took(10), status: { current_version: NEW } };

function outlook(members: readonly Member[], spec: object = {}, status: BrupopConfigStatus = {}, now = NOW): Outlook {
  const snapshot = aSnapshot(members, spec, now);
  const config = snapshot.config && { ...snapshot.config, status };
  return plan({ ...snapshot, config }, now).outlook;
}

const waiting = ['b', 'c', 'd'].map((name) => aMember(name));
const turns = ({ turns: found }: Outlook): (string | undefined)[][] =>
  found.map(({ node, reason, expectedTime }) => [node, reason, expectedTime]);

test('each place is taken by the next node as soon as it is free, for as long as updates usually take', () => {
  const found = outlook([aMember('a', {}, updating(4)), ...waiting, aMember('z', {}, done)]);
  expect(turns(found)).toEqual([
    ['b', 'WaitingForCapacity', at(16)],
    ['c', 'WaitingForCapacity', at(26)],
    ['d', 'WaitingForCapacity', at(36)],
  ]);
  expect(found.completionTime).toBe(at(36));
});

test('two places go side by side', () => {
  const members = [aMember('a', {}, updating(4)), aMember('aa', {}, updating(0)), ...waiting, aMember('z', {}, done)];
  const found = outlook(members, { concurrency: { maxUpdating: 2 } });
  expect(turns(found).map(([, , time]) => time)).toEqual([at(16), at(20), at(26)]);
});

test('without a measured update the configured estimate holds', () => {
  const found = outlook([aMember('a', {}, updating(4)), ...waiting]);
  expect(turns(found).map(([, , time]) => time)).toEqual([at(56), at(86), at(116)]);
  expect([found.completionTime, found.measuredMs]).toEqual([at(116), undefined]);
});

test('nodes that can go are named before those that a person must see to', () => {
  const found = outlook([aMember('a', { unschedulable: true }), aMember('aa', {}, updating(4)), ...waiting]);
  expect(turns(found).map(([node]) => node)).toEqual(['b', 'c', 'd', 'a']);
});

test('of an update that takes longer than usual nobody can tell when it is through', () => {
  const late = aMember('a', {}, updating(60));
  const found = outlook([late, ...waiting.slice(0, 1), aMember('z', {}, done)]);
  expect(turns(found)).toEqual([['b', 'WaitingForCapacity', undefined]]);
  expect(found.completionTime).toBeUndefined();
  const two = [late, aMember('aa', {}, updating(4)), ...waiting.slice(0, 1), aMember('z', {}, done)];
  expect(turns(outlook(two, { concurrency: { maxUpdating: 2 } }))).toEqual([['b', 'WaitingForCapacity', at(16)]]);
});

test('while nodes that are unavailable keep all others waiting nobody can tell', () => {
  const found = outlook([aMember('a', { ready: false }), ...waiting], { concurrency: { maxUnavailable: 1 } });
  expect(new Set(turns(found).map(([, , time]) => time))).toEqual(new Set([undefined]));
  expect(found.completionTime).toBeUndefined();
});

test('windows are waited for', () => {
  // NOW is 08:00 UTC on a Friday. Two updates fit into each hour.
  const maintenance = { windows: [{ schedule: '0 9 * * *', duration: '30m' }] };
  const found = outlook([...waiting, aMember('z', {}, done)], { maintenance });
  const day = 24 * 60;
  expect(turns(found).map(([, , time]) => time)).toEqual([at(70), at(80), at(day + 70)]);
  expect(found.completionTime).toBe(at(day + 70));
});

test('what a person must see to holds nobody else up, and has no time', () => {
  const found = outlook([aMember('a', { unschedulable: true }), ...waiting, aMember('z', {}, done)]);
  expect(turns(found).at(-1)).toEqual(['a', 'CordonedByOthers', undefined]);
  expect(found.completionTime).toBe(at(30));
});

test('in a pause nobody can tell', () => {
  const found = outlook([...waiting, aMember('z', {}, done)], { paused: true });
  expect(turns(found)).toEqual(['b', 'c', 'd'].map((name) => [name, 'Paused', undefined]));
  expect(found.completionTime).toBeUndefined();
});

test('at most 20 nodes are named, and all count', () => {
  const members = Array.from({ length: 50 }, (_, i) => aMember(`node-${100 + i}`));
  const found = outlook([...members, aMember('z', {}, done)]);
  expect(found.turns.map(({ node }) => node)).toEqual(members.slice(1, 21).map(({ name }) => name));
  expect(found.completionTime).toBe(at(500));
});

test('a time that is about right stays as it was written', () => {
  const members = [aMember('a', {}, updating(4)), ...waiting.slice(0, 1), aMember('z', {}, done)];
  const before = (minutes: number): BrupopConfigStatus => ({
    plan: [{ node: 'b', reason: 'WaitingForCapacity', expectedTime: at(minutes) }],
    expectedCompletionTime: at(minutes),
  });
  expect(turns(outlook(members, {}, before(12)))[0]?.[2]).toBe(at(12));
  expect(turns(outlook(members, {}, before(22)))[0]?.[2]).toBe(at(16));
  expect(turns(outlook(members, {}, before(-1)))[0]?.[2]).toBe(at(16));
  expect(outlook(members, {}, before(12)).completionTime).toBe(at(12));
});

test('a node that waits for a time of its own holds nobody else up', () => {
  const young = aMember('a', {}, { status: { target_version: '1.22.0' } });
  const versions = [{ version: NEW, running: 0, offered: 1, firstOfferedTime: ago(60 * MINUTE) }];
  const members = [young, aMember('b'), aMember('bb', {}, updating(4)), aMember('z', {}, done)];
  const found = outlook(members, { versions: { minimumAge: '1h' } }, { versions });
  expect(turns(found)).toEqual([
    ['a', 'VersionTooYoung', at(70)],
    ['b', 'WaitingForCapacity', at(16)],
  ]);
});

test('zones and nodes that may be away limit how many go side by side', () => {
  const maintenance = { blackouts: [{ from: ago(MINUTE), to: ago(0 - 10 * MINUTE) }] };
  const members = [...waiting, aMember('z', {}, done)];
  const ends = (concurrency: object): (string | undefined)[] =>
    turns(outlook(members, { maintenance, concurrency: { maxUpdating: 4, ...concurrency } })).map(([, , time]) => time);
  expect(ends({})).toEqual([at(20), at(20), at(20)]);
  expect(ends({ maxPerZone: 1 })).toEqual([at(20), at(30), at(40)]);
  expect(ends({ maxUnavailable: 2 })).toEqual([at(20), at(20), at(30)]);
});

test('nobody looks further ahead than the windows of today reach', () => {
  // In every second of a window of an hour one update fits: 5,000 nodes would take 13 years.
  const many = Array.from({ length: 5_000 }, (_, i) => aMember(`node-${i}`));
  const maintenance = { windows: [{ schedule: '0 9 * * *', duration: '1h' }], updateEstimate: '45m' };
  const startedAt = performance.now();
  const found = outlook(many, { maintenance });
  expect(found.completionTime).toBeUndefined();
  expect(found.turns[0]?.expectedTime).toBe(at(105));
  // It took 12 s when each day had a calendar of its own.
  expect(performance.now() - startedAt).toBeLessThan(5_000);
});

test('nine in ten of the latest updates set the pace, and of a few all but the slowest', () => {
  const measured = Array.from({ length: 10 }, (_, i) =>
    aMember(`z${i}`, {}, { ...took(i + 1), status: { current_version: NEW } }),
  );
  expect(outlook(measured).measuredMs).toBe(9 * MINUTE);
  expect(outlook(measured.slice(0, 5)).measuredMs).toBe(4 * MINUTE);
  expect(outlook(measured.slice(0, 1)).measuredMs).toBe(MINUTE);
});

test('versions are counted by who runs them and who is offered them', () => {
  const found = outlook([...waiting, aMember('z', {}, done), aMember('other', { managed: false })]);
  expect(found.versions).toEqual([
    { version: '1.20.0', running: 3, offered: 0 },
    { version: NEW, running: 1, offered: 3 },
  ]);
});
