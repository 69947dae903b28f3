/** Calendars compared, minute by minute around changes of the clocks, with a scan that knows nothing of them. */
import { Cron } from 'croner';
import fc from 'fast-check';
import { DAYS } from '@brupop/shared/api/config-values';
import { scan } from '../testing/minute-scan.ts';
import { calendarOf, type Maintenance, problemOf } from './calendar.ts';
import { localDays, type Window, windowsOn } from './schedule.ts';

// oxlint-disable-next-line node/no-process-env -- a run is repeated with its seed
const { BRUPOP_FUZZ_SEED = '20261025', BRUPOP_FUZZ_RUNS = '24' } = process.env;
const seed = Number(BRUPOP_FUZZ_SEED);
const numRuns = Number(BRUPOP_FUZZ_RUNS);
const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const SCANNED_DAYS = 3;

/** Zones, each with the days (UTC) of changes of its clocks, or any day where there are none. */
const CHANGES: Readonly<Record<string, readonly string[]>> = {
  'Europe/Berlin': ['2025-03-30', '2025-10-26', '2026-03-29', '2026-10-25', '2027-03-28', '2027-10-31'],
  'America/New_York': ['2025-03-09', '2025-11-02', '2026-03-08', '2026-11-01', '2027-03-14', '2027-11-07'],
  'Australia/Lord_Howe': ['2025-04-05', '2025-10-04', '2026-04-04', '2026-10-03', '2027-04-03', '2027-10-02'],
  'America/Santiago': ['2025-04-06', '2025-09-07', '2026-04-05', '2026-09-06'],
  'America/Havana': ['2025-03-09', '2025-11-02', '2026-11-01'],
  'Africa/Cairo': ['2025-04-24', '2025-10-30', '2026-04-23', '2026-10-29'],
  'Africa/Casablanca': ['2025-02-23', '2025-04-06', '2026-02-15', '2026-03-22'],
  'America/Nuuk': ['2025-03-30', '2025-10-26', '2026-10-25'],
  'Antarctica/Troll': ['2025-03-30', '2026-10-25'],
  'Pacific/Chatham': ['2025-04-05', '2026-09-26'],
  'Pacific/Apia': ['2025-04-06', '2026-02-28'],
  'America/Sao_Paulo': ['2026-02-28', '2027-10-17'],
  'Asia/Kolkata': ['2025-12-31', '2026-03-29'],
  UTC: ['2026-02-28', '2027-03-28'],
};
const zone = fc.constantFrom(
  ...Object.entries(CHANGES).flatMap(([timeZone, days]) => days.map((day) => ({ timeZone, at: Date.parse(day) }))),
);

const numbers = (min: number, max: number): fc.Arbitrary<string> => fc.integer({ min, max }).map(String);
/** Values, lists, ranges, steps and wildcards; the early hours, in which clocks change, come most. */
const field = (min: number, max: number, often: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  fc.oneof(
    { weight: 4, arbitrary: often },
    { weight: 1, arbitrary: fc.tuple(often, numbers(min, max)).map((values) => values.join(',')) },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.integer({ min, max }), fc.integer({ min, max }), fc.constantFrom('', '/2', '/3'))
        .map(([a, b, step]) => `${Math.min(a, b)}-${Math.max(a, b)}${step}`),
    },
    { weight: 1, arbitrary: fc.constantFrom('*', '*/2', '*/5') },
  );
const schedule = fc
  .tuple(
    fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom('0', '15', '30', '45', '59') },
      { weight: 1, arbitrary: fc.array(fc.nat(59), { minLength: 1, maxLength: 5 }).map((list) => list.join(',')) },
    ),
    field(0, 23, fc.constantFrom('0', '1', '2', '3', '23')),
    fc.oneof({ weight: 4, arbitrary: fc.constant('*') }, { weight: 1, arbitrary: field(1, 31, numbers(1, 31)) }),
    fc.constantFrom('*', '*', '*', '3-10', '*/2'),
    fc.oneof({ weight: 3, arbitrary: fc.constant('*') }, { weight: 1, arbitrary: field(0, 6, numbers(0, 6)) }),
  )
  .map((fields) => fields.join(' '));
const minutes = fc.oneof(
  fc.integer({ min: 1, max: 90 }),
  fc.constantFrom(60, 120, 240, 1_440),
  fc.integer({ min: 1, max: 3 * 1_440 }),
);
const window: fc.Arbitrary<Window> = fc.record({
  schedule,
  durationMs: minutes.map((length) => length * MINUTE),
  days: fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: fc.subarray([...DAYS]) }),
});
const scenario = fc
  .record({
    zone,
    windows: fc.array(window, { maxLength: 3 }),
    blackouts: fc.array(fc.tuple(fc.integer({ min: 0, max: SCANNED_DAYS * 1_440 }), minutes), { maxLength: 2 }),
  })
  .map(({ zone: { timeZone, at }, windows, blackouts }) => {
    const fromMs = at - DAY;
    const maintenance: Maintenance = {
      timeZone,
      windows,
      blackouts: blackouts.map(([start, length]) => ({
        fromMs: fromMs + start * MINUTE,
        toMs: fromMs + (start + length) * MINUTE,
        reason: undefined,
      })),
    };
    return { maintenance, fromMs };
  })
  .filter(({ maintenance }) => problemOf(maintenance) === undefined);

const isOpen = (reason: string | undefined): boolean => reason === 'InWindow' || reason === 'NoWindows';

/** Each value with the minute from which it holds: as much as the list itself, but quick to compare and to read. */
function stretches<T>(values: readonly T[]): [number, T][] {
  return [...values.entries()].filter(([i, value]) => i === 0 || values[i - 1] !== value);
}

/** For each minute the next at which the reason is another, undefined: after the scan. */
function changes(reasons: readonly string[]): (number | undefined)[] {
  const next: (number | undefined)[] = reasons.map(() => undefined);
  for (let i = reasons.length - 2; i >= 0; i -= 1) next[i] = reasons[i] === reasons[i + 1] ? next[i + 1] : i + 1;
  return next;
}

/** The first minute from `from` of as many open ones in a row, undefined: none that ends within the scan. */
function firstFit(reasons: readonly string[], from: number, length: number): number | undefined {
  let start = from;
  for (let i = from; i < reasons.length; i += 1) {
    if (!isOpen(reasons[i])) start = i + 1;
    else if (i + 1 - start >= length) return start;
  }
  return undefined;
}

describe('a calendar', () => {
  it('returns for each minute what is in effect, and until when exactly', () => {
    fc.assert(
      fc.property(scenario, ({ maintenance, fromMs }) => {
        const calendar = calendarOf(maintenance);
        const reasons = scan(maintenance, fromMs, SCANNED_DAYS * 1_440);
        const states = reasons.map((_, i) => calendar.at(fromMs + i * MINUTE));
        expect(stretches(states.map(({ reason }) => reason))).toEqual(stretches(reasons));
        expect(states.every(({ open, reason }) => open === isOpen(reason))).toBe(true);
        const until = states.map((state) => ((state.until ?? Infinity) - fromMs) / MINUTE);
        const scanned = until.map((minute) => (minute < reasons.length ? minute : undefined));
        expect(stretches(scanned)).toEqual(stretches(changes(reasons)));
      }),
      { seed, numRuns },
    );
  });

  it('finds the first time that is long enough', () => {
    fc.assert(
      fc.property(
        scenario,
        fc.array(fc.tuple(fc.nat(SCANNED_DAYS * 1_440), minutes)),
        ({ maintenance, fromMs }, asked) => {
          const calendar = calendarOf(maintenance);
          const reasons = scan(maintenance, fromMs, SCANNED_DAYS * 1_440);
          for (const [from, length] of asked) {
            const fit = calendar.nextFit(fromMs + from * MINUTE, length * MINUTE);
            const minute = ((fit ?? Infinity) - fromMs) / MINUTE;
            expect(minute + length <= reasons.length ? minute : undefined).toBe(firstFit(reasons, from, length));
          }
        },
      ),
      { seed, numRuns },
    );
  });

  it('finds the time after others as if these were asked for one by one', () => {
    fc.assert(
      fc.property(scenario, minutes, minutes, fc.nat(20), ({ maintenance, fromMs }, length, each, earlier) => {
        const calendar = calendarOf(maintenance);
        const [durationMs, eachMs] = [(each + length) * MINUTE, Math.max(1, each) * MINUTE];
        const next = (from: number | undefined): number | undefined =>
          from === undefined ? undefined : calendar.nextFit(from, durationMs, fromMs);
        let expected = next(fromMs);
        for (let i = 0; i < earlier; i += 1) expected = next(expected === undefined ? undefined : expected + eachMs);
        expect(calendar.nextFit(fromMs, durationMs, fromMs, earlier, eachMs)).toBe(expected);
      }),
      { seed, numRuns },
    );
  });

  it('opens within each minute as at its start, whatever was asked before', () => {
    fc.assert(
      fc.property(
        scenario,
        fc.array(fc.integer({ min: -900 * DAY, max: 900 * DAY }), { maxLength: 4 }),
        (one, jumps) => {
          const calendar = calendarOf(one.maintenance);
          for (const jump of [...jumps, ...jumps.toReversed()]) {
            const now = one.fromMs + jump;
            const { until } = calendar.at(now);
            expect({ ...calendar.at(Math.floor(now / MINUTE) * MINUTE), until }).toEqual(calendar.at(now));
            expect(calendar.nextFit(now, 1, now)).toBe(calendar.nextFit(now, 1));
          }
        },
      ),
      { seed, numRuns: Math.ceil(numRuns / 4) },
    );
  });
});

describe('the windows of days', () => {
  it('start when croner says', () => {
    fc.assert(
      fc.property(zone, schedule, ({ timeZone, at }, text) => {
        const cron = new Cron(text, { timezone: timeZone, mode: '5-part', fixedTimeRule: 'no-wildcard' });
        const expected = cron
          .nextRuns(60, new Date(at - DAY - 1))
          .map((run) => run.getTime())
          .filter((time) => time < at + DAY);
        const ofDay = windowsOn({ schedule: text, durationMs: 1, days: [] });
        const found: number[] = [];
        for (const day of localDays(timeZone, at - DAY)) {
          if (day.fromMs >= at + DAY) break;
          found.push(...ofDay(day).map(({ fromMs }) => fromMs));
        }
        expect(found.filter((time) => time >= at - DAY && time < at + DAY).slice(0, 60)).toEqual(expected);
      }),
      { seed, numRuns },
    );
  });
});
