import { readCrd, type Schema } from '../crds.ts';

/**
 * A field of the spec of a BrupopConfig that has no fields itself, as the definition of the
 * resource has it.
 */
export interface SpecField {
  /** Such as `maintenance.windows[0].days`. */
  readonly field: string;
  readonly type: 'boolean' | 'string' | 'duration' | 'integer' | 'integer,string' | 'array' | 'object';
  /** Of numbers and durations. */
  readonly range?: readonly [string, string];
}

const DURATIONS = /duration\(self\) >= duration\('(\w+)'\) && duration\(self\) <= duration\('(\w+)'\)/u;

function leaves({ properties = {} }: Schema, path = ''): [string, Schema][] {
  return Object.entries(properties).flatMap(([name, schema]): [string, Schema][] => {
    const here = path === '' ? name : `${path}.${name}`;
    if (schema.properties !== undefined) return leaves(schema, here);
    const inner = schema.items?.properties === undefined ? [] : leaves(schema.items, `${here}[0]`);
    return [[here, schema], ...inner];
  });
}

function specField([field, schema]: [string, Schema]): SpecField {
  const { minimum, maximum, type, 'x-kubernetes-validations': rules = [] } = schema;
  if (schema['x-kubernetes-int-or-string'] === true) return { field, type: 'integer,string' };
  const [, from, to] = rules.map(({ rule }) => DURATIONS.exec(rule)).find((found) => found !== null) ?? [];
  if (from !== undefined && to !== undefined) return { field, type: 'duration', range: [from, to] };
  const range = [minimum, maximum ?? Number.MAX_SAFE_INTEGER].map(String) as [string, string];
  return { field, type: type as SpecField['type'], ...(type === 'integer' && { range }) };
}

const { schema } = readCrd('brupopconfigs').spec.versions[0] ?? {};
/** Every field: a new one is tested with wrong types and at its bounds without a line here. */
export const specFields: readonly SpecField[] = leaves(schema?.openAPIV3Schema.properties?.['spec'] ?? {}).map(
  specField,
);
