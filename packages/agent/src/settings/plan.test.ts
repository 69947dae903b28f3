import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import { type Classified, type Leaves, type SettingClass, MAX_LEAVES, MAX_VALUE } from '@brupop/shared/api/settings';
import type { Allowed, Setting, SettingRecord, ShadowState } from '@brupop/shared/api/shadow';
import { pinned, pinRecords, updaterLeaves } from '@brupop/shared/testing/settings';
import { concernedSettings } from '../state/observe.ts';
import { changeKey, planSettings, type SettingsPlan } from './plan.ts';

const MOTD = 'settings.motd';
const KUBELET = 'settings.kubernetes.max-pods';
const [A, B, USER, X] = ['"a"', '"b"', '"user"', '"before"'];

interface Given {
  readonly wanted?: readonly Setting[];
  readonly allow?: Allowed;
  readonly records?: readonly SettingRecord[];
  readonly live?: Leaves;
  readonly classes?: Readonly<Record<string, SettingClass>>;
  readonly state?: ShadowState;
}

function shadowOf({ wanted = [], allow = 'Live', records = [], state = 'Idle' }: Given): AgentShadow {
  const known = { current_state: 'Idle', current_version: '1.26.0', target_version: '1.26.0', crash_count: 0 } as const;
  const status = { ...known, observedGeneration: 1, bootID: 'b', settings: { records: [...records] } };
  return { uid: 'u', generation: 1, spec: { state, settings: { leaves: [...wanted], allow } }, status };
}

function plan(given: Given): SettingsPlan {
  const { live = new Map(), classes = { [MOTD]: 'Live' } } = given;
  const known = Object.entries(classes).flatMap(([key, one]): (readonly [string, Classified])[] =>
    [A, B, X, USER].map((value) => [changeKey(key, value), { class: one, reason: 'why' }]),
  );
  return planSettings(shadowOf(given), { live, classes: new Map(known), bootID: 'b' });
}

const want = (value: string, more: Partial<Setting> = {}): Setting => ({ key: MOTD, value, owner: 'group', ...more });
const had = (value: string, more: Partial<SettingRecord> = {}): SettingRecord => ({
  key: MOTD,
  value,
  before: X,
  owner: 'group',
  ...more,
});

interface Row {
  readonly wanted?: Setting;
  readonly record?: SettingRecord;
  readonly live?: string;
  /** What is to be on record, by default what is already. */
  readonly records?: SettingRecord | undefined;
  readonly set?: string;
  readonly kept?: SettingRecord;
  readonly recorded?: string;
  readonly problem?: 'conflicts' | 'cannotUnset';
}

const rows: Record<string, Row> = {
  'a value is recorded with what it replaces, and set': {
    wanted: want(A),
    live: X,
    records: had(A),
    set: A,
    kept: had(A),
    recorded: A,
  },
  'a value where the host has none is recorded without a former one': {
    wanted: want(A),
    records: { key: MOTD, value: A, owner: 'group' },
    set: A,
    kept: { key: MOTD, value: A, owner: 'group' },
    recorded: A,
  },
  'a value that the host has already, without a record, is recorded without a former one: it may be from a lost record':
    {
      wanted: want(A),
      live: A,
      records: { key: MOTD, value: A, owner: 'group' },
      kept: { key: MOTD, value: A, owner: 'group' },
      recorded: A,
    },
  'a recorded value is set': { wanted: want(A), record: had(A), live: X, set: A, kept: had(A), recorded: A },
  'a value in force stays': { wanted: want(A), record: had(A), live: A, kept: had(A), recorded: A },
  'another value replaces it directly, and the one before is still known as the own': {
    wanted: want(B),
    record: had(A),
    live: A,
    records: had(B, { earlier: [A] }),
    set: B,
    kept: had(B),
    recorded: B,
  },
  'it is set as well when the one before never was': {
    wanted: want(B),
    record: had(A),
    live: X,
    records: had(B, { earlier: [A] }),
    set: B,
    kept: had(B),
    recorded: B,
  },
  'a spec that is reverted while the other value is in flight: nothing was set': {
    wanted: want(A),
    record: had(B, { earlier: [A] }),
    live: A,
    records: had(A, { earlier: [B] }),
    kept: had(A),
    recorded: A,
  },
  'a spec that is reverted while the other value is in flight: it was set': {
    wanted: want(A),
    record: had(B, { earlier: [A] }),
    live: B,
    records: had(A, { earlier: [B] }),
    set: A,
    kept: had(A),
    recorded: A,
  },
  'a value that is dropped while it is in flight: it was set': { record: had(A), live: A, set: X, recorded: X },
  'a value that is dropped while it is in flight: nothing was set': { record: had(A), live: X, recorded: X },
  'a dropped value, of which an earlier one may still be set': {
    record: had(B, { earlier: [A] }),
    live: A,
    set: X,
    recorded: X,
  },
  'what a user has set instead remains when it is dropped': { record: had(A), live: USER, recorded: USER },
  'what a user has set instead is a conflict': {
    wanted: want(A),
    record: had(A),
    live: USER,
    kept: had(A),
    problem: 'conflicts',
  },
  'it stays one when another value is requested': {
    wanted: want(B),
    record: had(A),
    live: USER,
    kept: had(A),
    problem: 'conflicts',
  },
  'it is none when the user has set what is requested now, which is then theirs': {
    wanted: want(B),
    record: had(A),
    live: B,
    records: had(B, { before: B }),
    kept: had(B, { before: B }),
    recorded: B,
  },
  'and stays when it is no longer requested': { record: had(B, { before: B }), live: B, recorded: B },
  'with force it becomes the former value': {
    wanted: want(A, { force: true }),
    record: had(A, { earlier: [B] }),
    live: USER,
    records: had(A, { before: USER }),
    set: A,
    kept: had(A, { before: USER }),
    recorded: A,
  },
  'a host that had no value before cannot unset it': {
    record: { key: MOTD, value: A, owner: 'group' },
    live: A,
    kept: { key: MOTD, value: A, owner: 'group' },
    recorded: A,
    problem: 'cannotUnset',
  },
  'a value that was not set yet need not be unset': { record: { key: MOTD, value: A, owner: 'group' } },
  'a value that a user has removed by a reset is a conflict': {
    wanted: want(A),
    record: had(A),
    kept: had(A),
    problem: 'conflicts',
  },
  'a record of the value that the host had before sets nothing when it is dropped': {
    record: had(X),
    live: X,
    recorded: X,
  },
  'another owner is noted when all is in force': {
    wanted: want(A, { owner: 'other' }),
    record: had(A),
    live: A,
    kept: had(A, { owner: 'other' }),
    recorded: A,
  },
};

function listOf<T>(value: T | undefined): T[] {
  return value === undefined ? [] : [value];
}

it.each(Object.entries(rows))('%s', (_name, row) => {
  const { wanted, record, live, set, kept, recorded, problem } = row;
  const records = 'records' in row ? row.records : record;
  const leaves = listOf(live).map((value) => [MOTD, value] as const);
  const made = plan({ wanted: listOf(wanted), records: listOf(record), live: new Map(leaves) });
  expect(made.records).toEqual(listOf(records));
  expect([...made.changes.values()]).toEqual(listOf(set));
  expect(made.kept).toEqual(listOf(kept));
  expect([...made.recorded.values()]).toEqual(listOf(recorded));
  expect({ conflicts: made.conflicts, cannotUnset: made.cannotUnset }).toEqual({
    conflicts: problem === 'conflicts' ? [MOTD] : [],
    cannotUnset: problem === 'cannotUnset' ? [MOTD] : [],
  });
});

it('plans the same again from what it has put on record', () => {
  for (const row of Object.values(rows)) {
    const { wanted, record, live } = row;
    const seen = live === undefined ? new Map<string, string>() : new Map([[MOTD, live]]);
    const given = { wanted: wanted === undefined ? [] : [wanted], live: seen };
    const first = plan({ ...given, records: record === undefined ? [] : [record] });
    const second = plan({ ...given, records: first.records });
    expect(second).toEqual(first);
  }
});

it('keeps as many earlier values as a record may have, always the one that the host has, then the latest', () => {
  const values = Array.from({ length: 12 }, (_one, n) => JSON.stringify(`v${n}`));
  let records = [had(values[0] ?? '')];
  for (const value of values.slice(1)) {
    records = [
      ...planSettings(shadowOf({ wanted: [want(value)], records }), {
        live: new Map([[MOTD, values[0] ?? '']]),
        classes: classed(value),
        bootID: 'b',
      }).records,
    ];
  }
  expect(records[0]?.earlier).toEqual([values[0], ...values.slice(4, 11).toReversed()]);
});

function classed(value: string): ReadonlyMap<string, Classified> {
  return new Map([[changeKey(MOTD, value), { class: 'Live', reason: 'why' }]]);
}

const pods: Setting = { key: KUBELET, value: A, owner: 'group' };
const both = {
  wanted: [want(A), pods],
  live: new Map([
    [MOTD, X],
    [KUBELET, X],
  ]),
};

it.each<readonly [Allowed, Readonly<Record<string, SettingClass>>, readonly string[], readonly string[]]>([
  ['None', { [MOTD]: 'Live', [KUBELET]: 'RestartsService' }, [], [KUBELET, MOTD]],
  ['Live', { [MOTD]: 'Live', [KUBELET]: 'RestartsService' }, [MOTD], [KUBELET]],
  ['RestartsService', { [MOTD]: 'Live', [KUBELET]: 'RestartsService' }, [KUBELET, MOTD], []],
  ['RestartsService', { [MOTD]: 'Live', [KUBELET]: 'NeedsReboot' }, [MOTD], [KUBELET]],
  ['NeedsReboot', { [MOTD]: 'Live', [KUBELET]: 'NeedsReboot' }, [KUBELET, MOTD], []],
  ['NeedsReboot', { [MOTD]: 'Live', [KUBELET]: 'Refused' }, [], [KUBELET, MOTD]],
])('with %s allowed and the classes %j sets %j and reports %j', (allow, classes, set, reported) => {
  const made = plan({ ...both, allow, classes });
  expect([...made.changes.keys()]).toEqual(set);
  expect(made.records.map(({ key }) => key)).toEqual(set);
  expect(made.pending).toEqual(reported.map((key) => ({ key, class: classes[key], reason: 'why' })));
  expect(made.unclassified.size).toBe(0);
});

it('sets nothing whose class is not known, and names it', () => {
  const made = plan({ ...both, allow: 'NeedsReboot', classes: { [MOTD]: 'Live' } });
  expect([...made.changes.keys()]).toEqual([MOTD]);
  expect(made.unclassified).toEqual(new Map([[KUBELET, A]]));
  expect(made.pending).toEqual([]);
});

it('asks for the class again when another value is requested: that may be refused', () => {
  const classes = new Map<string, Classified>([[changeKey(MOTD, A), { class: 'Live', reason: 'why' }]]);
  const made = planSettings(shadowOf({ wanted: [want(B)] }), { live: new Map([[MOTD, X]]), classes, bootID: 'b' });
  expect(made.unclassified).toEqual(new Map([[MOTD, B]]));
});

it.each<readonly [Allowed, number]>([
  ['Live', 0],
  ['RestartsService', 1],
])('restores a former value only when its class is allowed: %s', (allow, set) => {
  const records = [had(A, { key: KUBELET })];
  const live = new Map([[KUBELET, A]]);
  const made = plan({ records, live, allow, classes: { [KUBELET]: 'RestartsService' } });
  expect([...made.changes]).toEqual(set === 0 ? [] : [[KUBELET, X]]);
  expect(made.pending).toHaveLength(1 - set);
  expect(made.kept).toEqual(set === 0 ? records : []);
});

it('sets those of the updater whatever is allowed, also when others are refused', () => {
  const pin = { versionLock: '1.27.0', ignoreWaves: true };
  const wanted = [...(pinned(pin)?.leaves ?? []), want(A)];
  const live = new Map([...updaterLeaves({ versionLock: 'latest', ignoreWaves: false }), [MOTD, X]]);
  const made = plan({ wanted, live, allow: 'None', classes: { [MOTD]: 'Refused' } });
  expect(new Map(made.changes)).toEqual(updaterLeaves(pin));
  expect(made.records).toEqual(pinRecords(pin).toSorted((a, b) => (a.key < b.key ? -1 : 1)));
  expect(made.pending).toEqual([{ key: MOTD, class: 'Refused', reason: 'why' }]);
});

it('takes a lock with a leading v for the same', () => {
  const records = pinRecords({ versionLock: '1.25.0' });
  const wanted = pinned({ versionLock: '1.25.0' })?.leaves ?? [];
  const made = plan({ wanted, records, live: updaterLeaves({ versionLock: 'v1.25.0' }) });
  expect(made.changes.size).toBe(0);
});

it.each<readonly [string, RegExp, Given]>([
  [
    'a former value is too long for a record',
    /more than 2048 characters/,
    { wanted: [want(A)], live: new Map([[MOTD, JSON.stringify('x'.repeat(MAX_VALUE))]]) },
  ],
  [
    'no record can have a former value exactly',
    /has a whole number beyond 9007199254740991 for a requested setting, which could not be restored/,
    { wanted: [want(A)], live: new Map([[MOTD, '9223372036854775807']]) },
  ],
  [
    'there would be more records than a status may have',
    /more than 100 settings/,
    {
      wanted: [want(A)],
      records: Array.from({ length: MAX_LEAVES }, (_one, n) => had(A, { key: `settings.a${100 + n}` })),
      live: new Map([[MOTD, X]]),
    },
  ],
])('refuses to set anything when %s', (_what, reason, given) => {
  const made = plan(given);
  expect(made.changes.size).toBe(0);
  expect(made.pending).toContainEqual({ key: MOTD, class: 'Refused', reason: expect.stringMatching(reason) as string });
  expect(made.records).toEqual(given.records ?? []);
});

it('reports no more changes than a status may have', () => {
  const names = Array.from({ length: 80 }, (_one, n) => `settings.a${n}`);
  const wanted = names.map((key) => ({ key: `${key}-new`, value: A, owner: 'group' }));
  const records = names.map((key) => had(A, { key }));
  const made = plan({ wanted, records, live: new Map(names.map((key) => [key, A])), allow: 'None' });
  expect(made.pending).toHaveLength(MAX_LEAVES);
});

const record = had(A);
it.each<readonly [string, Given, readonly string[]]>([
  ['nothing is requested', {}, []],
  ['a setting is requested', { wanted: [want(A)] }, [MOTD]],
  ['something is on record', { records: [record] }, [MOTD]],
  ['a setting is requested and on record', { wanted: [want(A), pods], records: [record] }, [MOTD, KUBELET]],
  ['a version is staged', { wanted: [want(A)], state: 'StagedAndPerformedUpdate' }, [MOTD]],
  ['a reboot is requested', { wanted: [want(A)], state: 'RebootedIntoUpdate' }, []],
  ['the node is watched after its reboot', { records: [record], state: 'MonitoringUpdate' }, []],
])('decides what to read of the host when %s', (_name, given, keys) => {
  expect(concernedSettings(shadowOf(given))).toEqual(keys);
});

it('records of equal values are left out where there would be more than a report may have', () => {
  const many = (from: number, count: number): string[] =>
    Array.from({ length: count }, (_one, n) => `settings.a${from + n}`);
  const [before, now] = [many(100, 60), many(200, 60)];
  const records = before.map((key) => had(A, { key }));
  const live = new Map([...before, ...now].map((key) => [key, A]));
  const made = plan({ records, wanted: now.map((key) => want(A, { key })), live });
  expect(made.records).toEqual(records);
  expect(made.kept).toEqual(records);
  expect(made.pending).toHaveLength(60);
  expect(made.pending[0]).toMatchObject({
    class: 'Refused',
    reason: expect.stringMatching(/more than 100 settings/u) as string,
  });
});
