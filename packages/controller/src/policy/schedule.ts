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

/** In epoch milliseconds: `fromMs` is part of it, `toMs` is not. */
export interface Interval {
  readonly fromMs: number;
  readonly toMs: number;
}

export interface Window {
  /** When it opens: five cron fields, in the time zone of the maintenance. */
  readonly schedule: string;
  /** How long it stays open, in elapsed milliseconds, also over a change of the clocks. */
  readonly durationMs: number;
  /** The local weekdays on which it may open; empty: every day. */
  readonly days: readonly Day[];
}

export const DAY_MS = 24 * 60 * 60_000;
/** Combinations of date and weekday repeat after 28 years. */
const CYCLE_MS = 28 * 366 * DAY_MS;

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
    cron(fields, 'UTC');
    return undefined;
  } catch (error) {
    const reason = error instanceof Error ? error.message.replace(/^CronPattern: /u, '') : String(error);
    return `a cron schedule such as "0 2 * * *" (${reason})`;
  }
}

export function everOpens(window: Window): boolean {
  const windowsOf = windowsOn(window, 'UTC');
  for (const day of localDays('UTC', 0)) {
    if (windowsOf(day).length > 0) return true;
    if (day.fromMs > CYCLE_MS) return false;
  }
  return false;
}

/** The first day contains `fromMs`, or is the one before. */
export function* localDays(timeZone: string, fromMs: number): Generator<Interval> {
  const midnights = cron(['0', '0', '*', '*', '*'], timeZone);
  let start = midnights.previousRuns(1, dateOf(fromMs))[0]?.getTime();
  while (start !== undefined) {
    const tomorrow = start + DAY_MS;
    // A match costs croner a tenth of a search.
    const end = midnights.match(dateOf(tomorrow)) ? tomorrow : nextAfter(midnights, start);
    if (end !== undefined) yield { fromMs: start, toMs: end };
    start = end;
  }
}

/**
 * Returns a function that lists the windows that open on a local day. On a day of 24 hours croner
 * only matches the date; on any other it computes every start.
 */
export function windowsOn(window: Window, timeZone: string): (day: Interval) => readonly Interval[] {
  const { schedule, days, durationMs } = window;
  const fields = fieldsOf(schedule);
  const weekdays = days.length === 0 ? '*' : days.join(',');
  const dates = [fields.slice(2), ['*', '*', weekdays]].map((date) => cron(['*', '*', ...date], timeZone));
  const exact = cron(fields, timeZone);
  const ordinary = startsWithin(cron([...fields.slice(0, 2), '*', '*', '*'], 'UTC'), { fromMs: 0, toMs: DAY_MS });
  return (day) => {
    if (!dates.every((date) => date.match(dateOf(day.fromMs)))) return [];
    const isOrdinary = day.toMs - day.fromMs === DAY_MS;
    const starts = isOrdinary ? ordinary.map((time) => day.fromMs + time) : startsWithin(exact, day);
    return starts.map((fromMs) => ({ fromMs, toMs: fromMs + durationMs }));
  };
}

function startsWithin(schedule: Cron, { fromMs, toMs }: Interval): number[] {
  const starts: number[] = [];
  for (let time = nextAfter(schedule, fromMs - 1); time !== undefined && time < toMs; time = nextAfter(schedule, time))
    starts.push(time);
  return starts;
}

/** Splits a schedule; reads `*\/1` as `*`, as a CronJob does. croner does not in a day field. */
function fieldsOf(schedule: string): string[] {
  return schedule
    .trim()
    .split(/\s+/u)
    .map((field) => field.replaceAll(/\*\/0*1(?!\d)/gu, '*'));
}

/** Either day field suffices when both are given, as for a CronJob. */
function cron(fields: readonly string[], timezone: string): Cron {
  return new Cron(fields.join(' '), { timezone, mode: '5-part', fixedTimeRule: 'no-wildcard', domAndDow: false });
}

function nextAfter(schedule: Cron, time: number): number | undefined {
  return schedule.nextRun(dateOf(time))?.getTime();
}

function dateOf(epochMs: number): Date {
  // oxlint-disable-next-line no-restricted-globals -- croner takes Date objects; this reads no clock
  return new Date(epochMs);
}
