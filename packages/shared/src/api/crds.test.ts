import { type CrdName, readCrd, type Schema } from '../../../../test/framework/crds.ts';
import type { Condition } from './meta.ts';
import { config, shadow } from '../testing/crd-tables.ts';
import { DAYS, ORDERS, PAUSE_MODES, POD_POLICIES, SECONDS, TIMEOUT_ACTIONS } from './brupop-config.ts';
import { ERROR_CODES } from './error-codes.ts';
import {
  CONFIG_KIND,
  CONFIG_NAME,
  CONFIG_PLURAL,
  CONFIG_VERSION,
  GROUP,
  SHADOW_KIND,
  SHADOW_PLURAL,
  SHADOW_VERSION,
} from './names.ts';
import {
  BLOCK_REASONS,
  DRAIN_RESULTS,
  HANDOVER_PHASES,
  OPERATION_STATES,
  OPERATIONS,
  SHADOW_STATES,
} from './shadow.ts';

/**
 * Where the schema is laxer than the types; readers make up for it. A shadow of an older operator lacks the newer fields, and one whose agent has not reported yet
 * may already have the controller's condition, so the schema requires nothing of the status; the agent always reports all of it.
 * An older operator may have stored the status as null.
 */
const laxer: Readonly<Record<string, 'optional' | 'nullable'>> = {
  '.status': 'nullable',
  '.spec.hostSettings': 'nullable',
  '.status.current_state': 'optional',
  '.status.current_version': 'optional',
  '.status.target_version': 'optional',
  '.status.crash_count': 'optional',
  '.status.observedGeneration': 'optional',
  '.status.bootID': 'optional',
};

type Table = { readonly [field: string]: readonly [string, string, string] | readonly [Nested, string] };
type Nested = { readonly fields: Table } | { readonly items: Table };

/** Server-side apply of an empty spec in the place of one with fields asks for null. */
const laxerConfig = { '.spec': 'nullable' } as const;

/** One line per field, such as `.spec.version string optional nullable`. */
function linesOfTable(table: Table, path = '', exceptions: typeof laxer = {}): string[] {
  return Object.entries(table).flatMap(([name, [value, presence, nullable = 'not null']]) => {
    const at = `${path}.${name}`;
    const type = typeof value === 'string' ? value : 'fields' in value ? 'object' : 'array';
    const optional = exceptions[at] === 'optional' ? 'optional' : presence;
    const line = `${at} ${type} ${optional} ${exceptions[at] === 'nullable' ? 'nullable' : nullable}`;
    if (typeof value === 'string') return [line];
    return 'fields' in value
      ? [line, ...linesOfTable(value.fields, at, exceptions)]
      : [line, ...linesOfTable(value.items, `${at}[]`, exceptions)];
  });
}

function linesOfSchema(schema: Schema, path = ''): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, property]) => {
    const at = `${path}.${name}`;
    const { items } = property;
    const strings = property.type === 'array' && items?.type === 'string';
    const plain = strings ? 'strings' : isMap(property) ? 'map' : property.type;
    const type = property['x-kubernetes-int-or-string'] === true ? 'int-or-string' : plain;
    const presence = schema.required?.includes(name) === true ? 'required' : 'optional';
    const line = `${at} ${type} ${presence} ${property.nullable === true ? 'nullable' : 'not null'}`;
    return [line, ...linesOfSchema(property, at), ...(items === undefined ? [] : linesOfSchema(items, `${at}[]`))];
  });
}

/** An object whose fields are not named. */
function isMap({ type, properties }: Schema): boolean {
  return type === 'object' && properties === undefined;
}

function schemaOf(name: CrdName): Schema {
  const schema = readCrd(name).spec.versions[0]?.schema.openAPIV3Schema;
  if (schema === undefined) throw new Error(`${name} has no schema`);
  return schema;
}

/** The schema of the field at `path`, such as `.status.conditions[].type`. */
function at(schema: Schema, path: string): Schema | undefined {
  return path
    .split('.')
    .slice(1)
    .reduce<Schema | undefined>((current, name) => {
      const property = current?.properties?.[name.replace('[]', '')];
      return name.endsWith('[]') ? property?.items : property;
    }, schema);
}

function described(schema: Schema, path = ''): string[] {
  const own = (schema.description?.length ?? 0) < 15 ? [path] : [];
  const items = schema.items;
  return [
    ...own,
    ...Object.entries(schema.properties ?? {}).flatMap(([name, property]) => described(property, `${path}.${name}`)),
    ...Object.entries(items?.properties ?? {}).flatMap(([name, property]) => described(property, `${path}[].${name}`)),
  ];
}

describe('the definition of BottlerocketShadow', () => {
  it('has exactly the fields of the TypeScript type, and requires the same', () => {
    expect(linesOfSchema(schemaOf('bottlerocketshadows')).toSorted()).toEqual(
      linesOfTable(shadow, '', laxer).toSorted(),
    );
  });

  it.each([
    ['.spec.state', SHADOW_STATES],
    ['.status.current_state', SHADOW_STATES],
    ['.status.lastOperation.operation', OPERATIONS],
    ['.status.lastOperation.state', OPERATION_STATES],
    ['.status.lastOperation.errorCode', Object.keys(ERROR_CODES)],
    ['.status.drain.result', DRAIN_RESULTS],
    ['.status.drain.blockedBy[].reason', BLOCK_REASONS],
    ['.status.drain.handover.phase', HANDOVER_PHASES],
    ['.status.conditions[].status', ['True', 'False', 'Unknown'] satisfies Condition['status'][]],
  ])('allows at %s what the code knows', (path, values) => {
    expect(at(schemaOf('bottlerocketshadows'), path)?.enum).toEqual([...values]);
  });

  it('describes each reason and result of a drain', () => {
    const told = (path: string): string => at(schemaOf('bottlerocketshadows'), path)?.description ?? '';
    expect(BLOCK_REASONS.filter((one) => !told('.status.drain.blockedBy[].reason').includes(`${one}: `))).toEqual([]);
    expect(DRAIN_RESULTS.filter((one) => !told('.status.drain.result').includes(`${one}: `))).toEqual([]);
  });

  it('names every error code in its description, with its recovery', () => {
    const description = at(schemaOf('bottlerocketshadows'), '.status.lastOperation.errorCode')?.description ?? '';
    const sentences = {
      RetrySoon: /[^.]*retried soon/,
      RetryAfterBackoff: /[^.]*retried after a wait/,
      NeverThisVersion: /[^.]*not tried again/,
      Manual: /[^.]*need a manual fix/,
    };
    const misplaced = Object.entries(ERROR_CODES).filter(
      ([code, recovery]) => !description.match(sentences[recovery])?.[0].includes(code),
    );
    expect(misplaced).toEqual([]);
  });

  it('has the names that the programs use', () => {
    const { group, names, scope, versions } = readCrd('bottlerocketshadows').spec;
    expect([group, names.kind, names.plural, names.shortNames, scope, versions.map(({ name }) => name)]).toEqual([
      GROUP,
      SHADOW_KIND,
      SHADOW_PLURAL,
      ['brs'],
      'Namespaced',
      [SHADOW_VERSION],
    ]);
  });
});

describe('the definition of BrupopConfig', () => {
  it('has exactly the fields of the TypeScript type, and requires the same', () => {
    expect(linesOfSchema(schemaOf('brupopconfigs')).toSorted()).toEqual(
      linesOfTable(config, '', laxerConfig).toSorted(),
    );
  });

  it('has the names that the programs use', () => {
    const { group, names, scope, versions } = readCrd('brupopconfigs').spec;
    expect([group, names.kind, names.plural, names.shortNames, scope, versions.map(({ name }) => name)]).toEqual([
      GROUP,
      CONFIG_KIND,
      CONFIG_PLURAL,
      ['brc'],
      'Cluster',
      [CONFIG_VERSION],
    ]);
  });

  it.each([
    ['.spec.pauseMode', PAUSE_MODES],
    ['.spec.order', ORDERS],
    ['.spec.maintenance.windows[].days[]', DAYS],
    ['.spec.drain.onTimeout', TIMEOUT_ACTIONS],
    ['.spec.drain.emptyDirPods', POD_POLICIES],
    ['.spec.drain.unmanagedPods', POD_POLICIES],
  ])('allows at %s what the code knows', (path, values) => {
    expect(at(schemaOf('brupopconfigs'), path)?.enum).toEqual([...values]);
  });

  it.each(Object.entries(SECONDS))('has the range and the default of %s as the code has them', (field, range) => {
    const { minimum, maximum, description } = at(schemaOf('brupopconfigs'), `.spec.${field}`) ?? {};
    expect([minimum, maximum]).toEqual([range.min, range.max]);
    expect(description).toContain(`The default is ${range.fallback}`);
  });

  it('accepts only the name that the programs read', () => {
    const rules = JSON.stringify(schemaOf('brupopconfigs')['x-kubernetes-validations']);
    expect(rules).toContain(`self.metadata.name == '${CONFIG_NAME}'`);
  });
});

it.each(['bottlerocketshadows', 'brupopconfigs'] as const)('every field of %s is described', (name) => {
  expect(described(schemaOf(name))).toEqual([]);
});

it('both definitions describe conditions alike', () => {
  const items = (name: CrdName): Schema | undefined => at(schemaOf(name), '.status.conditions[]');
  expect(items('brupopconfigs')).toEqual(items('bottlerocketshadows'));
});
