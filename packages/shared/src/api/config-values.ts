/** Values of the fields of a BrupopConfig: numbers of nodes, times, windows and blackouts. */
import * as v from 'valibot';
import { parseTime, rfc3339 } from '../runtime/clock.ts';
import { shorten } from '../runtime/errors.ts';
import { described, matching, oneOf } from './schema.ts';
import { duration, field, fields, inMs, listOf, requireThat } from './spec-schema.ts';

export const DAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'] as const;
export type Day = (typeof DAYS)[number];
/** How many nodes: a number, or a percentage of the managed ones. */
export type NodeLimit = { readonly nodes: number } | { readonly percent: number };

/** @param forUsers - what a message of the API server says besides */
function limitFrom(min: 0 | 1, examples: readonly [reader: number, server: number], forUsers = '') {
  const expected = `a whole number from ${min}, such as ${examples[0]}, or a percentage from "1%" to "100%"`;
  const rule = `type(self) == int ? self >= ${min} : string(self).matches('^([1-9][0-9]?|100)%$')`;
  const message = `must be a whole number of at least ${min} (such as ${examples[1]}) or a percentage from "1%" to "100%" (in quotes)${forUsers}`;
  return v.pipe(
    v.unknown() as v.GenericSchema<number | string>,
    v.check((value) => limitOf(value, min) !== undefined, expected),
    v.metadata({ 'x-kubernetes-int-or-string': true, 'x-kubernetes-validations': [{ rule, message }] }),
    v.transform((value) => limitOf(value, min) ?? { nodes: min }),
  );
}

function limitOf(value: unknown, min: number): NodeLimit | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= min ? { nodes: value } : undefined;
  const percent = typeof value === 'string' ? /^([1-9]\d?|100)%$/u.exec(value)?.[1] : undefined;
  return percent === undefined ? undefined : { percent: Number(percent) };
}

export const nodeLimit = limitFrom(1, [2, 3], '; to stop updates, set spec.paused');
/** How many nodes may fail: 0 or a {@link nodeLimit}. */
export const failureLimit = limitFrom(0, [1, 1]);

const BAD_CONDITION =
  'the type of a condition, such as DiskPressure, or with its bad status, such as KernelReady=False, at most 100 characters';
/** A condition of a Node with the status that is a problem; without one it is True. Read as `Type` or `Type=Status`. */
export const badCondition = v.pipe(
  matching(/^[A-Za-z0-9][A-Za-z0-9._/-]*(=(True|False|Unknown))?$/, 100, BAD_CONDITION),
  v.transform((text) => text.replace(/=True$/u, '')),
);

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
export const namespaceName = matching(DNS_LABEL, 63, 'the name of a namespace, such as kube-system');
/** Shorter than the DNS labels of Kubernetes, since names of Jobs contain it. */
export const shortName = matching(
  DNS_LABEL,
  30,
  'lower-case letters, digits and -, beginning and ending with a letter or digit, at most 30 characters',
);

const NUMBER = 'a whole number from 1';
export const numberOfNodes = v.pipe(v.number(NUMBER), v.integer(NUMBER), v.minValue(1, NUMBER));
/** The API server rejects an empty reason, which means none. The reason is shown on one line. */
export const reason = (maxLength: number) =>
  v.pipe(
    v.string('a text'),
    v.metadata({ minLength: 1, maxLength }),
    v.transform((value) => (value === '' ? undefined : shorten(value, maxLength))),
  );

/** RFC 3339 to the millisecond. */
const TIME = /^(?<date>\d{4}-\d{2}-\d{2})T(?!24)\d{2}:\d{2}:\d{2}(?:\.\d{1,3})?(?:Z|[+-]\d{2}:\d{2})$/u;
const WHEN = 'a date and time with an offset from UTC, such as 2026-12-20T00:00:00Z';
/** A time, read as epoch milliseconds. */
export const when = inMs(
  v.pipe(
    v.string(WHEN),
    v.check((value) => timeOf(value) !== undefined, WHEN),
    v.metadata({ maxLength: 32 }),
    v.transform((value) => timeOf(value) ?? 0),
  ) as v.GenericSchema<string, number>,
);

/** Requires an offset, because the machine may have any time zone, and a day that exists. */
function timeOf(value: string): number | undefined {
  const date = TIME.exec(value)?.groups?.['date'];
  const midnight = parseTime(date && `${date}T00:00:00Z`);
  const isDay = midnight !== undefined && rfc3339(midnight).slice(0, 10) === date;
  return isDay ? parseTime(value) : undefined;
}

const ZONE = 'an IANA time zone such as Europe/Berlin or UTC';
export const timeZone = v.pipe(
  v.string(ZONE),
  // Intl takes offsets such as +01:00, too, which know no daylight saving.
  v.check((value) => /^[A-Za-z]/u.test(value), ZONE),
  v.metadata({ maxLength: 64 }),
);
export const window = fields({
  schedule: described(
    v.string('five cron fields, such as 0 2 * * SAT'),
    'When it opens, as five cron fields (minute, hour, day of month, month, day of week) in the time zone above, ' +
      'such as 0 2 * * SAT.',
    { maxLength: 100 },
  ),
  duration: inMs(described(duration('1m', '168h'), 'How long it is open, such as 4h or 1h30m. From 1m to 168h.')),
  days: field(
    listOf(oneOf(DAYS), 7, 'set'),
    'Weekdays on which it may open, in the time zone above. Without any, every day that the schedule names.',
    { absent: [] },
  ),
});
export const blackout = fields(
  {
    from: inMs(described(when, 'When it starts, with its offset from UTC, such as 2026-12-20T00:00:00Z.')),
    to: inMs(described(when, 'When it ends, later than from.')),
    reason: field(reason(256), 'Why, shown on every node that waits for its end.'),
  },
  requireThat<{ from: number; to: number }>(
    'to',
    'a time later than from',
    ({ from, to }) => from < to,
    ({ to }) => rfc3339(to),
  ),
);
