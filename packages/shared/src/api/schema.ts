import * as v from 'valibot';
import { parseTime } from '../runtime/clock.ts';
import { describe } from '../runtime/text.ts';

/**
 * Building blocks of the schemas in this folder. The message of a schema is the noun that it expects ("a whole number from 0"), so that
 * {@link parse} can say `field: expected X, found Y`. The definitions of the custom resources are generated from the same schemas:
 * `described` adds what only they need. Functions are marked as free of side effects, so that a bundle holds only what it uses.
 */

type DeepReadonly<T> = T extends object ? { readonly [K in keyof T]: DeepReadonly<T[K]> } : T;
/** The type of what a schema reads. */
export type Infer<S extends v.GenericSchema> = DeepReadonly<v.InferOutput<S>>;

/** Reads `value`, which messages call `name`. Throws what `refuse` makes of the message about the first field that is not as expected. */
export function parse<S extends v.GenericSchema>(
  schema: S,
  value: unknown,
  name: string,
  refuse: (message: string) => Error,
): Infer<S> {
  const { success, output, issues } = v.safeParse(schema, value, { abortEarly: true });
  if (success) return output as Infer<S>;
  throw refuse(describeIssue(issues[0], name));
}

/** The message about an issue: `name.field[0].field: expected X, found Y`. With an empty `name` it starts with the first field. */
export function describeIssue({ path, message, input }: v.BaseIssue<unknown>, name: string): string {
  const keys = (path ?? []).map(({ key }) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`)).join('');
  return `${`${name}${keys}`.replace(/^\./u, '')}: expected ${message}, found ${describe(input)}`;
}

/** `schema` with its description and other keywords of OpenAPI for the definition of a custom resource. */
/* @__NO_SIDE_EFFECTS__ */
export function described<S extends v.GenericSchema>(schema: S, description: string, keywords: object = {}): S {
  return v.pipe(schema, v.metadata({ description, ...keywords })) as unknown as S;
}

/** A described field that may be absent. */
/* @__NO_SIDE_EFFECTS__ */
export function optional<S extends v.GenericSchema>(schema: S, description: string, keywords: object = {}) {
  return v.exactOptional(described(schema, description, keywords));
}

/** A described field that may be absent or null. */
/* @__NO_SIDE_EFFECTS__ */
export function nullable<S extends v.GenericSchema>(schema: S, description: string, keywords: object = {}) {
  return v.exactOptional(v.nullable(described(schema, description, keywords)));
}

/** Text of at most `max` UTF-16 code units, and of at least `min`. */
/* @__NO_SIDE_EFFECTS__ */
export function text(max: number, expected = `a text of at most ${max} characters`, min = 0) {
  const string = v.pipe(v.string(expected), v.maxLength(max, expected));
  return min === 0 ? string : (v.pipe(string, v.minLength(min, expected)) as unknown as typeof string);
}

/** Text of 1 to `max` UTF-16 code units for which `test` is true. The definition of a custom resource has only `max`. */
/* @__NO_SIDE_EFFECTS__ */
export function textThat(test: (value: string) => boolean, max: number, expected: string) {
  return v.pipe(v.string(expected), v.maxLength(max, expected), v.check(test, expected));
}

/** A whole number from `min` to `max`. */
/* @__NO_SIDE_EFFECTS__ */
export function whole(min: number, max: number) {
  const expected = `a whole number from ${min} to ${max}`;
  return v.pipe(v.number(expected), v.integer(expected), v.minValue(min, expected), v.maxValue(max, expected));
}

const INT32 = 2_147_483_647;

/** A whole number from 0. Definitions of custom resources leave out `max`, which is what programs take: by default that of int32. */
/* @__NO_SIDE_EFFECTS__ */
export function count(max = INT32) {
  const expected = `a whole number from 0 to ${max}`;
  const atMost = v.check((value: number) => value <= max, expected);
  return v.pipe(v.number(expected), v.integer(expected), v.minValue(0, expected), atMost);
}

/** A whole number from 0 up to what JSON carries without loss, such as a generation. */
/* @__NO_SIDE_EFFECTS__ */
export function count64() {
  return v.pipe(count(Number.MAX_SAFE_INTEGER), v.metadata({ format: 'int64' }));
}

/* @__NO_SIDE_EFFECTS__ */
export function flag() {
  return v.boolean('true or false');
}

/* @__NO_SIDE_EFFECTS__ */
export function oneOf<const T extends string>(values: readonly T[]) {
  return v.picklist(values, `one of ${values.join(', ')}`);
}

const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/u;

/** True for a date and time of RFC 3339, as the API server takes them. */
export function isTime(value: string): boolean {
  return TIME.test(value) && parseTime(value) !== undefined;
}

/** A date and time of RFC 3339. */
/* @__NO_SIDE_EFFECTS__ */
export function time() {
  const expected = 'an RFC 3339 time';
  return v.pipe(v.string(expected), v.check(isTime, expected), v.metadata({ format: 'date-time' }));
}

/** A list of at most `max` items. */
/* @__NO_SIDE_EFFECTS__ */
export function list<S extends v.GenericSchema>(item: S, max: number) {
  return v.pipe(v.array(item, 'a list'), v.maxLength(max, `a list of at most ${max}`));
}

/** An object with these fields; other fields are left out. Unlike valibot's own it refuses a list. */
/* @__NO_SIDE_EFFECTS__ */
export function object<E extends v.ObjectEntries>(entries: E): v.ObjectSchema<E, string> {
  return objectWith(entries, false);
}

/** An object with these fields and no others, not even one that is named like a property of every object. */
/* @__NO_SIDE_EFFECTS__ */
export function closedObject<E extends v.ObjectEntries>(entries: E): v.ObjectSchema<E, string> {
  return objectWith(entries, true);
}

/* @__NO_SIDE_EFFECTS__ */
function objectWith<E extends v.ObjectEntries>(entries: E, closed: boolean): v.ObjectSchema<E, string> {
  const schema = v.object(entries, 'an object');
  const required = Object.keys(entries).filter((name) => !/optional|nullish/u.test(entries[name]?.type ?? ''));
  // A required field that is absent is read as undefined, so that its own schema says what it expects.
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
  const path = [{ type: 'object', origin: 'key', input, key: name.slice(0, 80), value: input[name] }] as const;
  return { input: input[name], message: 'no such field', path: [...path] as [v.IssuePathItem] };
}

/** Removes the fields that {@link ifReadable} and {@link unlessNull} have read as absent. */
function withoutUndefined<T extends { value?: unknown }>(dataset: T): T {
  const value = dataset.value as Record<string, unknown>;
  for (const name of Object.keys(value)) if (value[name] === undefined) delete value[name];
  return dataset;
}

/** A field that may be absent and counts as absent when it is not as expected. */
/* @__NO_SIDE_EFFECTS__ */
export function ifReadable<S extends v.GenericSchema>(schema: S): v.ExactOptionalSchema<S, undefined> {
  return v.exactOptional(v.fallback(schema, undefined as never));
}

/** A field that may be absent, for which null means absent. */
/* @__NO_SIDE_EFFECTS__ */
export function unlessNull<S extends v.GenericSchema>(schema: S): v.ExactOptionalSchema<S, undefined> {
  const read = v.pipe(
    v.nullish(schema),
    v.transform((value) => value ?? undefined),
  );
  return v.exactOptional(read) as unknown as v.ExactOptionalSchema<S, undefined>;
}
