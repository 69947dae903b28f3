/**
 * Building blocks of the schemas in this folder. The message of a schema is the noun that it
 * expects ("a whole number from 0"): messages are `field: expected X, found Y`. The definitions of
 * the custom resources are generated from the same schemas; `described` adds what only they need.
 */
import * as v from 'valibot';
import { parseTime } from '../runtime/clock.ts';
import { describe, printable } from '../runtime/errors.ts';

export type Schema = v.GenericSchema;
type DeepReadonly<T> = T extends object ? { readonly [K in keyof T]: DeepReadonly<T[K]> } : T;
export type Infer<S extends v.GenericSchema> = DeepReadonly<v.InferOutput<S>>;

/** Throws what `refuse` returns for the message about the first field that is not as expected. */
export function parse<S extends v.GenericSchema>(
  schema: S,
  value: unknown,
  name: string,
  refuse: (message: string) => Error = (message) => new Error(message),
): Infer<S> {
  const { success, output, issues } = v.safeParse(schema, value, { abortEarly: true });
  if (success) return output as Infer<S>;
  throw refuse(describeIssue(issues[0], name));
}

/** `name.field[0].field: expected X, found Y`; with an empty `name` without the first dot. */
export function describeIssue({ path, message, input }: v.BaseIssue<unknown>, name: string): string {
  const keys = (path ?? []).map(({ key }) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`)).join('');
  return printable(`${`${name}${keys}`.replace(/^\./u, '')}: expected ${message}, found ${describe(input)}`);
}

/** Adds keywords of OpenAPI for the definition of a custom resource. */
export function described<S extends v.GenericSchema>(schema: S, description: string, keywords: object = {}): S {
  return v.pipe(schema, v.metadata({ description, ...keywords })) as unknown as S;
}

export function optional<S extends v.GenericSchema>(schema: S, description: string, keywords: object = {}) {
  return v.exactOptional(described(schema, description, keywords));
}

export function nullable<S extends v.GenericSchema>(schema: S, description: string, keywords: object = {}) {
  return v.exactOptional(v.nullable(described(schema, description, keywords)));
}

/**
 * The texts that {@link printable} does not change, as a pattern for the API server (RE2). It allows
 * unassigned characters, since the API server's Unicode version may be older.
 */
const PRINTABLE = '^[^\\p{Cc}\\p{Cf}\\p{Co}\\p{Zl}\\p{Zp}]*$';

/** Text of at most `max` UTF-16 code units, made {@link printable} when it is read. */
export function text(max: number) {
  const expected = `a text of at most ${max} characters`;
  return v.pipe(
    v.string(expected),
    v.maxLength(max, expected),
    v.transform(printable),
    v.metadata({ pattern: PRINTABLE }),
  );
}

/** @param pattern - RE2, for the API server; matches at least the texts that `test` accepts */
export function textThat(test: (value: string) => boolean, max: number, expected: string, pattern = PRINTABLE) {
  return v.pipe(v.string(expected), v.maxLength(max, expected), v.check(test, expected), v.metadata({ pattern }));
}

/** Text of this form. The pattern is for the API server as well. */
export function matching(pattern: RegExp, max: number, expected: string) {
  return v.pipe(v.string(expected), v.regex(pattern, expected), v.maxLength(max, expected));
}

export function whole(min: number, max: number) {
  const expected = `a whole number from ${min} to ${max}`;
  return v.pipe(v.number(expected), v.integer(expected), v.minValue(min, expected), v.maxValue(max, expected));
}

export const INT32 = 2_147_483_647;

/** Definitions of custom resources leave out `max`, by default that of int32. */
export function count(max = INT32) {
  const expected = `a whole number from 0 to ${max}`;
  const atMost = v.check((value: number) => value <= max, expected);
  return v.pipe(v.number(expected), v.integer(expected), v.minValue(0, expected), atMost);
}

/** Up to what JSON carries without loss, such as a generation. */
export function count64() {
  return v.pipe(count(Number.MAX_SAFE_INTEGER), v.metadata({ format: 'int64' }));
}

export function flag() {
  return v.boolean('true or false');
}

export function oneOf<const T extends string>(values: readonly T[]) {
  return v.picklist(values, `one of ${values.join(', ')}`);
}

const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/u;

/** True for a date and time of RFC 3339, as the API server takes them. */
export function isTime(value: string): boolean {
  return TIME.test(value) && parseTime(value) !== undefined;
}

export function time() {
  const expected = 'an RFC 3339 time';
  return v.pipe(v.string(expected), v.check(isTime, expected), v.metadata({ format: 'date-time' }));
}

export function list<S extends v.GenericSchema>(item: S, max: number) {
  return v.pipe(v.array(item, 'a list'), v.maxLength(max, `a list of at most ${max}`));
}

/**
 * A list of objects in a status, with limits that only the API server knows.
 * @param keys - no two items have the same values of these; by default the list is written as a whole
 */
export function statusList<E extends v.ObjectEntries>(
  entries: E,
  description: string,
  maxItems: number,
  keys?: readonly string[],
) {
  const byKeys = { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': keys };
  const type = keys === undefined ? { 'x-kubernetes-list-type': 'atomic' } : byKeys;
  return optional(v.array(object(entries)), description, { maxItems, ...type });
}

/** Refuses all other fields, also those that are named like a property of every object. */
export function closedObject<E extends v.ObjectEntries>(entries: E): v.ObjectSchema<E, string> {
  return object(entries, true);
}

export function partial<E extends v.ObjectEntries>(entries: E) {
  return object(v.partial(v.object(entries)).entries);
}

/** An object with these fields, without all others. Unlike valibot's own it refuses a list. */
export function object<E extends v.ObjectEntries>(entries: E, closed = false): v.ObjectSchema<E, string> {
  const schema = v.object(entries, 'an object');
  const required = Object.keys(entries).filter((name) => !/optional|nullish/u.test(entries[name]?.type ?? ''));
  // An absent required field is read as undefined: its own schema has the message.
  const absent = Object.fromEntries(required.map((name) => [name, undefined]));
  return {
    ...schema,
    '~run'(dataset, config) {
      const input = dataset.value as Readonly<Record<string, unknown>> | null;
      if (typeof input !== 'object' || input === null) return schema['~run'](dataset, config);
      const unknown = closed ? Object.keys(input).find((name) => !Object.hasOwn(entries, name)) : undefined;
      if (Array.isArray(input)) v._addIssue(schema, 'type', dataset, config);
      else if (unknown !== undefined) v._addIssue(schema, 'key', dataset, config, unknownField(input, unknown));
      else return withoutUndefined(schema['~run']({ value: { ...absent, ...input } }, config));
      return dataset as unknown as v.FailureDataset<v.ObjectIssue>;
    },
  };
}

function unknownField(input: Readonly<Record<string, unknown>>, name: string) {
  return issueAt(input, name.slice(0, 80), 'no such field', input[name]);
}

/** The issue of a check: the field or item `key` is not as expected. */
export function issueAt(input: unknown, key: string | number, message: string, found: unknown) {
  const item = { type: 'unknown', origin: 'value', input, key, value: found } as const;
  return { message, input: found, path: [item] as [v.IssuePathItem] };
}

/** Removes the fields that {@link ifReadable} and {@link unlessNull} have read as absent. */
function withoutUndefined<T extends { value?: unknown }>(dataset: T): T {
  const value = dataset.value as Record<string, unknown>;
  for (const name of Object.keys(value)) if (value[name] === undefined) delete value[name];
  return dataset;
}

export function changed<S extends v.GenericSchema, T>(schema: S, change: (value: v.InferOutput<S>) => T) {
  return v.pipe(schema, v.transform(change)) as unknown as v.GenericSchema<unknown, T>;
}

/** A field that may be absent and counts as absent when it is not as expected. */
export function ifReadable<S extends v.GenericSchema>(schema: S): v.ExactOptionalSchema<S, undefined> {
  return v.exactOptional(v.fallback(schema, undefined as never));
}

/** A field that may be absent, for which null means absent. */
export function unlessNull<S extends v.GenericSchema>(schema: S): v.ExactOptionalSchema<S, undefined> {
  return v.exactOptional(changed(v.nullish(schema), (value) => value ?? undefined) as unknown as S);
}

/** An object that is refused when none of its fields could be read. */
export function notEmpty<E extends v.ObjectEntries>(entries: E): v.ObjectSchema<E, string> {
  const some = v.check((value: object) => Object.keys(value).length > 0, 'at least one field');
  return v.pipe(object(entries), some as never) as v.ObjectSchema<E, string>;
}

/** Leaves out fields that are undefined or empty lists. */
export function withoutEmpty<T extends object>(fields: { readonly [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => !isEmpty(value))) as T;
}

function isEmpty(value: unknown): boolean {
  return value === undefined || (Array.isArray(value) && value.length === 0);
}

export function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function is<S extends v.GenericSchema>(schema: S, value: unknown): value is v.InferInput<S> {
  return v.is(schema, value);
}
