/**
 * What a calendar should answer, found out the slow way, for its tests: looks at one minute after the other, reads its local date and time
 * from Intl, and compares the fields of the schedule itself. Shares nothing with the calendar but the types.
 */
import type { Maintenance } from '../policy/calendar.ts';
import type { Window } from '../policy/schedule.ts';

const MINUTE = 60_000;
const QUARTER = 15 * MINUTE;
/** No change of the clocks sets them back by more. */
const LONGEST_REPEAT = 3 * 60;

/** The local date and time of a minute. `stamp` counts minutes and orders local times. */
interface Local {
  readonly minute: number;
  readonly hour: number;
  readonly dayOfMonth: number;
  readonly month: number;
  readonly weekday: number;
  readonly stamp: number;
}

const formats = new Map<string, Intl.DateTimeFormat>();
const quarters = new Map<string, Local>();

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const known = formats.get(timeZone);
  if (known !== undefined) return known;
  const options = { year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric' } as const;
  const made = new Intl.DateTimeFormat('en-US', { timeZone, hourCycle: 'h23', weekday: 'short', ...options });
  formats.set(timeZone, made);
  return made;
}

/** Clocks change at a quarter of an hour, so that Intl is asked once for each. */
function localOf(time: number, timeZone: string): Local {
  const quarter = Math.floor(time / QUARTER) * QUARTER;
  const key = `${timeZone} ${quarter}`;
  const known = quarters.get(key) ?? readLocal(quarter, timeZone);
  quarters.set(key, known);
  const past = (time - quarter) / MINUTE;
  return { ...known, minute: known.minute + past, stamp: known.stamp + past };
}

function readLocal(time: number, timeZone: string): Local {
  const parts = new Map(
    formatOf(timeZone)
      .formatToParts(time)
      .map(({ type, value }) => [type, value]),
  );
  const number = (type: Intl.DateTimeFormatPartTypes): number => Number(parts.get(type));
  const [minute, hour, dayOfMonth, month] = [number('minute'), number('hour'), number('day'), number('month')];
  const weekday = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'].indexOf(parts.get('weekday') ?? '');
  // Local times are only compared over some days, where gaps between dates of different months do no harm.
  const stamp = (((number('year') * 12 + month) * 31 + dayOfMonth) * 24 + hour) * 60 + minute;
  return { minute, hour, dayOfMonth, month, weekday, stamp };
}

function fieldHolds(field: string, value: number, [least, most]: readonly [number, number]): boolean {
  return field.split(',').some((item) => {
    const [range = '', step] = item.split('/');
    const [from, to] = range === '*' ? [least, most] : range.split('-').map(Number);
    const first = from ?? 0;
    const last = to ?? first;
    return value >= first && value <= last && (value - first) % Number(step ?? 1) === 0;
  });
}

function holdsDay(schedule: string, { dayOfMonth, month, weekday }: Local): boolean {
  const [, , days = '', months = '', weekdays = ''] = schedule.split(' ');
  const [onDay, onWeekday] = [fieldHolds(days, dayOfMonth, [1, 31]), fieldHolds(weekdays, weekday, [0, 6])];
  const either = days !== '*' && weekdays !== '*';
  return fieldHolds(months, month, [1, 12]) && (either ? onDay || onWeekday : onDay && onWeekday);
}

/** Whether the time fields hold, for each minute of a day. */
function timesOf(schedule: string): readonly boolean[] {
  const [minutes = '', hours = ''] = schedule.split(' ');
  return Array.from(
    { length: 1_440 },
    (_, i) => fieldHolds(minutes, i % 60, [0, 59]) && fieldHolds(hours, Math.floor(i / 60), [0, 23]),
  );
}

const NAMES = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];

/** Tells whether a window opens at a minute. */
function opensAt({ schedule, days }: Window, timeZone: string): (time: number) => boolean {
  const times = timesOf(schedule);
  const isFixed = !/[*/]/u.test(schedule.split(' ').slice(0, 2).join(' '));
  const holdsTime = (time: number, { hour, minute }: Local): boolean => {
    const minuteOfDay = hour * 60 + minute;
    if (!isFixed) return times[minuteOfDay] === true;
    const skipped = Math.min(minutesSkipped(time, timeZone), minuteOfDay);
    return times.slice(minuteOfDay - skipped, minuteOfDay + 1).includes(true) && !isRepeated(time, timeZone);
  };
  return (time) => {
    const local = localOf(time, timeZone);
    const isDay = days.length === 0 || days.some((day) => day === NAMES[local.weekday]);
    return isDay && holdsTime(time, local) && holdsDay(schedule, local);
  };
}

/** How many minutes of local time the clocks leave out just before `time`. */
function minutesSkipped(time: number, timeZone: string): number {
  const elapsed = localOf(time, timeZone).stamp - localOf(time - MINUTE, timeZone).stamp;
  return elapsed > 1 && elapsed <= LONGEST_REPEAT ? elapsed - 1 : 0;
}

function isRepeated(time: number, timeZone: string): boolean {
  const now = localOf(time, timeZone).stamp;
  // Without a change of the clocks in the last hours nothing repeats: their local times are as far apart as they are.
  if (now - localOf(time - LONGEST_REPEAT * MINUTE, timeZone).stamp === LONGEST_REPEAT) return false;
  return Array.from({ length: LONGEST_REPEAT }, (_, i) => time - (i + 1) * MINUTE).some(
    (earlier) => localOf(earlier, timeZone).stamp === now,
  );
}

/** The reason that holds in each minute from `fromMs` (a whole minute) on. */
export function scan({ timeZone, windows, blackouts }: Maintenance, fromMs: number, minutes: number): string[] {
  const runsUntil = windows.map(() => -Infinity);
  const opens = windows.map((window) => opensAt(window, timeZone));
  const lookBack = Math.max(0, ...windows.map(({ durationMs }) => durationMs / MINUTE));
  return Array.from({ length: minutes + lookBack }, (_, i) => fromMs + (i - lookBack) * MINUTE)
    .map((time) => {
      windows.forEach((window, i) => {
        if (opens[i]?.(time) === true) runsUntil[i] = time + window.durationMs;
      });
      if (blackouts.some((blackout) => blackout.fromMs <= time && time < blackout.toMs)) return 'Blackout';
      if (windows.length === 0) return 'NoWindows';
      return runsUntil.some((until) => until > time) ? 'InWindow' : 'OutsideWindows';
    })
    .slice(lookBack);
}
