import type { Day } from '@brupop/shared/api/config-values';
import { type Maintenance, problemOf } from './calendar.ts';
import type { Window } from './schedule.ts';

const HOUR = 3_600_000;
const WINDOW: Window = { schedule: '0 2 * * *', durationMs: 4 * HOUR, days: [] };
const FIVE_FIELDS = 'five fields (minute, hour, day of month, month, day of week), such as "0 2 * * *"';

function problem(change: Partial<Maintenance>): string | undefined {
  return problemOf({ timeZone: 'Europe/Berlin', windows: [WINDOW], blackouts: [], ...change });
}

function problemWith(schedule: string, days: readonly Day[] = []): string | undefined {
  return problem({ windows: [WINDOW, { ...WINDOW, schedule, days }] });
}

describe('a schedule with fixed minutes', () => {
  it.each([
    '0 2 * * *',
    ' 0\t2  * * * ',
    '0,15,30,45 22-23,0-4 * * MON-FRI',
    '0 2 * jan,Jul *',
    '0 2 1-7 * SUN',
    '0 2 * * SUN-TUE',
    '0 2 * * sat,SUN',
    '0 0-23/2 * */3 0-6/2',
    '0 */1 * * *',
    '0 2 29 2 *',
    '00,30 * * * *',
  ])('is accepted: %s', (schedule) => {
    expect(problemWith(schedule)).toBeUndefined();
  });
});

describe('a schedule in another syntax', () => {
  it.each([
    ['each minute', '* * * * *'],
    ['a step of minutes', '*/15 2 * * *'],
    ['a step of one minute', '*/1 2 * * *'],
    ['a range of minutes', '0-30 2 * * *'],
    ['a stepped range of minutes', '0-30/10 2 * * *'],
    ['an empty item among the minutes', '0,,30 2 * * *'],
    ['nothing', ''],
    ['seconds', '0 0 2 * * *'],
    ['seconds and years', '0 0 2 * * * 2027'],
    ['four fields', '0 2 * *'],
    ['a nickname', '@daily'],
    ['a date', '2027-01-01T00:00:00'],
    ['a time zone in the schedule', 'TZ=UTC 0 2 * * *'],
    ['a last day', '0 2 L * *'],
    ['a last weekday', '0 2 * * 5L'],
    ['a nearest weekday', '0 2 15W * *'],
    ['a counted weekday', '0 2 * * MON#1'],
    ['both day fields at once', '0 2 1 * +MON'],
    ['a question mark', '0 2 ? * MON'],
    ['a step from a number', '5/15 2 * * *'],
    ['a step without a number', '*/ 2 * * *'],
    ['a wildcard in a list', '0 2 1,* * MON'],
    ['a name in another field', '0 MON * * *'],
    ['a long name', '0 2 * JANUARY *'],
    ['a foreign name', '0 2 * * MO'],
    ['Sunday as 7', '0 2 * * 7'],
    ['Sunday at the end of a range', '0 2 * * FRI-SUN'],
    ['an empty item', '0 2 * * MON,'],
    ['a minus', '0 -2 * * *'],
    ['something else', 'every night at two'],
  ])('is refused for %s', (_, schedule) => {
    const text = problemWith(schedule);
    expect(text).toContain(`maintenance.windows[1].schedule: expected ${FIVE_FIELDS}`);
    expect(text).toContain(`found ${JSON.stringify(schedule)}`);
  });

  it.each([
    ['hour 24', '0 24 * * *', 'Invalid value for hour: 24'],
    ['minute 60', '60 2 * * *', 'Invalid value for minute: 60'],
    ['day 0', '0 2 0 * *', 'Invalid value for day: -1'],
    ['month 13', '0 2 * 13 *', 'Invalid value for month: 12'],
    ['a range that runs backwards', '0 22-4 * * *', "From value is larger than to value: '22-4'"],
    ['a step of nothing', '0 */0 * * *', 'Syntax error, illegal stepping: 0'],
  ])('is refused by croner for %s', (_, schedule, reason) => {
    expect(problemWith(schedule)).toBe(
      `maintenance.windows[1].schedule: expected a cron schedule such as "0 2 * * *" (${reason}), found "${schedule}"`,
    );
  });

  it('is told which field is wrong and what to write there', () => {
    expect(problemWith('*/5 2 * * *')).toContain('minute such as 0 or 0,30; it has no *, range or step');
    expect(problemWith('0 2 * * FRI-SUN')).toContain('day of week such as *, MON-FRI or SUN; the week starts with SUN');
  });
});

describe('a maintenance', () => {
  it('needs nothing but a time zone', () => {
    expect(problemOf({ timeZone: 'UTC', windows: [], blackouts: [] })).toBeUndefined();
  });

  it.each(['', 'Local', 'Europe/Bonn', ' UTC'])('is refused with the time zone "%s"', (timeZone) => {
    expect(problem({ timeZone })).toBe(
      `maintenance.timeZone: expected the name of a time zone, such as "UTC" or "Europe/Berlin", found "${timeZone}"`,
    );
  });

  it.each(['0 0 30 2 *', '0 0 31 4,6,9,11 *'])('is refused with the schedule %s, which never comes', (schedule) => {
    expect(problemWith(schedule)).toBe(
      `maintenance.windows[1].schedule: expected a date that exists, found "${schedule}"`,
    );
  });

  it('is refused when its schedule and its days exclude each other', () => {
    expect(problemWith('0 2 * * SUN', ['Mon', 'Sat'])).toBe(
      'maintenance.windows[1].days: expected a day on which "0 2 * * SUN" starts, found "Mon, Sat"',
    );
  });

  it.each([
    ['0 2 29 2 *', ['Mon']],
    ['0 2 13 * *', ['Fri']],
    ['0 2 29 2 TUE-SAT', ['Sun']],
    ['0 2 * * SUN', ['Sun']],
  ] as const)('is accepted when %s comes on %j, however seldom', (schedule, days) => {
    expect(problemWith(schedule, days)).toBeUndefined();
  });
});
