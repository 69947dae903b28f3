import { type InvalidSpec, ITEMS, LENGTHS, OTHER_RELEASE, SAME, TWICE, wrong, wrongAt } from './spec-with.ts';

const FIVE = /must be five cron fields \(minute, hour, .*\) such as 0 2 \* \* SAT/u;
const MINUTE = /the first field, the minute, must be numbers from 0 to 59, such as 0 or 0,30/u;
const HOUR = /the second field, the hour, must be \* or numbers from 0 to 23, such as 2/u;
const DATE = /the third field, the day of month, must be \* or numbers from 1 to 31, such as 1 or 1-7; there is no L/u;
const MONTH = /the fourth field, the month, must be \* or numbers from 1 to 12 or names, such as 6/u;
const WEEKDAY = /the fifth field, the day of week, must be \* or numbers from 0 \(Sunday\) to 6 or names, such as SAT/u;
const RANGE = /must have no range that goes down, such as 22-2 or FRI-MON; write two, such as/u;
const schedule = (text: unknown, message: RegExp, taken?: string): InvalidSpec =>
  wrong('maintenance.windows[0].schedule', text, message, taken);

const schedules: Record<string, InvalidSpec> = {
  'a schedule has no seconds': schedule('0 0 2 * * *', FIVE),
  'a schedule has no year': schedule('0 2 * * * 2026', FIVE),
  'a schedule has not only four fields': schedule('0 2 * *', FIVE),
  'a schedule is not empty': schedule('', FIVE),
  'a schedule is no macro': schedule('@daily', FIVE),
  'a schedule is no time of day': schedule('02:00', FIVE),
  'a schedule names no time zone': schedule('TZ=Europe/Berlin 0 2 * * *', FIVE),
  'a schedule does not begin with a space': schedule(' 0 2 * * *', FIVE, SAME),
  'a schedule has spaces, not tabs': schedule('0\t2\t*\t*\t*', FIVE, SAME),
  'a schedule is a text': schedule(2, /must be of type string/u),
  'a schedule is not longer than 100 characters': schedule(
    `${'0,'.repeat(50)}0 2 * * *`,
    /(?:more|longer) than 100/u,
    LENGTHS,
  ),
  'an hour has no minute 60': schedule('60 2 * * *', MINUTE),
  'a schedule is not each minute': schedule('* 2 * * *', MINUTE),
  'minutes have no step': schedule('*/15 2 * * *', MINUTE),
  'minutes have no range': schedule('0-30 2 * * *', MINUTE),
  'an hour has no step of 0': schedule('0 */0 * * *', HOUR),
  'an hour has no step beyond its range': schedule('0 */99 * * *', HOUR),
  'a wildcard is in no list': schedule('0 *,2 * * *', HOUR),
  'a wildcard is in no list, as a step of 1 either': schedule('0 */1,2 * * *', HOUR),
  'a step is one of a range or a wildcard': schedule('0 5/15 * * *', HOUR),
  'a minute is no fraction': schedule('0.5 2 * * *', MINUTE),
  'a minute is not left to a hash': schedule('H 2 * * *', MINUTE),
  'a day has no hour 25': schedule('0 25 * * *', HOUR),
  'an hour is not of 12': schedule('0 2am * * *', HOUR),
  'a month has no day 0': schedule('0 2 0 * *', DATE),
  'a month has no day 32': schedule('0 2 32 * *', DATE),
  'the last day of the month cannot be named': schedule('0 2 L * *', DATE),
  'the nearest workday cannot be named': schedule('0 2 15W * *', DATE),
  'a day of month is no question mark': schedule('0 2 ? * SAT', DATE),
  'a list has no empty item': schedule('0 2 1,,15 * *', DATE),
  'a year has no month 13': schedule('0 2 * 13 *', MONTH),
  'a month has no name of its own': schedule('0 2 * JANUARY *', MONTH),
  'a week has no FUN day': schedule('0 2 * * FUN', WEEKDAY),
  'Sunday is 0, not 7': schedule('0 2 * * 7', WEEKDAY),
  'no week ends with Sunday': schedule('0 2 * * SAT-SUN', WEEKDAY),
  'a weekday is not spelt out': schedule('0 2 * * Sunday', WEEKDAY),
  'the second Friday cannot be named': schedule('0 2 * * 5#2', WEEKDAY),
  'the last Friday cannot be named': schedule('0 2 * * 5L', WEEKDAY),
  'hours do not go over midnight': schedule('0 22-2 * * *', RANGE),
  'days do not go down': schedule('0 2 15-1 * *', RANGE),
  'weekdays do not go over the weekend': schedule('0 2 * * fri-mon', RANGE),
  'months do not go over new year': schedule('0 2 * DEC-FEB *', RANGE),
};

const WINDOW = /must be a duration from 1m to 168h, such as 90s or 1h30m/u;
const duration = (value: unknown, message = WINDOW): InvalidSpec =>
  wrong('maintenance.windows[0].duration', value, message);
const DAY = /supported values: "Mon", "Tue", "Wed"/u;

const windows: Record<string, InvalidSpec> = {
  'a duration has a unit': duration('4'),
  'a duration is a text': duration(4, /must be of type string/u),
  'a duration has no words': duration('4 hours'),
  'a duration has no days': duration('1d'),
  'a duration has no milliseconds': duration('90000ms'),
  'a duration has no fractions': duration('1.5h'),
  'a duration is not of ISO 8601': duration('PT4H'),
  'a duration is not below zero': duration('-1h'),
  'a duration is not empty': duration(''),
  'a duration has its hours first': duration('30m1h'),
  'a duration has no space': duration('4h '),
  'a window lasts at least a minute': duration('59s'),
  'a window lasts at most a week': duration('168h1m'),
  'a window does not last 200 hours': duration('200h'),
  'a duration is not longer than 20 characters': duration('0'.repeat(20).concat('1m'), /(?:more|longer) than 20/u),
  'a window has a duration': duration(undefined, /Required value/u),
  'a window has a schedule': schedule(undefined, /Required value/u),
  'a window is not only a schedule': wrong('maintenance.windows[0]', '0 2 * * *', /must be of type object/u),
  'a window is not null': wrong('maintenance.windows[0]', null, /must be of type object/u),
  'a window has no end': wrong('maintenance.windows[0].end', '6h', /unknown field/u, OTHER_RELEASE),
  'a day is not spelt out': wrong('maintenance.windows[0].days[0]', 'Sunday', DAY),
  'a day begins with a capital': wrong('maintenance.windows[0].days[0]', 'sat', DAY),
  'a day is no number': wrong('maintenance.windows[0].days[0]', 6, DAY),
  'days are a list': wrong('maintenance.windows[0].days', 'Sat', /must be of type array/u),
  'a day is there once': wrongAt('[1]', 'maintenance.windows[0].days', ['Sat', 'Sat'], /Duplicate value/u, TWICE),
  'there are at most 50 windows': wrong(
    'maintenance.windows',
    Array.from({ length: 51 }, () => ITEMS['windows']),
    /must have at most 50 items/u,
    LENGTHS,
  ),
  'a margin is not below zero': wrong('maintenance.margin', '-5m', /must be a duration from 0s to 24h/u),
};

const ZONE = /must be an IANA time zone such as Europe\/Berlin or UTC/u;
const NO_ZONE = /unknown time zone .* evaluating rule: must be an IANA time zone such as Europe\/Berlin or UTC/u;
const zone = (value: unknown, message = ZONE, taken?: string): InvalidSpec =>
  wrong('maintenance.timeZone', value, message, taken);

const timeZones: Record<string, InvalidSpec> = {
  'a time zone is not that of the machine': zone('Local'),
  'a time zone is not empty': zone(''),
  'a time zone is no offset': zone('+01:00'),
  'a time zone has no offset': zone('CET+1:00'),
  'a time zone has no space': zone('Europe/Berlin '),
  'a time zone is no path': zone('../../etc/passwd'),
  'a time zone counts no leap seconds': zone('right/UTC'),
  'a time zone is not the one of a factory': zone('Factory'),
  'a time zone is not one that is not': zone('Europe/Nowhere', NO_ZONE),
  'a time zone is no offset from UTC': zone('UTC+1', NO_ZONE),
  'a time zone is written in its case': zone('europe/berlin', NO_ZONE, SAME),
  'a time zone is no American abbreviation': zone('PST', NO_ZONE, 'Intl knows it'),
  'a time zone is not a continent': zone('Europe', ZONE),
  'a time zone is a text': zone(1, /must be of type string/u),
  'a time zone is not longer than 64 characters': zone('A'.repeat(65), /(?:more|longer) than 64/u),
};

const TIME = /must be a date and time with an offset from UTC, such as 2026-12-20T00:00:00Z or/u;
const from = (value: unknown, message = TIME): InvalidSpec => wrong('maintenance.blackouts[0].from', value, message);
const to = (value: unknown, message = TIME): InvalidSpec => wrong('maintenance.blackouts[0].to', value, message);

const blackouts: Record<string, InvalidSpec> = {
  'a blackout does not end before it begins': to('2026-12-19T00:00:00Z', /must be later than from/u),
  'a blackout does not end when it begins': to('2026-12-20T01:00:00+01:00', /must be later than from/u),
  'a blackout has an offset': from('2026-12-20T00:00:00'),
  'a blackout has times, not only dates': from('2026-12-20'),
  'a blackout has seconds': from('2026-12-20T00:00Z'),
  'a blackout has a T between date and time': from('2026-12-20 00:00:00Z'),
  'a blackout has no words': from('Christmas'),
  'a blackout has a day that there is': from('2026-02-30T00:00:00Z'),
  'a blackout has an hour that there is': from('2026-12-20T24:00:00Z'),
  'a blackout has an offset that there is': from('2026-12-20T00:00:00+99:99'),
  'a blackout has no microseconds': from('2026-12-20T00:00:00.000001Z'),
  'a blackout has a begin': from(undefined, /Required value/u),
  'a blackout has an end': to(undefined, /Required value/u),
  'a blackout is no number': to(1_798_675_200, /must be of type string/u),
  'the reason of a blackout is a text': wrong('maintenance.blackouts[0].reason', true, /must be of type string/u),
  'the reason of a blackout is not empty': wrong(
    'maintenance.blackouts[0].reason',
    '',
    /should be at least 1 chars long/u,
    'an empty reason is none',
  ),
  'the reason of a blackout has at most 256 characters': wrong(
    'maintenance.blackouts[0].reason',
    'x'.repeat(257),
    /(?:more|longer) than 256/u,
    LENGTHS,
  ),
  'there are at most 100 blackouts': wrong(
    'maintenance.blackouts',
    Array.from({ length: 101 }, () => ITEMS['blackouts']),
    /must have at most 100 items/u,
    LENGTHS,
  ),
};

/** Invalid values in `maintenance`, by the rule that they violate. */
export const invalidMaintenance = { ...schedules, ...windows, ...timeZones, ...blackouts };
