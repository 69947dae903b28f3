import { Cron } from 'croner';
import type { Day } from '@brupop/shared/api/config-values';
import { parseTime } from '@brupop/shared/runtime/clock';
import { type Blackout, type Calendar, calendarOf, HORIZON_DAYS, problemOf } from './calendar.ts';
import { type Interval, merge, subtract } from './interval.ts';
import type { Window } from './schedule.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Epoch milliseconds of a time in UTC, such as `2026-03-29 01:00`. */
function utc(text: string): number {
  const time = parseTime(`${text.replace(' ', 'T')}Z`);
  if (time === undefined) throw new Error(`${text} is no time`);
  return time;
}

function clock(time: number | undefined): string | undefined {
  return time === undefined ? undefined : new Date(time).toISOString().slice(0, 16).replace('T', ' ');
}

const EVERY_MINUTE = Array.from({ length: 60 }, (_, minute) => minute).join(',');
const window = (schedule: string, durationMs = HOUR, days: readonly Day[] = []): Window => ({
  schedule,
  durationMs,
  days,
});
const blackout = (from: string, to: string, reason?: string): Blackout => ({
  fromMs: utc(from),
  toMs: utc(to),
  reason,
});
const calendar = (timeZone: string, windows: readonly Window[], blackouts: readonly Blackout[] = []): Calendar =>
  calendarOf({ timeZone, windows, blackouts });

/** The open time between two times, as `from – to` in UTC. */
function openings(of: Calendar, from: string, to: string): string[] {
  const found: string[] = [];
  let opens = of.nextFit(utc(from), 1);
  while (opens !== undefined && opens < utc(to)) {
    const closes = of.at(opens).until;
    found.push(`${clock(opens)} – ${clock(closes)?.slice(11)}`);
    opens = closes === undefined ? undefined : of.nextFit(closes, 1);
  }
  return found;
}

/** How often croner is asked in `work`: everything dear in a calendar. */
function questionsIn(work: () => void): number {
  const names = ['nextRun', 'previousRuns', 'match'] as const;
  const originals = names.map((name) => Object.getOwnPropertyDescriptor(Cron.prototype, name) ?? {});
  let questions = 0;
  names.forEach((name, i) => {
    const original = originals[i]?.value as (this: Cron, ...args: unknown[]) => unknown;
    Object.defineProperty(Cron.prototype, name, {
      ...originals[i],
      value(this: Cron, ...args: unknown[]) {
        questions += 1;
        return original.apply(this, args);
      },
    });
  });
  work();
  names.forEach((name, i) => Object.defineProperty(Cron.prototype, name, originals[i] ?? {}));
  return questions;
}

describe('what holds', () => {
  const nightly = calendar('UTC', [window('0 2 * * *', 4 * HOUR)], [blackout('2026-05-02 04:00', '2026-05-03 00:00')]);
  const free = calendar('UTC', [], [blackout('2026-05-02 04:00', '2026-05-03 00:00')]);

  it.each([
    ['before a window', nightly, '2026-05-01 01:59', 'OutsideWindows', '2026-05-01 02:00'],
    ['as a window opens', nightly, '2026-05-01 02:00', 'InWindow', '2026-05-01 06:00'],
    ['within a window', nightly, '2026-05-01 05:59', 'InWindow', '2026-05-01 06:00'],
    ['as a window ends', nightly, '2026-05-01 06:00', 'OutsideWindows', '2026-05-02 02:00'],
    ['in a window that a blackout cuts off', nightly, '2026-05-02 03:00', 'InWindow', '2026-05-02 04:00'],
    ['in a blackout within a window', nightly, '2026-05-02 04:00', 'Blackout', '2026-05-03 00:00'],
    ['in a blackout outside windows', nightly, '2026-05-02 23:59', 'Blackout', '2026-05-03 00:00'],
    ['after a blackout', nightly, '2026-05-03 00:00', 'OutsideWindows', '2026-05-03 02:00'],
    ['without windows before a blackout', free, '2026-01-01 00:00', 'NoWindows', '2026-05-02 04:00'],
    ['without windows in a blackout', free, '2026-05-02 04:00', 'Blackout', '2026-05-03 00:00'],
    ['without windows after a blackout', free, '2026-05-03 00:00', 'NoWindows', undefined],
  ])('%s', (_, of, now, reason, until) => {
    const open = reason === 'InWindow' || reason === 'NoWindows';
    expect(of.at(utc(now))).toMatchObject({ open, reason, until: until === undefined ? undefined : utc(until) });
  });

  it('names the blackout that ends last, and ends with the last of those that touch', () => {
    const short = blackout('2026-05-01 00:00', '2026-05-03 00:00', 'audit');
    const long = blackout('2026-05-02 00:00', '2026-05-04 00:00', 'election');
    const after = blackout('2026-05-04 00:00', '2026-05-05 00:00', 'holiday');
    const of = calendar('UTC', [], [after, short, long]);
    const until = utc('2026-05-05 00:00');
    expect(of.at(utc('2026-05-01 12:00'))).toMatchObject({ blackout: short, until });
    expect(of.at(utc('2026-05-02 12:00'))).toMatchObject({ blackout: long, until });
    expect(of.at(utc('2026-05-04 12:00'))).toMatchObject({ blackout: after, until });
  });

  it('counts a blackout to the millisecond', () => {
    const fromMs = utc('2026-05-01 00:00') + 1;
    const of = calendar('UTC', [], [{ fromMs, toMs: fromMs + 1, reason: undefined }]);
    expect([fromMs - 1, fromMs, fromMs + 1].map((now) => of.at(now).open)).toEqual([true, false, true]);
  });

  it('is closed with no end in sight when the next window is beyond the horizon', () => {
    const of = calendar('UTC', [window('0 0 29 2 *')]);
    expect(of.at(utc('2025-01-01 00:00'))).toEqual({
      open: false,
      reason: 'OutsideWindows',
      until: undefined,
      blackout: undefined,
    });
    expect(of.nextFit(utc('2025-01-01 00:00'), 1)).toBeUndefined();
    expect(of.nextFit(utc('2027-06-01 00:00'), HOUR)).toBe(utc('2028-02-29 00:00'));
  });

  it('always sees a yearly window', () => {
    const of = calendar('Europe/Berlin', [window('0 0 24 12 *')]);
    expect(clock(of.at(utc('2026-12-24 00:30')).until)).toBe('2027-12-23 23:00');
  });
});

describe('windows', () => {
  it('unite when they overlap or touch, also those of several entries', () => {
    const of = calendar('UTC', [window('0 2 * * *', 2 * HOUR), window('0 4 * * *'), window('30 4 * * MON', HOUR)]);
    expect(openings(of, '2026-05-03 00:00', '2026-05-06 00:00')).toEqual([
      '2026-05-03 02:00 – 05:00',
      '2026-05-04 02:00 – 05:30',
      '2026-05-05 02:00 – 05:00',
    ]);
  });

  it('that began up to seven days ago still run', () => {
    const of = calendar('America/New_York', [window('0 12 * * FRI', 7 * DAY - MINUTE)]);
    expect(of.at(utc('2026-05-08 15:58'))).toMatchObject({ open: true, until: utc('2026-05-08 15:59') });
    expect(of.at(utc('2026-05-08 15:59'))).toMatchObject({ open: false, until: utc('2026-05-08 16:00') });
  });

  it('start on the local weekday and may run into the next', () => {
    const of = calendar('Asia/Kolkata', [window('0 4 * * *', 22 * HOUR, ['Sat'])]);
    expect(openings(of, '2026-05-01 00:00', '2026-05-15 00:00')).toEqual([
      '2026-05-01 22:30 – 20:30',
      '2026-05-08 22:30 – 20:30',
    ]);
  });

  it('come on either day when day of month and day of week are given', () => {
    const starts = (schedule: string): string[] =>
      openings(calendar('UTC', [window(schedule)]), '2026-06-01 00:00', '2026-06-20 00:00').map((at) =>
        at.slice(8, 10),
      );
    expect(starts('0 2 5 * SUN')).toEqual(['05', '07', '14']);
    expect(starts('0 2 */7 * SUN')).toEqual(['01', '07', '08', '14', '15']);
    expect(starts('0 2 */1 * SUN')).toEqual(['07', '14']);
    expect(starts('0 2 5 * *')).toEqual(['05']);
  });

  it('that never end are open with no end in sight, unless a blackout is', () => {
    const windows = [window('0 */6 * * *', 6 * HOUR)];
    expect(calendar('UTC', windows).at(utc('2026-05-01 03:00'))).toMatchObject({ open: true, until: undefined });
    const of = calendar('UTC', windows, [blackout('2027-05-01 00:00', '2027-05-02 00:00')]);
    expect(clock(of.at(utc('2026-05-01 03:00')).until)).toBe('2027-05-01 00:00');
  });
});

/** In UTC, the windows of 30 minutes that a schedule opens around a change of the clocks. */
describe('a schedule at fixed times', () => {
  it.each([
    ['Europe/Berlin', '30 2 * * *', '2026-03-28', ['28 01:30', '29 01:00', '30 00:30']],
    ['Europe/Berlin', '30 2 * * *', '2026-10-24', ['24 00:30', '25 00:30', '26 01:30']],
    [
      'Europe/Berlin',
      '30 2,14 * * *',
      '2026-03-29',
      ['29 01:00', '29 12:30', '30 00:30', '30 12:30', '31 00:30', '31 12:30'],
    ],
    ['America/New_York', '30 2 * * *', '2026-03-07', ['07 07:30', '08 07:00', '09 06:30']],
    ['America/New_York', '30 1 * * *', '2026-10-31', ['31 05:30', '01 05:30', '02 06:30']],
    ['Australia/Lord_Howe', '15 2 * * *', '2026-10-02', ['02 15:45', '03 15:30', '04 15:15']],
    ['Australia/Lord_Howe', '45 1 * * *', '2026-04-03', ['03 14:45', '04 14:45', '05 15:15']],
    ['Africa/Cairo', '30 0 * * *', '2026-04-22', ['22 22:30', '23 22:00', '24 21:30']],
    ['America/Havana', '0 0 * * *', '2026-10-31', ['31 04:00', '01 04:00', '02 05:00']],
    ['Pacific/Apia', '0 2 * * *', '2011-12-28', ['28 12:00', '29 12:00', '30 12:00']],
    ['America/Sao_Paulo', '0 0 * * *', '2026-10-17', ['17 03:00', '18 03:00', '19 03:00']],
  ])('in %s at %s opens once a day for each time, from %s: %j', (timeZone, schedule, from, expected) => {
    const of = calendar(timeZone, [window(schedule, 30 * MINUTE)]);
    const to = clock(utc(`${from} 00:00`) + 3 * DAY) ?? '';
    expect(openings(of, `${from} 00:00`, to).map((opening) => opening.slice(8, 16))).toEqual(expected);
  });

  it('opens after the gap on the weekday it is meant for', () => {
    const of = calendar('America/Santiago', [window('0 0 * * *', HOUR, ['Sun'])]);
    expect(openings(of, '2026-09-05 00:00', '2026-09-12 00:00')).toEqual(['2026-09-06 04:00 – 05:00']);
  });

  it('lasts as long as ever over a change of the clocks, in elapsed time', () => {
    const of = calendar('Europe/Berlin', [window('0 1 * * *', 4 * HOUR)]);
    expect(openings(of, '2026-03-28 12:00', '2026-03-29 12:00')).toEqual(['2026-03-29 00:00 – 04:00']);
    expect(openings(of, '2026-10-24 12:00', '2026-10-25 12:00')).toEqual(['2026-10-24 23:00 – 03:00']);
  });

  it('leaves an hour out when a window of 24 hours starts on a day of 25', () => {
    const of = calendar('Europe/Berlin', [window('0 0 * * *', DAY)]);
    expect(of.at(utc('2026-10-25 22:30'))).toMatchObject({ open: false, until: utc('2026-10-25 23:00') });
  });
});

describe('a schedule with wildcards or steps in its hours', () => {
  const starts = (schedule: string, from: string, to: string): string[] =>
    openings(calendar('Europe/Berlin', [window(schedule, 20 * MINUTE)]), from, to).map((opening) =>
      opening.slice(11, 16),
    );

  it('opens in both passes of the hour that autumn repeats', () => {
    const expected = ['23:00', '23:30', '00:00', '00:30', '01:00'];
    expect(starts('0,30 * * * *', '2026-10-24 22:55', '2026-10-25 01:15')).toEqual(expected);
    expect(starts('0 */2 * * *', '2026-10-24 21:00', '2026-10-25 04:00')).toEqual(['22:00', '00:00', '01:00', '03:00']);
  });

  it('does not open in the hour that spring skips', () => {
    expect(starts('0,30 * * * *', '2026-03-29 00:25', '2026-03-29 01:45')).toEqual(['00:30', '01:00', '01:30']);
    expect(starts('0 */2 * * *', '2026-03-28 22:00', '2026-03-29 05:00')).toEqual(['23:00', '02:00', '04:00']);
  });
});

describe('the next fit', () => {
  const of = calendar(
    'UTC',
    [window('0 2 * * *', 2 * HOUR), window('0 2 * * SUN', 6 * HOUR)],
    [blackout('2026-05-10 00:00', '2026-05-10 03:00')],
  );

  it.each([
    ['at once when enough is left', '2026-05-01 03:00', HOUR, '2026-05-01 03:00'],
    ['in the next window when too little is left', '2026-05-01 03:01', HOUR, '2026-05-02 02:00'],
    ['in the first window that is long enough', '2026-05-01 02:00', 3 * HOUR, '2026-05-03 02:00'],
    ['after a blackout that leaves enough', '2026-05-04 00:00', 5 * HOUR, '2026-05-10 03:00'],
    ['after a blackout that leaves too little, in a later window', '2026-05-04 00:00', 5.5 * HOUR, '2026-05-17 02:00'],
    ['never when it is longer than every window', '2026-05-01 00:00', 7 * HOUR, undefined],
    ['whenever it is open for what takes no time', '2026-05-01 04:00', 0, '2026-05-02 02:00'],
  ])('is %s', (_, from, durationMs, expected) => {
    expect(clock(of.nextFit(utc(from), durationMs))).toBe(expected);
  });

  it('is at any time without windows, around blackouts', () => {
    const free = calendar('UTC', [], [blackout('2026-05-01 00:00', '2026-05-02 00:00')]);
    expect(clock(free.nextFit(utc('2026-04-30 22:00'), 2 * HOUR))).toBe('2026-04-30 22:00');
    expect(clock(free.nextFit(utc('2026-04-30 22:01'), 2 * HOUR))).toBe('2026-05-02 00:00');
  });

  it('of a later time has the horizon of now', () => {
    const later = utc('2027-06-04 00:00');
    const yearly = calendar('UTC', [window('0 2 * * *'), window('0 0 7 6 *', 12 * HOUR)]);
    expect(clock(yearly.nextFit(later, 12 * HOUR))).toBe('2027-06-07 00:00');
    expect(clock(yearly.nextFit(later, HOUR, utc('2026-05-01 00:00')))).toBe('2027-06-04 02:00');
    expect(yearly.nextFit(later, 12 * HOUR, utc('2026-05-01 00:00'))).toBeUndefined();
  });

  it.each([
    // Of 50 minutes each, two go into two hours, and seven into six.
    ['in the same window', 1, '2026-05-01 02:50'],
    ['in the next one, when as many start before as fit', 2, '2026-05-02 02:00'],
    ['in the one after that', 5, '2026-05-03 02:50'],
    ['at the end of a longer one', 4 + 6, '2026-05-03 07:00'],
    ['after it', 4 + 7, '2026-05-04 02:00'],
  ])('after others is %s', (_, earlier, expected) => {
    const from = utc('2026-05-01 00:00');
    expect(clock(of.nextFit(from, 50 * MINUTE, from, earlier))).toBe(expected);
  });

  it('after others leaves as much as each needs to its end', () => {
    const from = utc('2026-05-01 02:00');
    const starts = [0, 1, 2, 3].map((earlier) => clock(of.nextFit(from, 60 * MINUTE, from, earlier, 30 * MINUTE)));
    expect(starts).toEqual(['2026-05-01 02:00', '2026-05-01 02:30', '2026-05-01 03:00', '2026-05-02 02:00']);
  });

  it('counts on nothing beyond the horizon', () => {
    const always = calendar('UTC', [window('0 0 * * *', DAY)]);
    const now = utc('2026-05-01 00:00');
    expect(always.nextFit(now, HORIZON_DAYS * DAY)).toBe(now);
    expect(always.nextFit(now, HORIZON_DAYS * DAY + 1)).toBeUndefined();
  });
});

const EACH_MINUTE = Array.from({ length: 60 }, (_, minute) => minute).join(',');
const EVERY_OTHER_MINUTE = Array.from({ length: 30 }, (_, minute) => 2 * minute).join(',');

describe('the work', () => {
  const now = utc('2026-05-01 12:00');
  /** One question for each minute of an ordinary day and of the two that are not, and three for each day of the horizon. */
  const most = 3 * 25 * 60 + 3 * (HORIZON_DAYS + 10);

  it.each([
    ['each minute for an hour', window(`${EACH_MINUTE} * * * *`)],
    ['each minute for a week', window(`${EACH_MINUTE} * * * *`, 7 * DAY)],
    ['every other minute for a minute', window(`${EVERY_OTHER_MINUTE} * * * *`, MINUTE)],
    ['each minute of Mondays for three days', window(`${EACH_MINUTE} * * * *`, 3 * DAY, ['Mon'])],
    ['each minute of one day of the year', window(`${EACH_MINUTE} * 29 2 *`, MINUTE)],
    ['once a day', window('0 2 * * *')],
  ])('is bounded for a schedule that comes %s', (_, kind) => {
    const questions = questionsIn(() => {
      const of = calendar('Australia/Hobart', [kind]);
      of.at(now);
      of.nextFit(now, 8 * DAY);
    });
    expect(questions).toBeGreaterThan(0);
    expect(questions).toBeLessThan(most);
  });

  it('is done once a day for a fleet', () => {
    const of = calendar('Europe/Paris', [window('0 3 * * *')]);
    of.nextFit(now, HOUR);
    const questions = questionsIn(() => {
      for (let node = 0; node < 5_000; node += 1) of.nextFit(now + node * DAY, 2 * HOUR, now + node);
    });
    expect(questions).toBe(0);
  });

  it('shortens the horizon of very many windows, but to no less than six days', () => {
    const of = calendar(
      'UTC',
      [window(`${EVERY_OTHER_MINUTE} * * * *`, MINUTE)],
      [blackout('2026-05-07 12:00', '2026-05-07 12:03')],
    );
    expect(of.at(utc('2026-05-07 12:00'))).toMatchObject({ reason: 'Blackout' });
    expect(of.nextFit(now, MINUTE)).toBe(now);
    expect(of.nextFit(now, MINUTE + 1)).toBeUndefined();
  });
});

describe('a clock that jumps', () => {
  it('is answered as by a calendar that was never asked before', () => {
    const windows = [window('0 2 * * SAT', 30 * HOUR)];
    const asked = calendar('Europe/Berlin', windows);
    const times = ['2026-10-24', '2026-03-29', '2027-10-31', '2026-10-25', '1999-12-31', '2030-01-01', '2026-10-24'];
    times.forEach((day, i) => {
      const fresh = calendar('Europe/Berlin', windows, [blackout('1990-01-01 00:00', `1990-02-0${i + 1} 00:00`)]);
      const now = utc(`${day} 12:34`);
      expect([asked.at(now), asked.nextFit(now, DAY)]).toEqual([fresh.at(now), fresh.nextFit(now, DAY)]);
    });
  });

  it.each(['1970-01-01 00:00', '0001-01-01 00:00', '3000-06-01 00:00', '9999-12-31 23:59'])(
    'may show %s, at which nothing is open that should not be',
    (now) => {
      const of = calendar('Europe/Berlin', [window('0 12 * * *')]);
      expect(of.at(utc(now)).open).toBe(false);
      expect(() => of.nextFit(utc(now), HOUR)).not.toThrow();
    },
  );
});

const interval = (fromMs: number, toMs: number): Interval => ({ fromMs, toMs });

describe('intervals of time', () => {
  it.each([
    ['none', [], []],
    ['some out of order', [interval(5, 6), interval(1, 2)], [interval(1, 2), interval(5, 6)]],
    ['some that touch', [interval(1, 3), interval(3, 4)], [interval(1, 4)]],
    ['some that overlap', [interval(1, 3), interval(2, 4)], [interval(1, 4)]],
    ['one within another', [interval(1, 9), interval(2, 4), interval(8, 10)], [interval(1, 10)]],
    ['empty ones', [interval(1, 1), interval(5, 6), interval(6, 6), interval(9, 8)], [interval(5, 6)]],
  ])('merges %s', (_, intervals, expected) => {
    expect(merge(intervals)).toEqual(expected);
  });

  it.each([
    ['nothing', [], [interval(0, 10), interval(20, 30)]],
    ['a hole in the middle', [interval(4, 6)], [interval(0, 4), interval(6, 10), interval(20, 30)]],
    [
      'several holes',
      [interval(1, 2), interval(3, 4)],
      [interval(0, 1), interval(2, 3), interval(4, 10), interval(20, 30)],
    ],
    ['a hole over an end, a gap and a start', [interval(8, 22)], [interval(0, 8), interval(22, 30)]],
    ['exactly one interval', [interval(0, 10)], [interval(20, 30)]],
    ['everything', [interval(-5, 50)], []],
    ['a hole between intervals', [interval(10, 20)], [interval(0, 10), interval(20, 30)]],
  ])('subtracts %s', (_, holes, expected) => {
    expect(subtract([interval(0, 10), interval(20, 30)], holes)).toEqual(expected);
  });

  it('cuts all of time in two', () => {
    expect(subtract([interval(-Infinity, Infinity)], [interval(1, 2)])).toEqual([
      interval(-Infinity, 1),
      interval(2, Infinity),
    ]);
  });
});

test.each<[string, (i: number) => Window]>([
  ['equal', () => window(`${EVERY_MINUTE} * * * *`, MINUTE)],
  ['different', (i) => window(`${EVERY_MINUTE} * ${(i % 28) + 1} ${(i % 12) + 1} SUN`, MINUTE)],
])('50 %s windows that open every minute are computed quickly', (_, of) => {
  const maintenance = {
    timeZone: 'Europe/Berlin',
    windows: Array.from({ length: 50 }, (__, i) => of(i)),
    blackouts: [],
  };
  const before = process.cpuUsage();
  expect(problemOf(maintenance)).toBeUndefined();
  expect(calendarOf(maintenance).nextFit(utc('2026-01-01T00:00'), MINUTE)).toBeDefined();
  const { user, system } = process.cpuUsage(before);
  // More than a minute when croner was asked for each start.
  expect((user + system) / 1_000).toBeLessThan(1_000);
});

test('of thousands of windows that are too short, none is looked at for each node', () => {
  const of = calendar('Europe/Berlin', [window('0,10,20,30,40,50 * * * *', 5 * MINUTE)]);
  const now = utc('2026-01-01T00:00');
  expect(of.nextFit(now, 5 * MINUTE)).toBe(now);
  const before = process.cpuUsage();
  const found = Array.from({ length: 20_000 }, () => of.nextFit(now, 5 * MINUTE + 1));
  const { user, system } = process.cpuUsage(before);
  expect(new Set(found)).toEqual(new Set([undefined]));
  expect((user + system) / 1_000).toBeLessThan(500);
});
