/**
 * Building blocks for a spec that users write: fields that may be left out, durations, and a reader
 * that names each mistake and goes on without it.
 */
import { isDeepStrictEqual } from 'node:util';
import * as v from 'valibot';
import { describeIssue, described, type Infer, isFields, issueAt, object } from './schema.ts';

const DURATION = /^(?=.)(?:(?<hours>\d{1,4})h)?(?:(?<minutes>\d{1,5})m)?(?:(?<seconds>\d{1,6})s)?$/u;

/** Milliseconds of a duration of Go, such as `90s` or `1h30m`; undefined for other text. */
export function parseDuration(value: string): number | undefined {
  const { groups } = DURATION.exec(value) ?? {};
  if (groups === undefined) return undefined;
  const { hours = 0, minutes = 0, seconds = 0 } = groups;
  return ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000;
}

/** Writes milliseconds as {@link parseDuration} reads them, in whole seconds. */
export function formatDuration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  const parts = { h: Math.floor(seconds / 3600), m: Math.floor(seconds / 60) % 60, s: seconds % 60 };
  const written = Object.entries(parts).map(([unit, number]) => (number === 0 ? '' : `${number}${unit}`));
  return written.join('') || '0s';
}

/** What is read from the field `name` is `nameMs`. */
interface InMs {
  readonly unit: 'ms';
}

export function inMs<S extends v.GenericSchema>(schema: S): S & InMs {
  return Object.assign(schema, { unit: 'ms' } as const);
}

/** A duration, read as milliseconds. Throws a RangeError for bounds that are no durations. */
export function duration(min: string, max: string): v.GenericSchema<string, number> & InMs {
  const [minMs, maxMs] = [parseDuration(min), parseDuration(max)];
  if (minMs === undefined || maxMs === undefined) throw new RangeError(`expected durations, found ${min} and ${max}`);
  const expected = `a duration from ${min} to ${max}, such as 90s or 1h30m`;
  const inRange = (text: string): boolean => {
    const ms = parseDuration(text);
    return ms !== undefined && ms >= minMs && ms <= maxMs;
  };
  const rule =
    "size(self) > 0 && self.matches('^([0-9]{1,4}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?$') && " +
    `duration(self) >= duration('${min}') && duration(self) <= duration('${max}')`;
  const schema = v.pipe(
    v.string(expected),
    v.check(inRange, expected),
    v.metadata({ maxLength: 20, 'x-kubernetes-validations': [{ rule, message: `must be ${expected}` }] }),
    v.transform((text) => parseDuration(text) ?? 0),
  );
  return Object.assign(inMs(schema), { range: ` From ${min} to ${max}.` });
}

/** A field of the spec. It may be left out, and null counts as left out. */
export type Field<S extends v.GenericSchema, A> = v.NullishSchema<S, A> & Pick<S, Extract<keyof S, 'unit'>>;

type Value<S extends v.GenericSchema> = v.InferInput<S> | readonly [];
type Values<S extends v.GenericSchema> = { readonly default?: Value<S>; readonly absent?: Value<S> };

/** The default of this release and of all before, so also what a record without it means. */
export function always<const T>(value: T): { readonly default: T; readonly absent: T } {
  return { default: value, absent: value };
}

/**
 * Describes a field. `default` is its value in this release, `absent` what it means in a record
 * that lacks it (ADR 0019). Without them the field has no default: it limits nothing.
 */
export function field<S extends v.GenericSchema, V extends Values<S> = object>(
  schema: S & { readonly range?: string },
  text: string,
  values?: V,
): Field<S, V extends { readonly absent: unknown } ? v.InferInput<S> : () => undefined> {
  const { default: value, absent }: Values<S> = values ?? {};
  const byDefault =
    value === undefined || Array.isArray(value) ? '' : ` The default is ${JSON.stringify(value).replaceAll('"', '')}.`;
  const wrapped = described<v.GenericSchema>(schema, `${text}${schema.range ?? ''}${byDefault}`);
  const read = v.nullish(wrapped, absent ?? ((): undefined => undefined));
  return Object.assign(read, { release: value }, 'unit' in schema && { unit: schema.unit }) as never;
}

type Named<E extends v.ObjectEntries> = {
  readonly [K in keyof E & string as E[K] extends InMs ? `${K}Ms` : K]: v.InferOutput<E[K]>;
};
export type Fields<E extends v.ObjectEntries> = v.GenericSchema<v.InferInput<v.ObjectSchema<E, undefined>>, Named<E>>;

/** Durations and times are read under their names with `Ms`, after the checks. */
export function fields<E extends v.ObjectEntries>(
  entries: E,
  ...checks: readonly v.RawCheckAction<never>[]
): Fields<E> {
  const rename = (value: object): object =>
    Object.fromEntries(
      Object.keys(entries).map((name) => [
        'unit' in (entries[name] ?? {}) ? `${name}Ms` : name,
        (value as Readonly<Record<string, unknown>>)[name],
      ]),
    );
  const items = [...checks, v.transform(rename)] as unknown as [v.TransformAction<object, object>];
  return v.pipe<v.GenericSchema<object>, typeof items>(object(entries), ...items) as unknown as Fields<E>;
}

/** A field with fields of its own. Absent it is read as one without any. */
export function group<E extends v.ObjectEntries>(
  text: string,
  entries: E,
  ...checks: readonly v.RawCheckAction<never>[]
): v.NullishSchema<Fields<E>, v.InferInput<Fields<E>>> & { readonly entries: E } {
  const read = v.nullish(described<v.GenericSchema>(fields(entries, ...checks), text), {});
  return Object.assign(read, { entries }) as unknown as ReturnType<typeof group<E>>;
}

/** A list. The API server limits its length; a reader takes a longer one. */
export function listOf<S extends v.GenericSchema>(item: S, maxItems: number, type: 'atomic' | 'set' = 'atomic') {
  return v.pipe(v.array(item, 'a list'), v.metadata({ maxItems, 'x-kubernetes-list-type': type }));
}

/** A list in which no two items have the same values of `keys`. */
export function mapOf<S extends v.GenericSchema>(item: S, maxItems: number, keys: readonly string[] = ['name']) {
  const byKeys = { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': keys };
  return v.pipe(v.array(item, 'a list'), v.metadata({ maxItems, ...byKeys }));
}

/** Checks one field of an object against the others; `found` is what a message shows of it. */
export function requireThat<T extends object>(
  key: keyof T & string,
  expected: string,
  isMet: (value: T) => boolean,
  found: (value: T) => unknown = (value) => value[key],
): v.RawCheckAction<never> {
  const check = v.rawCheck<T>(({ dataset, addIssue }) => {
    if (!dataset.typed || isMet(dataset.value)) return;
    addIssue(issueAt(dataset.value, key, expected, found(dataset.value)));
  });
  return check as unknown as v.RawCheckAction<never>;
}

export function defaultsOf(entries: v.ObjectEntries): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(entries).flatMap(([name, schema]) => {
      const one: { readonly type: string; readonly release?: unknown; readonly entries?: v.ObjectEntries } = schema;
      const value = one.entries === undefined ? one.release : defaultsOf(one.entries);
      return value === undefined || (isFields(value) && Object.keys(value).length === 0) ? [] : [[name, value]];
    }),
  );
}

export interface Reading<T> {
  readonly value: T;
  /** Each mistake, as `spec.field: expected X, found Y`. */
  readonly problems: readonly string[];
}

/** After this many mistakes the rest of the spec is not read. */
const MAX_PROBLEMS = 100;

/** A field with a mistake counts as left out; a mistake within a list leaves out its item. */
export function readSpec<S extends v.GenericSchema>(schema: S, spec: unknown): Reading<Infer<S>> {
  const problems: string[] = [];
  for (let rest = spec; ;) {
    const { success, output, issues } = v.safeParse(schema, rest, { abortEarly: true });
    if (success) return { value: output as Infer<S>, problems };
    problems.push(describeIssue(issues[0], 'spec'));
    const path = (issues[0].path ?? []).map(({ key }) => key as string | number);
    rest = problems.length < MAX_PROBLEMS ? without(rest, path) : {};
  }
}

function without(value: unknown, [key, ...path]: readonly (string | number)[]): unknown {
  if (Array.isArray(value)) return value.filter((_, index) => index !== key);
  if (!isFields(value) || key === undefined) return {};
  const inner = value[key];
  const { [key]: _, ...others } = value;
  const isNested = path.length > 0 && typeof inner === 'object' && inner !== null;
  return isNested ? { ...others, [key]: without(inner, path) } : others;
}

interface Parts {
  readonly wrapped?: v.GenericSchema;
  readonly item?: v.GenericSchema;
  readonly entries?: v.ObjectEntries;
}

/** The fields, such as `spec.rollout.aproval`, that a schema does not have. Readers leave them out; kubectl refuses them. */
export function unknownFields(
  { wrapped, item, entries }: v.GenericSchema & Parts,
  value: unknown,
  path = '',
): string[] {
  if (wrapped !== undefined) return unknownFields(wrapped, value, path);
  if (item !== undefined && Array.isArray(value))
    return value.flatMap((one: unknown, index) => unknownFields(item, one, `${path}[${index}]`));
  if (entries === undefined || !isFields(value)) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const at = path === '' ? name : `${path}.${name}`;
    const known = Object.hasOwn(entries, name) ? entries[name] : undefined;
    return known === undefined ? [at] : unknownFields(known, inner, at);
  });
}

/** Says what is wrong with a spec that is no object; null, or none, means all defaults. */
export function problemOfShape(spec: unknown): string | undefined {
  if (spec == null || isFields(spec)) return undefined;
  return `spec: expected an object, found ${Array.isArray(spec) ? 'a list' : `a ${typeof spec}`}`;
}

/** Fills in `defaults` where `given` has no value. Null counts as none; lists are not merged. */
export function merged(defaults: Readonly<Record<string, unknown>>, given: unknown): Readonly<Record<string, unknown>> {
  const set = Object.entries(isFields(given) ? given : {}).filter(([, value]) => value != null);
  const nested = set.map(([name, value]): [string, unknown] => {
    const fallback = defaults[name];
    return [name, isFields(fallback) && isFields(value) ? merged(fallback, value) : value];
  });
  return { ...defaults, ...Object.fromEntries(nested) };
}

export interface Difference {
  /** Such as `drain.timeout`. */
  readonly field: string;
  readonly before: unknown;
  readonly after: unknown;
}

/** Returns the fields that have other values. Lists are compared as a whole. */
export function differences(before: unknown, after: unknown, field = ''): Difference[] {
  if (!isFields(before) || !isFields(after)) {
    return isDeepStrictEqual(before, after) ? [] : [{ field, before, after }];
  }
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].toSorted();
  return names.flatMap((name) => differences(before[name], after[name], field === '' ? name : `${field}.${name}`));
}
