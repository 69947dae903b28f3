import { ApiError } from '../errors.ts';

/** Returns `value` as what it was found to be. Throws Failure `BadRequest` that names the field, what was expected and what was found. */
export type Check<T> = (value: unknown, field: string) => T;

const shown = 80;

/** Refuses a value. */
export function invalid(field: string, expected: string, found: unknown): ApiError {
  return new ApiError('BadRequest', `${field}: expected ${expected}, found ${show(found)}`);
}

/** Says what a value is without a look inside, which may be nested thousands of levels deep. */
function show(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object' && value !== null) return 'an object';
  const text = JSON.stringify(value);
  return text.length > shown ? `${text.slice(0, shown)}…` : text;
}

/** A text of 1 to `max` characters that matches `pattern`; `expected` says so in words. */
export function matching(pattern: RegExp, max: number, expected: string): Check<string> {
  return (value, field) => {
    if (typeof value === 'string' && value.length <= max && pattern.test(value)) return value;
    throw invalid(field, expected, value);
  };
}

/** Any text of up to `max` characters. */
export function textUpTo(max: number): Check<string> {
  return (value, field) => {
    if (typeof value === 'string' && value.length <= max) return value;
    throw invalid(field, `a text of at most ${max} characters`, value);
  };
}

export function oneOf<T extends string>(values: readonly T[]): Check<T> {
  return (value, field) => {
    const found = values.find((one) => one === value);
    if (found === undefined) throw invalid(field, `one of ${values.join(', ')}`, value);
    return found;
  };
}

export function wholeNumber(min: number, max: number): Check<number> {
  return (value, field) => {
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) return value;
    throw invalid(field, `a whole number from ${min} to ${max}`, value);
  };
}

export const boolean: Check<boolean> = (value, field) => {
  if (typeof value === 'boolean') return value;
  throw invalid(field, 'true or false', value);
};

export function nullable<T>(check: Check<T>): Check<T | null> {
  return (value, field) => (value === null ? null : check(value, field));
}

type Checks = Readonly<Record<string, Check<unknown>>>;

/** An object with all of `required`, any of `optional` and nothing else. */
export function object<T>(required: Checks, optional: Checks = {}): Check<T> {
  return (value, field) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid(field, 'an object', value);
    const found = value as Readonly<Record<string, unknown>>;
    const known: Checks = { ...required, ...optional };
    const unknown = Object.keys(found).find((key) => !Object.hasOwn(known, key));
    if (unknown !== undefined) throw invalid(`${field}.${unknown.slice(0, shown)}`, 'no such field', found[unknown]);
    const entries = Object.entries(known)
      .filter(([key]) => Object.hasOwn(required, key) || Object.hasOwn(found, key))
      .map(([key, check]) => [key, check(Object.hasOwn(found, key) ? found[key] : undefined, `${field}.${key}`)]);
    return Object.fromEntries(entries) as T;
  };
}
