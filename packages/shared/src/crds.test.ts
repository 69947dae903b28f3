import { readCrd } from '../../../test/support/crds.ts';
import type { CrdName, Schema } from '../../../test/support/crds.ts';
import { PAUSE_MODES } from './brupop-config.ts';
import type { BrupopConfig } from './brupop-config.ts';
import {
  CONFIG_KIND,
  CONFIG_NAME,
  CONFIG_PLURAL,
  CONFIG_VERSION,
  GROUP,
  SHADOW_KIND,
  SHADOW_PLURAL,
  SHADOW_VERSION,
} from './constants.ts';
import { POD_POLICIES, SECONDS, TIMEOUT_ACTIONS } from './drain/settings.ts';
import { ERROR_CODES } from './errors.ts';
import type { Condition } from './kubernetes-types.ts';
import { BLOCK_REASONS } from './drain/blocks.ts';
import { DRAIN_RESULTS, HANDOVER_PHASES, OPERATIONS, OPERATION_STATES, SHADOW_STATES } from './shadow.ts';
import type { BottlerocketShadow, DrainStatus, LastOperation } from './shadow.ts';

// The tables below say of each TypeScript type which fields it has. The compiler refuses a table that does not fit its type exactly, and
// the tests refuse a schema that does not fit its table exactly, so neither can change without the other.

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
  : Extract<V, object> extends never
    ? readonly [Leaf<V>, Presence<T, K>, Nullable<T[K]>]
    : readonly [Value<V>, Presence<T, K>];
type Fields<T> = { [K in keyof T]-?: Field<T, K> };

const condition = {
  type: ['string', 'required', 'not null'],
  status: ['string', 'required', 'not null'],
  reason: ['string', 'required', 'not null'],
  message: ['string', 'required', 'not null'],
  lastTransitionTime: ['string', 'required', 'not null'],
  observedGeneration: ['integer', 'optional', 'not null'],
} as const satisfies Fields<Condition>;

const lastOperation = {
  operation: ['string', 'required', 'not null'],
  state: ['string', 'required', 'not null'],
  version: ['string', 'required', 'not null'],
  bootID: ['string', 'required', 'not null'],
  startTime: ['string', 'required', 'not null'],
  lastUpdateTime: ['string', 'required', 'not null'],
  errorCode: ['string', 'optional', 'not null'],
  message: ['string', 'optional', 'not null'],
} as const satisfies Fields<LastOperation>;

const drain = {
  observedGeneration: ['integer', 'required', 'not null'],
  startTime: ['string', 'required', 'not null'],
  resumeTime: ['string', 'optional', 'not null'],
  endTime: ['string', 'optional', 'not null'],
  result: ['string', 'optional', 'not null'],
  evicted: ['integer', 'required', 'not null'],
  remaining: ['integer', 'required', 'not null'],
  blockedBy: [
    {
      items: {
        pod: ['string', 'required', 'not null'],
        reason: ['string', 'required', 'not null'],
        message: ['string', 'required', 'not null'],
        podDisruptionBudgets: ['strings', 'optional', 'not null'],
        since: ['string', 'required', 'not null'],
      },
    },
    'optional',
  ],
  handover: [
    {
      fields: {
        pod: ['string', 'required', 'not null'],
        podUID: ['string', 'required', 'not null'],
        phase: ['string', 'required', 'not null'],
        since: ['string', 'required', 'not null'],
        volumes: ['strings', 'optional', 'not null'],
        replaced: ['boolean', 'optional', 'not null'],
      },
    },
    'optional',
  ],
} as const satisfies Fields<DrainStatus>;

const shadow = {
  spec: [
    {
      fields: {
        state: ['string', 'required', 'not null'],
        version: ['string', 'optional', 'nullable'],
        state_transition_timestamp: ['string', 'optional', 'nullable'],
      },
    },
    'required',
  ],
  status: [
    {
      fields: {
        current_state: ['string', 'required', 'not null'],
        current_version: ['string', 'required', 'not null'],
        target_version: ['string', 'required', 'not null'],
        crash_count: ['integer', 'required', 'not null'],
        state_transition_failure_timestamp: ['string', 'optional', 'nullable'],
        observedGeneration: ['integer', 'required', 'not null'],
        bootID: ['string', 'required', 'not null'],
        lastOperation: [{ fields: lastOperation }, 'optional'],
        drain: [{ fields: drain }, 'optional'],
        conditions: [{ items: condition }, 'optional'],
      },
    },
    'optional',
  ],
} as const satisfies Fields<Pick<BottlerocketShadow, 'spec' | 'status'>>;

const config = {
  spec: [
    {
      fields: {
        paused: ['boolean', 'optional', 'not null'],
        pauseMode: ['string', 'optional', 'not null'],
        pauseReason: ['string', 'optional', 'not null'],
        concurrency: [{ fields: { maxUpdating: ['int-or-string', 'optional', 'not null'] } }, 'optional'],
        drain: [
          {
            fields: {
              timeoutSeconds: ['integer', 'optional', 'not null'],
              onTimeout: ['string', 'optional', 'not null'],
              emptyDirPods: ['string', 'optional', 'not null'],
              unmanagedPods: ['string', 'optional', 'not null'],
              maxGracePeriodSeconds: ['integer', 'optional', 'not null'],
              volumeDetachTimeoutSeconds: ['integer', 'optional', 'not null'],
              replacementTimeoutSeconds: ['integer', 'optional', 'not null'],
              taintWaitingNodes: ['boolean', 'optional', 'not null'],
            },
          },
          'optional',
        ],
        loadBalancer: [{ fields: { exclusionSeconds: ['integer', 'optional', 'not null'] } }, 'optional'],
      },
    },
    'required',
  ],
  status: [
    {
      fields: {
        observedGeneration: ['integer', 'optional', 'not null'],
        conditions: [{ items: condition }, 'optional'],
        nodes: [
          {
            fields: {
              managed: ['integer', 'required', 'not null'],
              upToDate: ['integer', 'required', 'not null'],
              updating: ['integer', 'required', 'not null'],
              waiting: ['integer', 'required', 'not null'],
              failed: ['integer', 'required', 'not null'],
            },
          },
          'optional',
        ],
      },
    },
    'optional',
  ],
} as const satisfies Fields<Pick<BrupopConfig, 'spec' | 'status'>>;

/**
 * Where the schema is laxer than the types. A shadow of an older operator lacks the newer fields, and one whose agent has not reported yet
 * may already have the controller's condition, so the schema requires nothing of the status; the agent always reports all of it.
 * An older operator may have stored the status as null.
 */
const laxer: Readonly<Record<string, 'optional' | 'nullable'>> = {
  '.status': 'nullable',
  '.status.current_state': 'optional',
  '.status.current_version': 'optional',
  '.status.target_version': 'optional',
  '.status.crash_count': 'optional',
  '.status.observedGeneration': 'optional',
  '.status.bootID': 'optional',
};

type Table = { readonly [field: string]: readonly [string, string, string] | readonly [Nested, string] };
type Nested = { readonly fields: Table } | { readonly items: Table };

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
    const plain = strings ? 'strings' : property.type;
    const type = property['x-kubernetes-int-or-string'] === true ? 'int-or-string' : plain;
    const presence = schema.required?.includes(name) === true ? 'required' : 'optional';
    const line = `${at} ${type} ${presence} ${property.nullable === true ? 'nullable' : 'not null'}`;
    return [line, ...linesOfSchema(property, at), ...(items === undefined ? [] : linesOfSchema(items, `${at}[]`))];
  });
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
      NeedsPerson: /[^.]*need a person/,
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
    expect(linesOfSchema(schemaOf('brupopconfigs')).toSorted()).toEqual(linesOfTable(config).toSorted());
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
