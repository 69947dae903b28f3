import type { Blackout, Maintenance } from './maintenance.ts';
import { Recent } from './recent.ts';
import { DAY_MS } from './schedule.ts';
import { indexAfter, spanAfter } from './spans.ts';
import type { Timeline } from './timeline.ts';
import { timelines } from './timeline.ts';

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
  outlook(now: number): (from: number, durationMs: number) => number | undefined;
  /** The open time that `from` is in, else the next one, or undefined when there is none within the horizon. */
  opening(from: number): Opening | undefined;
}

/** Calendars kept: more than there are configurations in use at a time. */
const CALENDARS = 32;
/** Timelines kept for each: today's, and those of the days on which nodes may be tried again. */
const TIMELINES = 8;

const calendars = new Recent<string, Calendar>(CALENDARS);

/** The calendar of a maintenance in which `problemOf` finds no mistake; throws for one with a mistake. Equal ones share a calendar. */
export function calendarOf(maintenance: Maintenance): Calendar {
  return calendars.get(JSON.stringify(maintenance), () => compile(maintenance));
}

function compile(maintenance: Maintenance): Calendar {
  const make = timelines(maintenance);
  const kept = new Recent<number, Timeline>(TIMELINES);
  const timelineAt = (time: number): Timeline => {
    const dayMs = Math.floor(time / DAY_MS) * DAY_MS;
    return kept.get(dayMs, () => make(dayMs));
  };
  return {
    at: (now) => stateAt(maintenance, timelineAt(now), now),
    nextFit: (from, durationMs) => nextFit(timelineAt(from), from, durationMs),
    outlook: (now) => {
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
