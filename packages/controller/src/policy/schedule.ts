import { Cron } from 'croner';
import { type Span, unite } from './intervals.ts';
const MONTHS = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];
const WEEKDAYS = ['MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];

/** What may be written in the five fields. Which numbers are in range is left to croner. */
const FIELDS = [
  { name: 'minute', pattern: patternOf(String.raw`\d+`), example: '0 or */15' },
  { name: 'hour', pattern: patternOf(String.raw`\d+`), example: '2 or 1,13' },
  { name: 'day of month', pattern: patternOf(String.raw`\d+`), example: '*, 1 or 1-7' },
  { name: 'month', pattern: patternOf([String.raw`\d+`, ...MONTHS].join('|')), example: '*, */3 or JAN,JUL' },
  {
    name: 'day of week',
    pattern: patternOf(['[0-6]', ...WEEKDAYS].join('|'), '|SUN'),
    example: '*, MON-FRI or SUN; the week begins with SUN, which is 0',
  },
] as const;

const EXPECTED = 'five fields (minute, hour, day of month, month, day of week), such as "0 2 * * *"';

/**
 * A wildcard, or a list of values, ranges, and steps of a range or a wildcard. `alone` are values that end no range: a CronJob's week begins
 * with Sunday. A wildcard within a list is refused since croner and CronJobs do not agree on what it does to the other day field.
 */
function patternOf(value: string, alone = ''): RegExp {
  const item = String.raw`(?:\*/\d+|(?:${value}${alone})(?:-(?:${value})(?:/\d+)?)?)`;
  return new RegExp(String.raw`^(?:\*|${item}(?:,${item})*)$`, 'iu');
}

/** What is expected instead of a schedule that a CronJob would not take, or undefined. croner takes more: seconds, years, `@daily`, L, W, #, ? and +. */
export function dialectProblem(schedule: string): string | undefined {
  const fields = fieldsOf(schedule);
  if (fields.length !== FIELDS.length) return EXPECTED;
  const wrong = FIELDS.find(({ pattern }, index) => !pattern.test(fields[index] ?? ''));
  return wrong === undefined ? undefined : `${EXPECTED}, with a ${wrong.name} such as ${wrong.example}`;
}

/** The fields, with `*` for `*\/1`, which means the same to a CronJob but not to croner when both day fields are given. */
export function fieldsOf(schedule: string): string[] {
  return schedule
    .trim()
    .split(/\s+/u)
    .map((field) => field.replaceAll(/\*\/0*1(?!\d)/gu, '*'));
}

/** Everything that is asked of croner. Epoch milliseconds outside, Date objects, which croner takes and gives, inside. */

const EVERY_DAY = '* * * * *';
/** An ordinary day, in milliseconds. */
export const DAY_MS = 24 * 60 * 60_000;
/** As many days on which a schedule comes hold every combination of date and weekday that the calendar repeats within 28 years. */
const DAYS_LOOKED_AT = 1_000;

/**
 * A schedule without wildcard or step in its minutes and hours is at fixed times: it comes once on the day on which the clocks go back, and
 * when they skip its time, after the gap. Any other follows elapsed time: it comes in both passes of a repeated hour, and not in a gap.
 * Either day field suffices when both are given, as for a CronJob.
 */
function cron(schedule: string, timeZone: string): Cron {
  return new Cron(schedule, { timezone: timeZone, mode: '5-part', fixedTimeRule: 'no-wildcard', domAndDow: false });
}

/** What is expected instead of `schedule`, or undefined when it can be used. */
export function refusalOf(schedule: string): string | undefined {
  const problem = dialectProblem(schedule);
  if (problem !== undefined) return problem;
  try {
    cron(fieldsOf(schedule).join(' '), 'UTC');
    return undefined;
  } catch (error) {
    const reason = error instanceof Error ? error.message.replace(/^CronPattern: /u, '') : String(error);
    return `a cron schedule such as "0 2 * * *" (${reason})`;
  }
}

/** Whether `schedule` ever comes on one of `days` (such as `Mon`; empty: any day). */
export function comesOnDays(schedule: string, days: readonly string[]): boolean {
  const dates = cron(['0', '0', ...fieldsOf(schedule).slice(2)].join(' '), 'UTC');
  const weekdays = cron(weekdaysOf(days), 'UTC');
  let date = nextAfter(dates, 0);
  for (let looked = 0; date !== undefined && looked < DAYS_LOOKED_AT; looked += 1) {
    if (weekdays.match(dateOf(date))) return true;
    date = nextAfter(dates, date);
  }
  return false;
}

/**
 * The local days of a time zone in order: the one that holds `fromMs`, or the one before it, and all that follow. A match costs croner a
 * fraction of a search, so it is asked for the next midnight only where that is not 24 hours away.
 */
export function daysOf(timeZone: string): (fromMs: number) => Iterable<Span> {
  const midnights = cron('0 0 * * *', timeZone);
  return function* days(fromMs) {
    let begin = midnights.previousRuns(1, dateOf(fromMs))[0]?.getTime();
    while (begin !== undefined) {
      const tomorrow = begin + DAY_MS;
      const end = midnights.match(dateOf(tomorrow)) ? tomorrow : nextAfter(midnights, begin);
      if (end !== undefined) yield { fromMs: begin, toMs: end };
      begin = end;
    }
  };
}

/** The windows, united, that begin on the local day `day`. */
export type WindowsOfDay = (day: Span) => readonly Span[];

/**
 * Asks croner once for the times of an ordinary day of 24 hours, and then for each day only whether the schedule comes on it: so a schedule
 * that comes each minute is as cheap as one that comes once. On a day that a change of the clocks makes longer or shorter, croner tells
 * every single time.
 */
export function windowsOfDay(
  { schedule, durationMs, days }: { schedule: string; durationMs: number; days: readonly string[] },
  timeZone: string,
): WindowsOfDay {
  const conditions = [['*', '*', ...fieldsOf(schedule).slice(2)].join(' '), weekdaysOf(days)]
    .filter((condition) => condition !== EVERY_DAY)
    .map((condition) => cron(condition, timeZone));
  const windows = (begins: readonly number[]): Span[] =>
    unite(begins.map((fromMs) => ({ fromMs, toMs: fromMs + durationMs })));
  const times = cron([...fieldsOf(schedule).slice(0, 2), '*', '*', '*'].join(' '), 'UTC');
  const ordinary = windows(timesWithin(times, { fromMs: 0, toMs: DAY_MS }));
  return (day) => {
    if (!conditions.every((condition) => condition.match(dateOf(day.fromMs)))) return [];
    if (day.toMs - day.fromMs !== DAY_MS)
      return windows(timesWithin(cron(fieldsOf(schedule).join(' '), timeZone), day));
    return ordinary.map(({ fromMs, toMs }) => ({ fromMs: day.fromMs + fromMs, toMs: day.fromMs + toMs }));
  };
}

function timesWithin(times: Cron, { fromMs, toMs }: Span): number[] {
  const found: number[] = [];
  let time = nextAfter(times, fromMs - 1);
  while (time !== undefined && time < toMs) {
    found.push(time);
    time = nextAfter(times, time);
  }
  return found;
}

function weekdaysOf(days: readonly string[]): string {
  return `* * * * ${days.length === 0 ? '*' : days.join(',')}`;
}

function nextAfter(times: Cron, time: number): number | undefined {
  return times.nextRun(dateOf(time))?.getTime();
}

function dateOf(epochMs: number): Date {
  // oxlint-disable-next-line no-restricted-globals -- croner takes Date objects; this reads no clock
  return new Date(epochMs);
}
