/**
 * Maintenance windows and blackouts as open time. A calendar computes the open time from the day
 * (UTC) of a question on and keeps it until a question falls on another day. Answers depend on
 * nothing but the maintenance and the times given, so a clock may jump. Nothing is known beyond the
 * horizon: 400 days, more than a year, so that a yearly window is always in sight.
 */
import { type Interval, merge, subtract } from './interval.ts';
import { DAY_MS, everOpens, localDays, scheduleProblem, type Window, windowsOn } from './schedule.ts';

export interface Blackout extends Interval {
  readonly reason: string | undefined;
}

/** Nodes may be disrupted in any window, always when there is none, and never in a blackout. */
export interface Maintenance {
  /** A name of the IANA database, such as `Europe/Berlin`. */
  readonly timeZone: string;
  readonly windows: readonly Window[];
  readonly blackouts: readonly Blackout[];
}

export interface CalendarState {
  readonly open: boolean;
  /** A blackout takes precedence over the windows. */
  readonly reason: 'NoWindows' | 'InWindow' | 'OutsideWindows' | 'Blackout';
  /** When `reason` changes next, epoch milliseconds; undefined: not within the horizon. */
  readonly until: number | undefined;
  /** For the reason Blackout: of those in effect, the one that ends last. */
  readonly blackout: Blackout | undefined;
}

export interface Calendar {
  at(now: number): CalendarState;
  /**
   * Returns the earliest time from `from` on at which `durationMs` in a row are open, or undefined
   * when there is none within the horizon of `now`. By default `now` is `from`.
   * @param earlier - how many start before, one `eachMs` after the other, and fit likewise
   */
  nextFit(from: number, durationMs: number, now?: number, earlier?: number, eachMs?: number): number | undefined;
}

export const HORIZON_DAYS = 400;
/** The horizon ends after the day on which there are this many windows, at least six days ahead. */
const MAX_WINDOWS = 10_000;

/** Returns the first mistake that the schema cannot find, as `field: expected …, found …`. */
export function problemOf({ timeZone, windows }: Maintenance): string | undefined {
  return timeZoneProblem(timeZone) ?? windows.map(windowProblem).find((problem) => problem !== undefined);
}

function timeZoneProblem(timeZone: string): string | undefined {
  try {
    Intl.DateTimeFormat('en-US', { timeZone });
    return undefined;
  } catch {
    return wrong('timeZone', 'the name of a time zone, such as "UTC" or "Europe/Berlin"', timeZone);
  }
}

function windowProblem(window: Window, index: number): string | undefined {
  const { schedule, days } = window;
  const field = `windows[${index}]`;
  const problem = scheduleProblem(schedule);
  if (problem !== undefined) return wrong(`${field}.schedule`, problem, schedule);
  if (everOpens(window)) return undefined;
  if (days.length === 0) return wrong(`${field}.schedule`, 'a date that exists', schedule);
  return wrong(`${field}.days`, `a day on which "${schedule}" starts`, days.join(', '));
}

function wrong(field: string, expected: string, found: string): string {
  return `maintenance.${field}: expected ${expected}, found ${JSON.stringify(found)}`;
}

/** Throws for a maintenance in which {@link problemOf} finds a mistake. */
export function calendarOf(maintenance: Maintenance): Calendar {
  const closed = merge(maintenance.blackouts);
  let kept: OpenTime | undefined;
  const openTimeAt = (now: number): OpenTime => {
    const dayMs = Math.floor(now / DAY_MS) * DAY_MS;
    if (kept?.dayMs !== dayMs) kept = openTimeFrom(dayMs, maintenance, closed);
    return kept;
  };
  return {
    at: (now) => stateAt(maintenance, closed, openTimeAt(now), now),
    nextFit: (from, durationMs, now = from, earlier = 0, eachMs = durationMs) => {
      let left = earlier;
      const { open, longestOpenMs } = openTimeAt(now);
      // Otherwise each node that waits with WindowTooShort would look at all of them.
      if (durationMs > longestOpenMs) return undefined;
      for (const { fromMs, toMs } of open) {
        if (toMs <= from) continue;
        const start = Math.max(from, fromMs);
        const fitting = Math.max(0, 1 + Math.floor((toMs - start - durationMs) / eachMs));
        if (left < fitting) return start + left * eachMs;
        left -= fitting;
      }
      return undefined;
    },
  };
}

/** The open time from `dayMs` until `horizonMs`, in order and merged. */
interface OpenTime {
  readonly dayMs: number;
  readonly horizonMs: number;
  readonly open: readonly Interval[];
  /** Of these intervals. */
  readonly longestOpenMs: number;
}

function openTimeFrom(dayMs: number, { timeZone, windows }: Maintenance, closed: readonly Interval[]): OpenTime {
  const always = windows.length === 0;
  const intervals: Interval[] = always ? [{ fromMs: -Infinity, toMs: Infinity }] : [];
  let horizonMs = always ? Infinity : dayMs;
  const windowsOf = distinct(windows).map((window) => windowsOn(window));
  const longestMs = Math.max(0, ...windows.map(({ durationMs }) => durationMs));
  for (const day of localDays(timeZone, dayMs - longestMs)) {
    if (horizonMs >= dayMs + HORIZON_DAYS * DAY_MS || intervals.length >= MAX_WINDOWS) break;
    const ofDay = merge(windowsOf.flatMap((windowsOfDay) => windowsOfDay(day)));
    intervals.push(...ofDay.filter(({ toMs }) => toMs > dayMs));
    horizonMs = day.toMs;
  }
  const open = subtract(merge(intervals), merge([...closed, { fromMs: horizonMs, toMs: Infinity }]));
  const longestOpenMs = open.reduce((longest, { fromMs, toMs }) => Math.max(longest, toMs - fromMs), 0);
  return { dayMs, horizonMs, open, longestOpenMs };
}

/** Identical windows open at the same times. */
function distinct(windows: readonly Window[]): Window[] {
  return [...new Map(windows.map((window) => [keyOf(window), window])).values()];
}

function keyOf({ schedule, days, durationMs }: Window): string {
  return JSON.stringify([schedule.trim().split(/\s+/u), days.toSorted(), durationMs]);
}

function stateAt(
  { windows, blackouts }: Maintenance,
  closed: readonly Interval[],
  { open, horizonMs }: OpenTime,
  now: number,
): CalendarState {
  const [opening, blackout] = [open, closed].map((intervals) => intervals.find(({ toMs }) => toMs > now));
  const known = (time = Infinity): number | undefined => (time < horizonMs ? time : undefined);
  if (opening !== undefined && opening.fromMs <= now) {
    const reason = windows.length === 0 ? 'NoWindows' : 'InWindow';
    return { open: true, reason, until: known(opening.toMs), blackout: undefined };
  }
  if (blackout !== undefined && blackout.fromMs <= now) {
    const inEffect = blackouts.filter(({ fromMs, toMs }) => fromMs <= now && now < toMs);
    const last = inEffect.toSorted((a, b) => b.toMs - a.toMs)[0];
    return { open: false, reason: 'Blackout', until: blackout.toMs, blackout: last };
  }
  const until = known(Math.min(opening?.fromMs ?? Infinity, blackout?.fromMs ?? Infinity));
  return { open: false, reason: 'OutsideWindows', until, blackout: undefined };
}
