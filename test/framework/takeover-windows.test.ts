/** The windows of docs/takeover.md are open exactly when the cron expressions of the Rust operator match. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { calendarOf } from '../../packages/controller/src/policy/calendar.ts';
import type { Window } from '../../packages/controller/src/policy/schedule.ts';
import { sectionOf } from './markdown.ts';

const HOUR = 3_600_000;
/** A Sunday. */
const START = Date.parse('2026-11-01T00:00:00Z');
const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];

/** The windows that the page gives for an expression; the sentence after them is about something else. */
function windowsFor(cron: string): Window[] {
  const section = sectionOf(readFileSync(join(import.meta.dirname, '../../docs/takeover.md'), 'utf8'), 'Values');
  const entry = section.split('\n- ').find((text) => text.startsWith(`\`${cron}\``)) ?? '';
  const [text = ''] = entry.split('If you mean');
  const found = text.matchAll(
    /\{ schedule: '(?<schedule>[^']+)', duration: (?<hours>\d+)h(?:, days: \[(?<days>[\w, ]+)\])? \}/gu,
  );
  return [...found].map(({ groups: { schedule = '', hours = '', days = '' } = {} }) => ({
    schedule,
    durationMs: Number(hours) * HOUR,
    days: days.split(', ').filter((day) => day !== '') as Window['days'],
  }));
}

/** Whether `value` is in a list such as `22-23,0-3`; `of` gives each name its number. */
function isIn(list: string, value: number, of: (name: string) => number): boolean {
  const ranges = list.split(',').map((range) => range.split('-').map(of));
  return list === '*' || ranges.some(([from = 0, to = from]) => from <= value && value <= to);
}

test.each([
  '* * 9-17 * * Mon-Fri *',
  '* * 22-23,0-3 * * * *',
  '* * 22-23,0-3 * * Mon-Fri *',
  // The Rust operator requires both day fields.
  '* * 9-17 1-7 * Sat *',
])('%s', (cron) => {
  const [, , hours = '', dates = '', , days = ''] = cron.split(' ');
  const windows = windowsFor(cron);
  expect(windows).not.toEqual([]);
  const calendar = calendarOf({ timeZone: 'UTC', windows, blackouts: [] });
  const times = Array.from({ length: 14 * 24 }, (_, hour) => START + hour * HOUR + HOUR / 2);
  const matching = times.filter((time) => {
    const date = new Date(time);
    const isDay = isIn(dates, date.getUTCDate(), Number) && isIn(days, date.getUTCDay(), (name) => DAYS.indexOf(name));
    return isIn(hours, date.getUTCHours(), Number) && isDay;
  });
  expect(times.filter((time) => calendar.at(time).open)).toEqual(matching);
});
