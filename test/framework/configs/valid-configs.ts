import fc from 'fast-check';
import { formatDuration, parseDuration } from '@brupop/shared/api/spec-schema';
import { fullConfig } from '../examples.ts';
import { specFields } from './fields.ts';
import { ITEMS, specWith } from './spec-with.ts';

const DAY_MS = 86_400_000;
const DAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];
const schedule = (text: string): object => specWith('maintenance.windows[0].schedule', text);
const duration = (text: string): object => specWith('maintenance.windows[0].duration', text);
const zone = (name: string): object => specWith('maintenance.timeZone', name);
const blackout = (from: string, to: string): object => specWith('maintenance.blackouts', [{ from, to }]);
const pin = (version: string): object => specWith('versions.pin', version);
const quorum = (fields: object): object => ({ quorums: [{ ...ITEMS['quorums'], ...fields }] });
const requirement = (key: string, operator: string, values?: readonly string[]): object =>
  specWith('nodeSelector.matchExpressions', [{ key, operator, values }]);

const borders = specFields.flatMap(({ field, type, range = [] }) =>
  range.map((value): [string, object] => [
    `${field} may be ${value}`,
    field === 'retry.maxBackoff' ? longestWait(value) : specWith(field, type === 'integer' ? Number(value) : value),
  ]),
);

function longestWait(wait: string): { readonly retry: object } {
  const backoff = (parseDuration(wait) ?? 0) > DAY_MS ? '24h' : wait;
  return { retry: { backoff, maxBackoff: wait } };
}

/** Valid specs at the limits, by the rule that allows them. */
export const validSpecs: Readonly<Record<string, object>> = {
  'a configuration may have all fields': fullConfig.spec,
  'a configuration may have none': {},
  'groups may be empty': {
    maintenance: {},
    concurrency: {},
    versions: {},
    drain: {},
    timeouts: {},
    monitoring: {},
    retry: {},
  },
  'lists may be empty': { maintenance: { windows: [], blackouts: [] }, versions: { deny: [] } },
  'null counts as left out': {
    paused: null,
    order: null,
    drain: null,
    maintenance: { windows: null },
    versions: { pin: null },
  },
  'a pause may have its reason later': { paused: true, pauseMode: 'Interrupt' },
  'a schedule may be each hour': schedule('0 * * * *'),
  'a schedule may have several minutes': schedule('0,15,30,45 2 * * *'),
  'a schedule may have names': schedule('0 2 * JAN,jul Sat,SUN'),
  'a schedule may have ranges of names': schedule('0 2 * MAR-MAY MON-FRI'),
  'a schedule may have lists of ranges with steps': schedule('0 0-23/6 1-7,15-21/2 */3 1-5/2,SUN'),
  'a schedule may have the lowest values': schedule('0 0 1 1 0'),
  'a schedule may have the highest values': schedule('59 23 31 12 6'),
  'a schedule may have the longest steps': schedule('0 */23 */31 */12 */7'),
  'a schedule may have steps of 1': schedule('0 0-5/1 * */1 *'),
  'a schedule may have leading zeros': schedule('00 02 01 01 *'),
  'a schedule may be aligned with spaces': schedule('0  2  *  *  SAT'),
  'a schedule may have both a day of month and a weekday': schedule('0 2 1-7 * SAT'),
  'a range of weekdays may begin with Sunday': schedule('0 2 * * SUN-TUE'),
  'a window may come each day of the week': specWith('maintenance.windows[0].days', DAYS),
  'a window may come on no day in particular': specWith('maintenance.windows[0].days', []),
  'a window may last a minute': duration('1m'),
  'a window may last hours and minutes': duration('1h30m'),
  'a window may last a week, in hours': duration('168h'),
  'a window may last a week, in minutes': duration('10080m'),
  'there may be 50 windows': specWith(
    'maintenance.windows',
    Array.from({ length: 50 }, () => ITEMS['windows']),
  ),
  'there may be 100 blackouts': specWith(
    'maintenance.blackouts',
    Array.from({ length: 100 }, () => ITEMS['blackouts']),
  ),
  'a duration may have hours, minutes and seconds': specWith('maintenance.margin', '1h2m3s'),
  'a duration may be all seconds': specWith('maintenance.margin', '5400s'),
  'a time zone may be UTC': zone('UTC'),
  'a time zone may be a fixed offset': zone('Etc/GMT+5'),
  'a time zone may have three parts': zone('America/Argentina/Buenos_Aires'),
  'a time zone may have hyphens': zone('America/Port-au-Prince'),
  'a time zone may be one of old': zone('US/Pacific'),
  'a blackout may have an offset': blackout('2026-12-20T00:00:00-08:00', '2027-01-06T00:00:00+14:00'),
  'a blackout may seem to end before it begins': blackout('2027-01-01T00:00:00+02:00', '2026-12-31T23:00:00Z'),
  'a blackout may last a millisecond': blackout('2026-12-20T00:00:00.000Z', '2026-12-20T00:00:00.001Z'),
  'a blackout may hold a leap day': blackout('2028-02-29T00:00:00Z', '2028-02-29T23:59:59Z'),
  'all nodes may update at once': { concurrency: { maxUpdating: '100%', maxUnavailable: '1%' } },
  'thousands of nodes may update at once': { concurrency: { maxUpdating: 5_000, maxUnavailable: 1 } },
  'a version may have a pre-release and build metadata': pin('1.21.0-rc.1+abcdef12'),
  'a version may have build metadata': pin('1.21.0+build.5'),
  'a version may have 128 characters': pin(`1.21.0-${'a'.repeat(121)}`),
  'a pinned version may be allowed by name': { versions: { pin: '1.21.0', deny: ['1.21.0-rc.1', '1.20.0'] } },
  'a minimum age may be a year': specWith('versions.minimumAge', '8760h'),
  'the first wait may be the longest': longestWait('10s'),
  'the longest wait may be the default of the first': specWith('retry.maxBackoff', '5m'),
  'a selector may be empty': { nodeSelector: {} },
  'a selector may have nothing in it': { nodeSelector: { matchLabels: {}, matchExpressions: [] } },
  'a label may have an empty value': { nodeSelector: { matchLabels: { 'node-role.kubernetes.io/worker': '' } } },
  'a requirement may allow the empty value': requirement('pool', 'NotIn', ['']),
  'a requirement may have an empty list of values': requirement('pool', 'Exists', []),
  'a requirement may have no values': requirement('example.com/a_b.C', 'DoesNotExist'),
  'a set of five members may tolerate one': quorum({ members: 5, tolerate: 1 }),
  'a set of two members may have a downtime': quorum({ members: 2, downtime: 'Allowed' }),
  'a set may be chosen by a requirement alone': quorum({
    podSelector: { matchExpressions: [{ key: 'app', operator: 'Exists' }] },
  }),
  'static pods may count on nodes of a role, or with a label that only users set': quorum({
    nodeSelector: {
      matchLabels: { 'node-restriction.kubernetes.io/db': 'main' },
      matchExpressions: [{ key: 'node-role.kubernetes.io/worker', operator: 'DoesNotExist' }],
    },
  }),
  'a check of a set may have no phase': {
    ...quorum({ checks: ['leader'] }),
    health: { checks: [{ name: 'leader', when: [], prometheus: { query: 'up' } }] },
  },
  'there may be 20 sets': {
    quorums: Array.from({ length: 20 }, (_, i) => ({ ...ITEMS['quorums'], name: `db-${i}` })),
  },
  ...Object.fromEntries(borders),
};

const WEEKDAYS = DAYS.slice(0, 6).map((day) => day.toUpperCase());

/** A field of a schedule: a wildcard, or up to three values, ranges that go up, and steps. */
function cronField(min: number, max: number, names: readonly string[] = []): fc.Arbitrary<string> {
  const value = fc.integer({ min, max });
  const step = fc.integer({ min: 1, max: max - min });
  const range = fc.tuple(value, value).map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`);
  const stepped = fc.tuple(range, step).map(([of, by]) => `${of}/${by}`);
  const skipping = fc.integer({ min: 2, max: max - min }).map((by) => `*/${by}`);
  const item = fc.oneof(
    value.map(String),
    range,
    stepped,
    skipping,
    ...(names.length > 0 ? [fc.constantFrom(...names)] : []),
  );
  const list = fc.array(item, { minLength: 1, maxLength: 3 }).map((items) => items.join(','));
  return fc.oneof(fc.constantFrom('*', '*/1'), list);
}

/** Days that each month has, so that each schedule comes on some day. */
const cron = fc
  .tuple(
    fc.array(fc.nat(59), { minLength: 1, maxLength: 5 }).map((minutes) => minutes.join(',')),
    cronField(0, 23),
    cronField(1, 28),
    cronField(1, 12, ['JAN', 'jun', 'DEC']),
    cronField(0, 6, [...WEEKDAYS, 'SUN']),
  )
  .map((fields) => fields.join(' '));

/** Hours and minutes of at least `min` and less than `hours` hours, which is less than 10,000. */
function length(min: number, hours: number): fc.Arbitrary<string> {
  const minutes = fc.integer({ min, max: Math.min(99_999, hours * 60) });
  return fc.oneof(
    minutes.map((all) => `${all}m`),
    minutes.map((all) => `${Math.floor(all / 60)}h${all % 60}m`),
    fc.integer({ min: Math.max(1, min), max: hours }).map((all) => `${all}h`),
  );
}

const version = fc
  .tuple(fc.nat(3), fc.nat(50), fc.nat(9), fc.constantFrom('', '-rc.1', '-0'), fc.constantFrom('', '+build.7'))
  .map(([major, minor, patch, pre, build]) => `${major}.${minor}.${patch}${pre}${build}`);
const label = fc.stringMatching(/^[A-Za-z0-9]([A-Za-z0-9_.-]{0,20}[A-Za-z0-9])?$/u);
const nodeLimit = fc.oneof(
  fc.integer({ min: 1, max: 5_000 }),
  fc.integer({ min: 1, max: 100 }).map((all) => `${all}%`),
);
const text = fc.string({ minLength: 1, maxLength: 100, unit: 'grapheme' });
const policy = fc.constantFrom('Evict', 'Block');
const YEAR_2100 = 4_102_444_800_000;

const blackouts = fc
  .tuple(fc.nat(YEAR_2100), fc.integer({ min: 1, max: 10_000_000_000 }), fc.option(text, { nil: undefined }))
  .map(([fromMs, ms, reason]) => ({
    from: new Date(fromMs).toISOString(),
    to: new Date(fromMs + ms).toISOString().replace(/Z$/u, '+00:00'),
    ...(reason !== undefined && { reason }),
  }));
const windows = fc.oneof(
  fc.record({ schedule: cron, duration: length(1, 168) }),
  fc.record({ schedule: fc.constant('30 4 * * *'), duration: length(1, 168), days: fc.subarray(DAYS) }),
);

const some = { requiredKeys: [] };
const ranges = new Map(specFields.map(({ field, range }) => [field, range]));
const whole = (field: string): fc.Arbitrary<number> => {
  const [min, max] = (ranges.get(field) ?? ['0', '0']).map(Number);
  return fc.integer({ min: min ?? 0, max: max ?? 0 });
};
/** Whole seconds from the shortest to the longest, in one of the ways to write them. */
const durationOf = (field: string): fc.Arbitrary<string> => {
  const [min = 0, max = 0] = (ranges.get(field) ?? []).map((text) => (parseDuration(text) ?? 0) / 1000);
  return fc
    .tuple(fc.integer({ min, max }), fc.boolean())
    .map(([seconds, plain]) => (plain && seconds < 999_999 ? `${seconds}s` : formatDuration(seconds * 1000)));
};
const ofType = <T>(
  group: string,
  type: string,
  value: (field: string) => fc.Arbitrary<T>,
): Record<string, fc.Arbitrary<T>> =>
  Object.fromEntries(
    specFields
      .filter((one) => one.type === type && new RegExp(`^${group}\\.\\w+$`, 'u').test(one.field))
      .map(({ field }) => [field.slice(group.length + 1), value(field)]),
  );
const numbersOf = (group: string): Record<string, fc.Arbitrary<number>> => ofType(group, 'integer', whole);
const durationsOf = (group: string): Record<string, fc.Arbitrary<string>> => ofType(group, 'duration', durationOf);

const groups = {
  maintenance: fc.record(
    {
      timeZone: fc.constantFrom('UTC', 'Europe/Berlin', 'Asia/Kolkata', 'Etc/GMT-14', 'Australia/Lord_Howe'),
      windows: fc.array(windows, { maxLength: 4 }),
      blackouts: fc.array(blackouts, { maxLength: 4 }),
      ...durationsOf('maintenance'),
    },
    some,
  ),
  concurrency: fc.record({ maxUpdating: nodeLimit, maxUnavailable: nodeLimit, ...numbersOf('concurrency') }, some),
  versions: fc
    .record(
      {
        pin: version,
        ...durationsOf('versions'),
        ignoreWaves: fc.boolean(),
        deny: fc.uniqueArray(version, { maxLength: 4 }),
      },
      some,
    )
    .map((all) => ({ ...all, ...(all.pin !== undefined && all.deny !== undefined && { deny: [`9${all.pin}`] }) })),
  drain: fc.record(
    {
      onTimeout: fc.constantFrom('Abort', 'Force'),
      emptyDirPods: policy,
      unmanagedPods: policy,
      taintWaitingNodes: fc.boolean(),
      startupTaint: fc.boolean(),
      ...durationsOf('drain'),
    },
    some,
  ),
  loadBalancer: fc.record(durationsOf('loadBalancer'), some),
  timeouts: fc.record(durationsOf('timeouts'), some),
  monitoring: fc.record(durationsOf('monitoring'), some),
  retry: fc.oneof(
    fc.record({ backoff: durationOf('retry.backoff'), attempts: whole('retry.attempts') }),
    fc.record({ maxBackoff: length(5, 168) }),
    durationOf('retry.maxBackoff').map((wait) => longestWait(wait).retry),
  ),
  nodeSelector: fc.record(
    {
      matchLabels: fc.dictionary(label, fc.oneof(fc.constant(''), label), { maxKeys: 4, noNullPrototype: true }),
      matchExpressions: fc.array(
        fc.oneof(
          fc.record({
            key: label,
            operator: fc.constantFrom('In', 'NotIn'),
            values: fc.array(label, { minLength: 1, maxLength: 3 }),
          }),
          fc.record({ key: label, operator: fc.constantFrom('Exists', 'DoesNotExist') }),
        ),
        { maxLength: 3 },
      ),
    },
    some,
  ),
};

/**
 * Any valid spec, without rare texts. The integration test checks that the API server accepts it.
 */
export const anyValidSpec: fc.Arbitrary<object> = fc.record(
  {
    paused: fc.boolean(),
    pauseMode: fc.constantFrom('Finish', 'Interrupt'),
    pauseReason: text,
    order: fc.constantFrom('Name', 'Random', 'OldestBoot'),
    ...groups,
  },
  some,
);
