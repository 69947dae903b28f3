import { parseTime, rfc3339 } from '@brupop/shared/clock';
import { DAYS } from '@brupop/shared/brupop-config';
import type { Day } from '@brupop/shared/brupop-config';
import type { SpecReader } from '@brupop/shared/spec-reader';
import type { Blackout, Maintenance, Window } from '../calendar/maintenance.ts';
import { readDuration } from './quantities.ts';

/** When nodes may begin updates, and how long one is expected to take. */
export interface MaintenanceSettings extends Maintenance {
  /** How long an update is taken to last while none was measured, milliseconds. */
  readonly estimateMs: number;
  /** How much longer than expected an update may take before its window closes, milliseconds. */
  readonly marginMs: number;
}

const MINUTE_MS = 60_000;
/** RFC 3339 to the millisecond. */
const TIME = /^(?<date>\d{4}-\d{2}-\d{2})T(?!24)\d{2}:\d{2}:\d{2}(?:\.\d{1,3})?(?:Z|[+-]\d{2}:\d{2})$/u;
/** Intl takes offsets such as +01:00, too, which know no daylight saving. */
const ZONE_NAME = /^[A-Za-z]/u;

/** Reads `maintenance`. What croner alone can judge is left to the calendar. */
export function readMaintenance(read: SpecReader): MaintenanceSettings {
  return {
    timeZone: readTimeZone(read, 'maintenance.timeZone') ?? 'UTC',
    windows: read.items('maintenance.windows').map((field) => readWindow(read, field)),
    blackouts: read.items('maintenance.blackouts').map((field) => readBlackout(read, field)),
    estimateMs: readDuration(read, 'maintenance.updateEstimate', { min: '1m', max: '24h' }) ?? 30 * MINUTE_MS,
    marginMs: readDuration(read, 'maintenance.margin', { min: '0m', max: '24h' }) ?? 10 * MINUTE_MS,
  };
}

function readTimeZone(read: SpecReader, field: string): string | undefined {
  const value = read.valueOf(field);
  if (value === undefined || (typeof value === 'string' && ZONE_NAME.test(value))) return value;
  return read.wrong(field, 'an IANA time zone such as Europe/Berlin or UTC', value);
}

function readWindow(read: SpecReader, field: string): Window {
  const schedule = read.text(`${field}.schedule`);
  const durationMs = readDuration(read, `${field}.duration`, { min: '1m', max: '168h' });
  if (schedule === undefined) read.wrong(`${field}.schedule`, 'five cron fields, such as 0 2 * * SAT', schedule);
  if (durationMs === undefined) read.wrong(`${field}.duration`, 'hours and minutes, such as 4h', durationMs);
  const days = read.items(`${field}.days`).flatMap((day) => readDay(read, day));
  return { schedule: schedule ?? '', durationMs: durationMs ?? 0, days };
}

function readDay(read: SpecReader, field: string): Day[] {
  const value = read.valueOf(field);
  const day = DAYS.find((one) => one === value);
  if (day === undefined) read.wrong(field, `one of ${DAYS.join(', ')}`, value);
  return day === undefined ? [] : [day];
}

function readBlackout(read: SpecReader, field: string): Blackout {
  const fromMs = readTime(read, `${field}.from`);
  const toMs = readTime(read, `${field}.to`);
  if (fromMs >= toMs) read.wrong(`${field}.to`, 'a time later than from', read.valueOf(`${field}.to`));
  return { fromMs, toMs, reason: read.text(`${field}.reason`) };
}

function readTime(read: SpecReader, field: string): number {
  const value = read.valueOf(field);
  const ms = typeof value === 'string' ? timeOf(value) : undefined;
  if (ms === undefined)
    read.wrong(field, 'a date and time with an offset from UTC, such as 2026-12-20T00:00:00Z', value);
  return ms ?? 0;
}

/** Without an offset it would depend on the machine's time zone, and the engine takes February 30 for March 2. */
function timeOf(text: string): number | undefined {
  const date = TIME.exec(text)?.groups?.['date'];
  const midnight = parseTime(date && `${date}T00:00:00Z`);
  const isDay = midnight !== undefined && rfc3339(midnight).slice(0, 10) === date;
  return isDay ? parseTime(text) : undefined;
}
