import { DAYS } from '@brupop/shared/brupop-config';
import type { Day } from '@brupop/shared/brupop-config';
import { rfc3339 } from '@brupop/shared/clock';
import { Recent } from './recent.ts';
import { comesOnDays, refusalOf } from './schedule.ts';

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

/** Maintenances whose mistakes are remembered: to ask croner takes time. */
const judged = new Recent<string, { readonly problem: string | undefined }>(32);

/** The first mistake in `maintenance`, as `field: expected …, found …`, or undefined when a calendar can be made of it. */
export function problemOf({ timeZone, windows, blackouts }: Maintenance): string | undefined {
  // JSON has but one text for all numbers that are not finite.
  const key = JSON.stringify([timeZone, windows, blackouts], (_, value: unknown) =>
    typeof value === 'number' ? `${value}` : value,
  );
  return judged.get(key, () => ({ problem: judge({ timeZone, windows, blackouts }) })).problem;
}

function judge({ timeZone, windows, blackouts }: Maintenance): string | undefined {
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
  const refusal = refusalOf(schedule);
  if (refusal !== undefined) return wrong(`${field}.schedule`, refusal, schedule);
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
