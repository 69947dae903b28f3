import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { chartDir, readCrd } from './crds.ts';
import { sectionOf } from './markdown.ts';

const read = (file: string): string => readFileSync(join(chartDir, '../..', file), 'utf8');

interface ValueSchema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly oneOf?: readonly ValueSchema[];
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, ValueSchema>>;
  readonly definitions?: Readonly<Record<string, ValueSchema>>;
}

describe('the values of the chart', () => {
  const schema = JSON.parse(readFileSync(join(chartDir, 'values.schema.json'), 'utf8')) as ValueSchema;
  const defaults: unknown = parse(readFileSync(join(chartDir, 'values.yaml'), 'utf8'));

  /** `global` is Helm's own, and `enabled` is for a chart around this one. A definition counts as one value. */
  function values({ properties = {} }: ValueSchema, path: readonly string[] = []): [string, object][] {
    return Object.entries(properties).flatMap(([name, value]): [string, object][] => {
      const here = [...path, name];
      if (here.join('.') === 'enabled' || name === 'global') return [];
      if (value.properties !== undefined) return values(value, here);
      return [[here.join('.'), { type: typeOf(value), default: at(defaults, here) }]];
    });
  }

  function typeOf(value: ValueSchema): string {
    if (value.oneOf !== undefined) return value.oneOf.map(typeOf).join(' or ');
    if (value.$ref !== undefined) return typeOf(schema.definitions?.[value.$ref.replace('#/definitions/', '')] ?? {});
    return value.enum === undefined ? `${value.type}` : typeof value.enum[0];
  }

  it('are all documented with their types and defaults, and no others', () => {
    const entries = sectionOf(read('docs/configuration.md'), 'Values of the chart').matchAll(
      /^- `(?<name>[^`]+)` \((?<type>[^,]+), default `(?<text>[^`]+)`\):/gmu,
    );
    const documented = Object.fromEntries(
      [...entries].map(({ groups }) => [
        groups?.['name'] ?? '',
        { type: groups?.['type'], default: parse(groups?.['text']?.replaceAll('\n ', '') ?? '') as unknown },
      ]),
    );
    expect(documented).toEqual(Object.fromEntries(values(schema)));
  });

  it('are all in the README of the chart, with their defaults and what they are for', () => {
    const readme = readFileSync(join(chartDir, 'README.md'), 'utf8');
    const entries = readme.matchAll(/^- `(?<name>[^`]+)` \(default `(?<text>[^`]+)`\): *\n? *\S/gmu);
    const found = [...entries].map(({ groups }) => [groups?.['name'] ?? '', parse(groups?.['text'] ?? '') as unknown]);
    const expected = values(schema).map(([name]) => [name, at(defaults, name.split('.'))]);
    expect(Object.fromEntries(found)).toEqual(Object.fromEntries(expected));
  });
});

/** Only with addresses or Secrets in `checks`: a template rejects these where the chart has them, too. */
const OF_CHECKS = /^(?:PROMETHEUS|ALERTMANAGER)_(?:URL|CREDENTIALS)$/u;

it('no value may have a variable that the chart sets, whether or not it is set now', () => {
  const folder = join(import.meta.dirname, '../integration/chart/renders');
  const renders = readdirSync(folder).map((name) => readFileSync(join(folder, name, 'render.yaml'), 'utf8'));
  const names = renders.join('\n').matchAll(/- name: (?!EXTRA_)(?<name>[A-Z][A-Z_]+)$/gmu);
  const ofChart = [...names].map(({ groups }) => groups?.['name'] ?? '').filter((name) => !OF_CHECKS.test(name));
  const { definitions } = JSON.parse(readFileSync(join(chartDir, 'values.schema.json'), 'utf8')) as {
    definitions: { extraEnv: { items: { properties: { name: { not: { enum: string[] } } } } } };
  };
  expect(new Set(definitions.extraEnv.items.properties.name.not.enum)).toEqual(new Set(ofChart));
});

describe('Chart.yaml', () => {
  const chart = parse(readFileSync(join(chartDir, 'Chart.yaml'), 'utf8')) as {
    readonly home: string;
    readonly icon: string;
    readonly annotations: Readonly<Record<string, string>>;
  };

  it('has addresses below its home only, of pages that exist', () => {
    const addresses: readonly string[] = JSON.stringify(chart).match(/https?:[^\s"\\]+/gu) ?? [];
    expect(addresses.length).toBeGreaterThan(4);
    expect(addresses.filter((address) => !address.startsWith(chart.home))).toEqual([]);
    const files = addresses.flatMap((address) => /\/HEAD\/(?<path>.+)$/u.exec(address)?.groups?.['path'] ?? []);
    expect(files.filter((path) => !existsSync(join(chartDir, '../..', path)))).toEqual([]);
  });

  it('names the definitions of the chart for Artifact Hub', () => {
    const named = parse(chart.annotations['artifacthub.io/crds'] ?? '') as Record<string, string>[];
    const crds = (['brupopconfigs', 'bottlerocketnodegroups', 'bottlerocketshadows'] as const).map((name) => {
      const { metadata, spec } = readCrd(name);
      return { kind: spec.names.kind, version: spec.versions[0]?.name, name: metadata.name };
    });
    expect(named).toMatchObject(crds);
  });
});

function at(from: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], from);
}
