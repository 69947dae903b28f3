import { type CrdName, readCrd, type Schema } from '../../../../test/framework/crds.ts';
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
import { BLOCK_REASONS, DRAIN_RESULTS } from './shadow.ts';

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
  it('describes each reason and result of a drain', () => {
    const descriptionAt = (path: string): string => at(schemaOf('bottlerocketshadows'), path)?.description ?? '';
    expect(
      BLOCK_REASONS.filter((one) => !descriptionAt('.status.drain.blockedBy[].reason').includes(`${one}: `)),
    ).toEqual([]);
    expect(DRAIN_RESULTS.filter((one) => !descriptionAt('.status.drain.result').includes(`${one}: `))).toEqual([]);
  });

  it('names every error code in its description, with its recovery', () => {
    const description = at(schemaOf('bottlerocketshadows'), '.status.lastOperation.errorCode')?.description ?? '';
    const sentences = {
      RetrySoon: /[^.]*retried soon/,
      RetryAfterBackoff: /[^.]*retried after a wait/,
      RetryWithOffered: /[^.]*no failure/,
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

  it('accepts only the name that the programs read', () => {
    const rules = JSON.stringify(schemaOf('brupopconfigs')['x-kubernetes-validations']);
    expect(rules).toContain(`self.metadata.name == '${CONFIG_NAME}'`);
  });
});

it.each(['bottlerocketshadows', 'brupopconfigs', 'bottlerocketnodegroups'] as const)(
  'every field of %s is described',
  (name) => {
    expect(described(schemaOf(name))).toEqual([]);
  },
);

it('both definitions describe conditions alike', () => {
  const items = (name: CrdName): Schema | undefined => at(schemaOf(name), '.status.conditions[]');
  expect(items('brupopconfigs')).toEqual(items('bottlerocketshadows'));
});

it('the definition of BottlerocketNodeGroup names no default: a field left out has the value of the BrupopConfig', () => {
  const spec = JSON.stringify(schemaOf('bottlerocketnodegroups').properties?.['spec']);
  expect(spec.match(/[^."]*(?:The default is|By default)[^."]*/gu)).toBeNull();
});

it('the definition of BottlerocketNodeGroup says of each percentage that it is of the nodes of the group', () => {
  const found = JSON.stringify(schemaOf('bottlerocketnodegroups')).match(/percentage of the [a-z, ]+/gu) ?? [];
  expect(found.map((one) => one.startsWith('percentage of the nodes of the group'))).toEqual([true, true, true, true]);
});
