const MONTHS = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];
const WEEKDAYS = ['MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];

/** What may be written in the five fields. Which numbers are in range is left to croner. */
const FIELDS = [
  { name: 'minute', pattern: patternOf(String.raw`\d+`), example: '0 or */15' },
  { name: 'hour', pattern: patternOf(String.raw`\d+`), example: '2 or 1,13' },
  { name: 'day of month', pattern: patternOf(String.raw`\d+`), example: '*, 1 or 1-7' },
  { name: 'month', pattern: patternOf([String.raw`\d+`, ...MONTHS].join('|')), example: '*, */3 or JAN,JUL' },
  {
    name: 'day of week',
    pattern: patternOf(['[0-6]', ...WEEKDAYS].join('|'), '|SUN'),
    example: '*, MON-FRI or SUN; the week begins with SUN, which is 0',
  },
] as const;

const EXPECTED = 'five fields (minute, hour, day of month, month, day of week), such as "0 2 * * *"';

/**
 * A wildcard, or a list of values, ranges, and steps of a range or a wildcard. `alone` are values that end no range: a CronJob's week begins
 * with Sunday. A wildcard within a list is refused since croner and CronJobs do not agree on what it does to the other day field.
 */
function patternOf(value: string, alone = ''): RegExp {
  const item = String.raw`(?:\*/\d+|(?:${value}${alone})(?:-(?:${value})(?:/\d+)?)?)`;
  return new RegExp(String.raw`^(?:\*|${item}(?:,${item})*)$`, 'iu');
}

/** What is expected instead of a schedule that a CronJob would not take, or undefined. croner takes more: seconds, years, `@daily`, L, W, #, ? and +. */
export function dialectProblem(schedule: string): string | undefined {
  const fields = fieldsOf(schedule);
  if (fields.length !== FIELDS.length) return EXPECTED;
  const wrong = FIELDS.find(({ pattern }, index) => !pattern.test(fields[index] ?? ''));
  return wrong === undefined ? undefined : `${EXPECTED}, with a ${wrong.name} such as ${wrong.example}`;
}

/** The fields, with `*` for `*\/1`, which means the same to a CronJob but not to croner when both day fields are given. */
export function fieldsOf(schedule: string): string[] {
  return schedule
    .trim()
    .split(/\s+/u)
    .map((field) => field.replaceAll(/\*\/0*1(?!\d)/gu, '*'));
}
