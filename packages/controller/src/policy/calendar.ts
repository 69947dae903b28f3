/**
 * Maintenance windows and blackouts as open time. A calendar computes the open time from the day
 * (UTC) of a question on and keeps it until a question falls on another day. Answers depend on
 * nothing but the maintenance and the times given, so a clock may jump. Nothing is known beyond the
 * horizon: 400 days, more than a year, so that a yearly window is always in sight.
 */
import { DAY_MS, everOpens, localDays, scheduleProblem, type Span, type Window, windowsOn } from './schedule.ts';

export interface Blackout extends Span {
  readonly reason: string | undefined;
}

/** When nodes may be disrupted: in any window, always when there is none, and never in a blackout. */
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
   */
  nextFit(from: number, durationMs: number, now?: number): number | undefined;
}

export const HORIZON_DAYS = 400;
/** The horizon ends after the day on which there are this many windows, at least six days ahead. */
const MAX_WINDOWS = 10_000;

/** Returns the first mistake that the schema cannot find, as `field: expected …, found …`, or undefined. */
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
  const make = timelines(maintenance);
  let kept: Timeline | undefined;
  const timelineAt = (now: number): Timeline => {
    const dayMs = Math.floor(now / DAY_MS) * DAY_MS;
    if (kept?.dayMs !== dayMs) kept = make(dayMs);
    return kept;
  };
  return {
    at: (now) => stateAt(maintenance, timelineAt(now), now),
    nextFit: (from, durationMs, now = from) => nextFit(timelineAt(now), from, durationMs),
  };
}

/** What is known from `dayMs` until `horizonMs`: the open time and all blackouts, each in order and merged. */
interface Timeline {
  readonly dayMs: number;
  readonly horizonMs: number;
  readonly open: readonly Span[];
  readonly closed: readonly Span[];
}

function timelines({ timeZone, windows, blackouts }: Maintenance): (dayMs: number) => Timeline {
  const closed = merge(blackouts);
  const timeline = (dayMs: number, horizonMs: number, spans: readonly Span[]): Timeline => {
    const holes = merge([...closed, { fromMs: horizonMs, toMs: Infinity }]);
    return { dayMs, horizonMs, open: subtract(merge(spans), holes), closed };
  };
  if (windows.length === 0) return (dayMs) => timeline(dayMs, Infinity, [{ fromMs: -Infinity, toMs: Infinity }]);
  const windowsOf = windows.map((window) => windowsOn(window, timeZone));
  const longestMs = Math.max(...windows.map(({ durationMs }) => durationMs));
  return (dayMs) => {
    const spans: Span[] = [];
    let horizonMs = dayMs;
    for (const day of localDays(timeZone, dayMs - longestMs)) {
      spans.push(...merge(windowsOf.flatMap((windowsOfDay) => windowsOfDay(day))).filter(({ toMs }) => toMs > dayMs));
      horizonMs = day.toMs;
      if (horizonMs >= dayMs + HORIZON_DAYS * DAY_MS || spans.length >= MAX_WINDOWS) break;
    }
    return timeline(dayMs, horizonMs, spans);
  };
}

function stateAt(
  { windows, blackouts }: Maintenance,
  { open, closed, horizonMs }: Timeline,
  now: number,
): CalendarState {
  const [opening, blackout] = [open, closed].map((spans) => spans.find(({ toMs }) => toMs > now));
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

function nextFit({ open }: Timeline, from: number, durationMs: number): number | undefined {
  const fit = open.find(({ fromMs, toMs }) => toMs > from && Math.max(from, fromMs) + durationMs <= toMs);
  return fit && Math.max(from, fit.fromMs);
}

/** Returns the same time as spans in order that neither overlap nor touch; none is empty. */
export function merge(spans: readonly Span[]): Span[] {
  const merged: Span[] = [];
  for (const { fromMs, toMs } of spans.toSorted((a, b) => a.fromMs - b.fromMs)) {
    const last = merged.at(-1);
    if (fromMs >= toMs) continue;
    if (last === undefined || fromMs > last.toMs) merged.push({ fromMs, toMs });
    else if (toMs > last.toMs) merged[merged.length - 1] = { fromMs: last.fromMs, toMs };
  }
  return merged;
}

/** Returns the parts of `spans` outside every hole. Both are merged. */
export function subtract(spans: readonly Span[], holes: readonly Span[]): Span[] {
  return spans.flatMap(({ fromMs, toMs }) => {
    const inside = holes.filter((hole) => hole.toMs > fromMs && hole.fromMs < toMs);
    const starts = [fromMs, ...inside.map((hole) => hole.toMs)];
    const ends = [...inside.map((hole) => hole.fromMs), toMs];
    return starts
      .map((start, i) => ({ fromMs: start, toMs: ends[i] ?? toMs }))
      .filter((part) => part.fromMs < part.toMs);
  });
}
