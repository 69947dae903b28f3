/** What the tables of test-crd-tables.ts say of a type. */

type Presence<T, K extends keyof T> = undefined extends T[K] ? 'optional' : 'required';
type Nullable<V> = null extends V ? 'nullable' : 'not null';
type Leaf<V> = [V] extends [string]
  ? 'string'
  : [V] extends [number]
    ? 'integer'
    : [V] extends [boolean]
      ? 'boolean'
      : 'int-or-string';
type Value<V> = V extends readonly (infer E)[] ? { items: Fields<E> } : { fields: Fields<V> };
type Field<T, K extends keyof T, V = Exclude<T[K], null | undefined>> = [V] extends [readonly string[]]
  ? readonly ['strings', Presence<T, K>, 'not null']
  : string extends keyof V
    ? readonly ['map', Presence<T, K>, 'not null']
    : Extract<V, object> extends never
      ? readonly [Leaf<V>, Presence<T, K>, Nullable<T[K]>]
      : readonly [Value<V>, Presence<T, K>];
/** For each field of `T`: its type, whether it must be there, and whether it may be null. */
export type Fields<T> = { [K in keyof T]-?: Field<T, K> };
