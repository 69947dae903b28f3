import { type Day, DAYS } from '@brupop/shared/api/brupop-config';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { append, indexAfter, type Span, spanAfter, subtract, unite } from './intervals.ts';
import { comesOnDays, DAY_MS, daysOf, refusalOf, windowsOfDay } from './schedule.ts';

/** What holds at a time. */
export interface CalendarState {
  readonly open: boolean;
  /** A blackout counts before the windows. */
  readonly reason: 'NoWindows' | 'InWindow' | 'OutsideWindows' | 'Blackout';
  /** When `reason` changes next, epoch milliseconds; undefined: not within the horizon. */
  readonly until: number | undefined;
  /** For the reason Blackout: of those that hold, the one that ends last. */
  readonly blackout: Blackout | undefined;
}

/** Open time in one piece. */
export interface Opening {
  /** Its begin, or the time asked for when that is within it. */
  readonly fromMs: number;
  /** Undefined: not within the horizon. */
  readonly toMs: number | undefined;
}

/**
 * The windows and blackouts of a maintenance. The horizon of an answer is 400 days, or the time of 10,000 windows if that is less. Answers
 * depend on nothing but the maintenance and the time asked for, so a clock may jump.
 */
export interface Calendar {
  /** What holds at `now`. */
  at(now: number): CalendarState;
  /** The earliest time not before `from` from which `durationMs` in a row are open, or undefined when there is none within the horizon. */
  nextFit(from: number, durationMs: number): number | undefined;
  /** As `nextFit`, for many questions about the time after `now`: the horizon of all answers is that of `now`. */
  forecast(now: number): (from: number, durationMs: number) => number | undefined;
  /** The open time that `from` is in, else the next one, or undefined when there is none within the horizon. */
  opening(from: number): Opening | undefined;
}

/** Values that are dear to make and follow from their key alone. Keeps those of the `size` keys asked for last. */
export class Recent<K, V> {
  readonly #values = new Map<K, V>();
  readonly #size: number;

  constructor(size: number) {
    this.#size = size;
  }

  /** The value of `key`, made when it is not kept. */
  get(key: K, make: () => V): V {
    const value = this.#values.get(key) ?? make();
    this.#values.delete(key);
    this.#values.set(key, value);
    if (this.#values.size > this.#size) this.#forgetOldest();
    return value;
  }

  #forgetOldest(): void {
    for (const key of this.#values.keys()) {
      this.#values.delete(key);
      return;
    }
  }
}

/** Timelines kept: today's, and those of the days on which nodes may be tried again. */
const TIMELINES = 8;

/** The calendar of a maintenance in which `problemOf` finds no mistake; throws for one with a mistake. */
export function calendarOf(maintenance: Maintenance): Calendar {
  const make = timelines(maintenance);
  const kept = new Recent<number, Timeline>(TIMELINES);
  const timelineAt = (time: number): Timeline => {
    const dayMs = Math.floor(time / DAY_MS) * DAY_MS;
    return kept.get(dayMs, () => make(dayMs));
  };
  return {
    at: (now) => stateAt(maintenance, timelineAt(now), now),
    nextFit: (from, durationMs) => nextFit(timelineAt(from), from, durationMs),
    forecast: (now) => {
      const timeline = timelineAt(now);
      return (from, durationMs) => nextFit(timeline, from, durationMs);
    },
    opening: (from) => opening(timelineAt(from), from),
  };
}

function stateAt({ windows, blackouts }: Maintenance, timeline: Timeline, now: number): CalendarState {
  const next = spanAfter(timeline.open, now);
  const open = next !== undefined && next.fromMs <= now;
  const reason = windows.length === 0 ? 'NoWindows' : 'InWindow';
  if (open) return { open, reason, until: known(timeline, next.toMs), blackout: undefined };
  const closed = spanAfter(timeline.closed, now);
  if (closed !== undefined && closed.fromMs <= now) {
    return { open, reason: 'Blackout', until: closed.toMs, blackout: lastToEnd(blackouts, now) };
  }
  const until = Math.min(next?.fromMs ?? Infinity, closed?.fromMs ?? Infinity);
  return { open, reason: 'OutsideWindows', until: known(timeline, until), blackout: undefined };
}

function lastToEnd(blackouts: readonly Blackout[], now: number): Blackout | undefined {
  return blackouts
    .filter(({ fromMs, toMs }) => fromMs <= now && now < toMs)
    .toSorted((a, b) => b.toMs - a.toMs)
    .at(0);
}

function nextFit({ open }: Timeline, from: number, durationMs: number): number | undefined {
  for (let i = indexAfter(open, from); i < open.length; i += 1) {
    const { fromMs, toMs } = open[i] ?? { fromMs: Infinity, toMs: Infinity };
    const begin = Math.max(from, fromMs);
    if (begin + durationMs <= toMs) return begin;
  }
  return undefined;
}

function opening(timeline: Timeline, from: number): Opening | undefined {
  const next = spanAfter(timeline.open, from);
  return next && { fromMs: Math.max(from, next.fromMs), toMs: known(timeline, next.toMs) };
}

function known({ horizonMs }: Timeline, time: number): number | undefined {
  return time < horizonMs ? time : undefined;
}

/** A time that comes again and again in which nodes may be disrupted. */
export interface Window {
  /** When it begins: five fields of cron in the time zone of the maintenance. */
  readonly schedule: string;
  /** How long it lasts, in elapsed milliseconds, also over a change of the clocks. */
  readonly durationMs: number;
  /** The local weekdays on which it may begin; empty: every day. */
  readonly days: readonly Day[];
}

/** A time in which nothing is disrupted, whatever the windows say. `fromMs` is part of it, `toMs` is not (epoch milliseconds). */
export interface Blackout {
  readonly fromMs: number;
  readonly toMs: number;
  readonly reason: string | undefined;
}

/** When nodes may be disrupted: in any window, at any time when there is no window, and never in a blackout. */
export interface Maintenance {
  /** A name of the IANA database, such as `Europe/Berlin`. */
  readonly timeZone: string;
  readonly windows: readonly Window[];
  readonly blackouts: readonly Blackout[];
}

/** Shortest and longest window. The longest is how far back a window that still runs may have begun. */
export const WINDOW_MS = { min: 60_000, max: 7 * 24 * 60 * 60_000 } as const;

/** The first mistake in `maintenance`, as `field: expected …, found …`, or undefined when a calendar can be made of it. */
export function problemOf({ timeZone, windows, blackouts }: Maintenance): string | undefined {
  return timeZoneProblem(timeZone) ?? firstProblem(windows, windowProblem) ?? firstProblem(blackouts, blackoutProblem);
}

function firstProblem<T>(
  items: readonly T[],
  problemIn: (item: T, index: number) => string | undefined,
): string | undefined {
  return items.map(problemIn).find((problem) => problem !== undefined);
}

function timeZoneProblem(timeZone: string): string | undefined {
  try {
    Intl.DateTimeFormat('en-US', { timeZone });
    return undefined;
  } catch {
    return wrong('timeZone', 'the name of a time zone, such as "UTC" or "Europe/Berlin"', timeZone);
  }
}

function windowProblem({ schedule, durationMs, days }: Window, index: number): string | undefined {
  const field = `windows[${index}]`;
  const writeRejection = refusalOf(schedule);
  if (writeRejection !== undefined) return wrong(`${field}.schedule`, writeRejection, schedule);
  if (!(Number.isInteger(durationMs) && durationMs >= WINDOW_MS.min && durationMs <= WINDOW_MS.max))
    return wrong(`${field}.duration`, 'one minute to seven days', `${durationMs / 1000}s`);
  const noDay = days.find((day) => !DAYS.includes(day));
  if (noDay !== undefined) return wrong(`${field}.days`, `some of ${DAYS.join(', ')}`, noDay);
  if (!comesOnDays(schedule, [])) return wrong(`${field}.schedule`, 'a day that comes', schedule);
  if (!comesOnDays(schedule, days))
    return wrong(`${field}.days`, `a day on which "${schedule}" comes`, days.join(', '));
  return undefined;
}

function blackoutProblem({ fromMs, toMs }: Blackout, index: number): string | undefined {
  if (fromMs < toMs) return undefined;
  return wrong(`blackouts[${index}]`, 'an end after the begin', `${rfc3339(fromMs)} to ${rfc3339(toMs)}`);
}

function wrong(field: string, expected: string, found: string): string {
  return `maintenance.${field}: expected ${expected}, found ${JSON.stringify(found)}`;
}

/** How far a timeline reaches. More than a year, so that a yearly window is always in sight. */
export const HORIZON_DAYS = 400;
/** A timeline with as many windows ends earlier, after the day on which it has them: a week of windows each of which lasts a minute. */
export const MAX_WINDOWS = 10_000;

/** When nodes may be disrupted, from some time until `horizonMs`, of which nothing is known and at which every span ends. */
export interface Timeline {
  readonly open: readonly Span[];
  /** The blackouts, united; all of them, also before and after. */
  readonly closed: readonly Span[];
  readonly horizonMs: number;
}

/** Makes the timelines of a maintenance: one that holds from `fromMs`. */
export function timelines({ timeZone, windows, blackouts }: Maintenance): (fromMs: number) => Timeline {
  const closed = unite(blackouts);
  if (windows.length === 0) {
    const always = { open: subtract([{ fromMs: -Infinity, toMs: Infinity }], closed), closed, horizonMs: Infinity };
    return () => always;
  }
  const days = daysOf(timeZone);
  const kinds = windows.map((window) => windowsOfDay(window, timeZone));
  const longestMs = Math.max(...windows.map(({ durationMs }) => durationMs));
  const windowsOn = (day: Span): Span[] => unite(kinds.flatMap((windowsOfKind) => windowsOfKind(day)));
  return (fromMs) => {
    const { open, horizonMs } = collect(days(fromMs - longestMs), windowsOn, fromMs);
    return { open: subtract(cut(open, horizonMs), closed), closed, horizonMs };
  };
}

/** Unites the windows of day after day, leaves out those that are over at `fromMs`. */
function collect(
  days: Iterable<Span>,
  windowsOn: (day: Span) => readonly Span[],
  fromMs: number,
): Pick<Timeline, 'open' | 'horizonMs'> {
  const open: Span[] = [];
  let horizonMs = fromMs;
  for (const day of days) {
    append(
      open,
      windowsOn(day).filter(({ toMs }) => toMs > fromMs),
    );
    horizonMs = day.toMs;
    if (horizonMs >= fromMs + HORIZON_DAYS * DAY_MS || open.length >= MAX_WINDOWS) break;
  }
  return { open, horizonMs };
}

function cut(spans: readonly Span[], endMs: number): Span[] {
  return spans
    .filter(({ fromMs }) => fromMs < endMs)
    .map(({ fromMs, toMs }) => ({ fromMs, toMs: Math.min(toMs, endMs) }));
}
