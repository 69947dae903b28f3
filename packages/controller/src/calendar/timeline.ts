import type { Maintenance } from './maintenance.ts';
import { DAY_MS, daysOf, windowsOfDay } from './schedule.ts';
import type { Span } from './spans.ts';
import { append, subtract, unite } from './spans.ts';

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
