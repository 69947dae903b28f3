/**
 * Cron schedules: their syntax, and when they start. Only this file calls croner.
 *
 * The syntax is that of a CronJob, but with fixed minutes (ADR 0005). A schedule without a wildcard
 * or a step in its hours is at fixed local times: it starts once when the clocks go back, and after
 * the gap when they skip its time. Any other follows elapsed time: it starts in both passes of a
 * repeated hour, and not in a gap.
 */
import { Cron } from 'croner';
import type { Day } from '@brupop/shared/api/config-values';
import { type Interval, merge } from './interval.ts';

export interface Window {
  /** When it opens: five cron fields, in the time zone of the maintenance. */
  readonly schedule: string;
  /** How long it stays open, in elapsed milliseconds, also over a change of the clocks. */
  readonly durationMs: number;
  /** The local weekdays on which it may open; empty: every day. */
  readonly days: readonly Day[];
}

export const DAY_MS = 24 * 60 * 60_000;

const NUMBER = String.raw`\d+`;
const MONTH = `${NUMBER}|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC`;
const WEEKDAY = '[0-6]|MON|TUE|WED|THU|FRI|SAT';
/** The syntax of each field, and an example. croner checks the range of the numbers. */
const FIELDS = [
  ['minute', /^\d+(?:,\d+)*$/u, '0 or 0,30; it has no *, range or step'],
  ['hour', patternOf(NUMBER), '2 or 1,13'],
  ['day of month', patternOf(NUMBER), '*, 1 or 1-7'],
  ['month', patternOf(MONTH), '*, */3 or JAN,JUL'],
  ['day of week', patternOf(WEEKDAY, '|SUN'), '*, MON-FRI or SUN; the week starts with SUN, which is 0'],
] as const;
const EXPECTED = 'five fields (minute, hour, day of month, month, day of week), such as "0 2 * * *"';

/**
 * Matches a wildcard, or a list of values, ranges, and steps of a range or a wildcard. `alone` are
 * values that end no range: a CronJob's week starts with Sunday. A list contains no wildcard: croner
 * and CronJobs disagree on what it does to the other day field.
 */
function patternOf(value: string, alone = ''): RegExp {
  const item = String.raw`(?:\*/\d+|(?:${value}${alone})(?:-(?:${value})(?:/\d+)?)?)`;
  return new RegExp(String.raw`^(?:\*|${item}(?:,${item})*)$`, 'iu');
}

/** Returns what is expected instead of `schedule`, or undefined when it is valid. */
export function scheduleProblem(schedule: string): string | undefined {
  const fields = fieldsOf(schedule);
  if (fields.length !== FIELDS.length) return EXPECTED;
  const wrong = FIELDS.find(([, pattern], index) => !pattern.test(fields[index] ?? ''));
  if (wrong !== undefined) return `${EXPECTED}, with a ${wrong[0]} such as ${wrong[2]}`;
  try {
    cron(fields);
    return undefined;
  } catch (error) {
    const reason = error instanceof Error ? error.message.replace(/^CronPattern: /u, '') : String(error);
    return `a cron schedule such as "0 2 * * *" (${reason})`;
  }
}

/** The values of the fields of a schedule, enumerated once. */
interface Fields {
  /** Of the day, in order. */
  readonly minutes: readonly number[];
  readonly daysOfMonth: ReadonlySet<number>;
  /** From 1. */
  readonly months: ReadonlySet<number>;
  /** From Sunday, which is 0. */
  readonly weekdays: ReadonlySet<number>;
  /** Either day field suffices. */
  readonly eitherDay: boolean;
  /** At fixed local times: the hours have neither a wildcard nor a step. */
  readonly isFixed: boolean;
}

function valuesOf(schedule: string): Fields {
  const [minutes = '', hours = '', days = '', months = '', weekdays = ''] = fieldsOf(schedule);
  const hoursOfDay = matching(['0', hours, '*', '*', '*'], 24, HOUR_MS);
  const minutesOfHour = [...new Set(minutes.split(',').map(Number))].toSorted((a, b) => a - b);
  return {
    minutes: hoursOfDay.flatMap((hour) => minutesOfHour.map((minute) => hour * 60 + minute)),
    // January 1970 has 31 days, and its fourth is a Sunday.
    daysOfMonth: new Set(matching(['0', '0', days, '*', '*'], 31, DAY_MS).map((day) => day + 1)),
    months: new Set(
      MONTH_STARTS.flatMap((start, month) => (isMatch(['0', '0', '*', months, '*'], start) ? [month + 1] : [])),
    ),
    weekdays: new Set(matching(['0', '0', '*', '*', weekdays], 7, DAY_MS, 3 * DAY_MS)),
    eitherDay: days !== '*' && weekdays !== '*',
    isFixed: !/[*/]/u.test(hours),
  };
}

const HOUR_MS = 60 * 60_000;
const DAYS_OF_MONTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/** Of 1972, a leap year. */
const MONTH_STARTS = DAYS_OF_MONTHS.map(
  (_, month) => (730 + DAYS_OF_MONTHS.slice(0, month).reduce((a, b) => a + b, 0)) * DAY_MS,
);

function matching(fields: readonly string[], count: number, stepMs: number, fromMs = 0): number[] {
  const schedule = cron(fields);
  return Array.from({ length: count }, (_, i) => i).filter((i) => schedule.match(dateOf(fromMs + i * stepMs)));
}

function isMatch(fields: readonly string[], time: number): boolean {
  return cron(fields).match(dateOf(time));
}

/** Every date falls on every weekday in some year. */
export function everOpens({ schedule, days }: Window): boolean {
  const { daysOfMonth, months, weekdays, eitherDay } = valuesOf(schedule);
  const allowed = weekdaysOf(days);
  const isDate = [...months].some((month) => [...daysOfMonth].some((day) => day <= (DAYS_OF_MONTHS[month - 1] ?? 0)));
  const isWeekday = [...weekdays].some((weekday) => allowed.has(weekday));
  return eitherDay ? isDate || isWeekday : isDate && isWeekday;
}

function weekdaysOf(days: readonly Day[]): ReadonlySet<number> {
  return new Set(days.length === 0 ? WEEKDAYS.keys() : days.map((day) => WEEKDAYS.indexOf(day)));
}

const WEEKDAYS: readonly string[] = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];

/** A part of a local day in which the clocks do not change. */
interface Stretch extends Interval {
  /** Local minute of the day at its start. */
  readonly minute: number;
}

interface LocalDay extends Interval {
  readonly dayOfMonth: number;
  readonly month: number;
  readonly weekday: number;
  readonly stretches: readonly Stretch[];
}

/** The first day contains `fromMs`, or is the one before. */
export function* localDays(timeZone: string, fromMs: number): Generator<LocalDay> {
  const midnights = cron(['0', '0', '*', '*', '*'], timeZone);
  const clock = clockOf(timeZone);
  let start = midnights.previousRuns(1, dateOf(fromMs))[0]?.getTime();
  while (start !== undefined) {
    const tomorrow: number = start + DAY_MS;
    // A match costs croner a tenth of a search.
    const end: number | undefined = midnights.match(dateOf(tomorrow)) ? tomorrow : nextAfter(midnights, start);
    if (end !== undefined) {
      const day = { fromMs: start, toMs: end };
      const { minute: _, ...date } = clock(start);
      yield { ...day, ...date, stretches: end === tomorrow ? [{ ...day, minute: 0 }] : stretchesOf(day, clock) };
    }
    start = end;
  }
}

interface LocalTime {
  readonly dayOfMonth: number;
  readonly month: number;
  readonly weekday: number;
  readonly minute: number;
}

function clockOf(timeZone: string): (time: number) => LocalTime {
  const options = { month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', weekday: 'short' } as const;
  const format = new Intl.DateTimeFormat('en-US', { timeZone, hourCycle: 'h23', ...options });
  return (time) => {
    const parts = Object.fromEntries(format.formatToParts(time).map(({ type, value }) => [type, value]));
    const number = (type: Intl.DateTimeFormatPartTypes): number => Number(parts[type]);
    return {
      dayOfMonth: number('day'),
      month: number('month'),
      weekday: WEEKDAYS.indexOf(parts['weekday'] ?? ''),
      minute: number('hour') * 60 + number('minute'),
    };
  };
}

/** Clocks change at a quarter of an hour. */
const QUARTER_MS = 15 * 60_000;

function stretchesOf({ fromMs, toMs }: Interval, clock: (time: number) => LocalTime): Stretch[] {
  const stretches: Stretch[] = [];
  for (let time = fromMs; time < toMs; time += QUARTER_MS) {
    const { minute } = clock(time);
    const last = stretches.at(-1);
    if (last !== undefined && minute === last.minute + (time - last.fromMs) / 60_000) continue;
    if (last !== undefined) stretches[stretches.length - 1] = { ...last, toMs: time };
    stretches.push({ fromMs: time, toMs, minute });
  }
  return stretches;
}

/** Returns a function that lists when a window is open that opens on a local day. */
export function windowsOn({ schedule, days, durationMs }: Window): (day: LocalDay) => readonly Interval[] {
  const fields = valuesOf(schedule);
  const allowed = weekdaysOf(days);
  const openFrom = (starts: readonly number[]): Interval[] =>
    merge(starts.map((fromMs) => ({ fromMs, toMs: fromMs + durationMs })));
  const ordinary = openFrom(fields.minutes.map((minute) => minute * 60_000));
  return (day) => {
    if (!allowed.has(day.weekday) || !isOn(fields, day)) return [];
    if (day.stretches.length > 1 || day.toMs - day.fromMs !== DAY_MS) return openFrom(startsOn(fields, day));
    return ordinary.map(({ fromMs, toMs }) => ({ fromMs: day.fromMs + fromMs, toMs: day.fromMs + toMs }));
  };
}

function isOn({ daysOfMonth, months, weekdays, eitherDay }: Fields, day: LocalDay): boolean {
  const [isDate, isWeekday] = [daysOfMonth.has(day.dayOfMonth), weekdays.has(day.weekday)];
  return months.has(day.month) && (eitherDay ? isDate || isWeekday : isDate && isWeekday);
}

/** A fixed time that is repeated counts once, and one that is skipped at the end of the gap. */
function startsOn({ minutes, isFixed }: Fields, { stretches }: LocalDay): number[] {
  let passed = 0;
  return stretches.flatMap(({ fromMs, toMs, minute: first }) => {
    const end = first + (toMs - fromMs) / 60_000;
    const least = isFixed ? passed : first;
    passed = Math.max(passed, end);
    const starts = minutes.filter((minute) => minute >= least && minute < end);
    return starts.map((minute) => fromMs + Math.max(0, minute - first) * 60_000);
  });
}

/** Splits a schedule; reads `*\/1` as `*`, as a CronJob does. croner does not in a day field. */
function fieldsOf(schedule: string): string[] {
  return schedule
    .trim()
    .split(/\s+/u)
    .map((field) => field.replaceAll(/\*\/0*1(?!\d)/gu, '*'));
}

/**
 * Either day field suffices when both are given, as for a CronJob.
 * @param timezone - undefined: UTC, for which croner does without Intl and is several times as fast
 */
function cron(fields: readonly string[], timezone?: string): Cron {
  const zone = timezone === undefined ? { utcOffset: 0 } : { timezone };
  return new Cron(fields.join(' '), { ...zone, mode: '5-part', fixedTimeRule: 'no-wildcard', domAndDow: false });
}

function nextAfter(schedule: Cron, time: number): number | undefined {
  return schedule.nextRun(dateOf(time))?.getTime();
}

function dateOf(epochMs: number): Date {
  // oxlint-disable-next-line no-restricted-globals -- croner takes Date objects; this reads no clock
  return new Date(epochMs);
}
