/**
 * Writes what follows from the schemas of the API (the definitions of the custom resources in the
 * chart, and the reference of the BrupopConfig in the docs), from the metrics, from the bundles (NOTICE), and from the
 * values of the chart (its README). `--check` only prints which files differ.
 *
 * A definition is `scripts/crds/NAME.yaml` (names, printer columns, rules across fields) with the
 * schema merged into it.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { toJsonSchema } from '@valibot/to-json-schema';
import type { GenericSchema } from 'valibot';
import { parse, stringify } from 'yaml';
import { configSchema } from '../packages/shared/src/api/brupop-config.ts';
import { DEFAULT_SPEC, OVERRIDES } from '../packages/shared/src/api/config-spec.ts';
import { nodeGroupSchema } from '../packages/shared/src/api/node-group.ts';
import { shadowSchema } from '../packages/shared/src/api/shadow.ts';
import { METRICS as APISERVER_METRICS } from '../packages/apiserver/src/metrics.ts';
import { METRICS as CONTROLLER_METRICS } from '../packages/controller/src/metrics-table.ts';
import { PROCESS_METRICS } from '../packages/shared/src/runtime/metrics.ts';
import { bundleAll } from './bundle.ts';
import { valuesReference } from './chart-values.ts';
import { fleet } from './dashboards/fleet.ts';
import { operator } from './dashboards/operator.ts';
import { metricEntries, withPart, wrap } from './docs.ts';
import { noticeOf } from './notice.ts';

type Json = Record<string, unknown>;

const root = join(import.meta.dirname, '..');
const read = (file: string): string => readFileSync(join(root, file), 'utf8');
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * The schema as OpenAPI 3.0. Fields that may be left out are not nullable, and have no default,
 * which the API server would fill in.
 */
function openApi(schema: GenericSchema): Json {
  return toJsonSchema(schema, {
    target: 'openapi-3.0',
    ignoreActions: ['check', 'raw_check', 'transform'],
    overrideSchema: ({ valibotSchema, jsonSchema }) => {
      if (valibotSchema.type !== 'nullish') return undefined;
      const { nullable: _, default: __, ...rest } = jsonSchema;
      if (!('x-kubernetes-preserve-unknown-fields' in rest)) return rest;
      const { additionalProperties: ___, ...open } = rest;
      return open;
    },
  }) as Json;
}

const FIRST = ['description', 'type'];
const LAST = ['items', 'properties', 'additionalProperties'];

const position = (key: string): number => (FIRST.includes(key) ? FIRST.indexOf(key) : LAST.indexOf(key) + 10);

/** The same, with the keys of schemas in one order, without empty ones. */
function tidy(schema: Json): Json {
  const entries = Object.entries(schema)
    .filter(([key, value]) => key !== '$schema' && !(key === 'required' && (value as unknown[]).length === 0))
    .toSorted(([a], [b]) => position(a) - position(b))
    .map(([key, value]): [string, unknown] => {
      if (key === 'properties') return [key, mapped(value as Record<string, Json>, tidy)];
      return [key, LAST.includes(key) ? tidy(value as Json) : value];
    });
  return Object.fromEntries(entries);
}

function mapped<T, U>(values: Record<string, T>, change: (value: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, change(value)]));
}

function merge(base: Json, more: Json): Json {
  const both = Object.entries(more).map(([key, value]): [string, unknown] => {
    const other = base[key];
    return [key, isObject(other) && isObject(value) ? merge(other, value) : value];
  });
  return { ...base, ...Object.fromEntries(both) };
}

interface Definition {
  readonly spec: { readonly versions: readonly [Json & { schema?: { openAPIV3Schema: Json } }] };
}

function baseOf(name: string): Definition {
  return parse(read(`scripts/crds/${name}.yaml`)) as Definition;
}

/** The rules of the definition `name` about the fields of its spec that `schema` has too. */
function rulesOf(name: string, { properties: { spec } = {} }: Property): Json {
  const { properties = {} } = (baseOf(name).spec.versions[0].schema?.openAPIV3Schema ?? {}) as Property;
  const common = Object.entries(properties['spec']?.properties ?? {}).filter(([field]) => spec?.properties?.[field]);
  return { properties: { spec: { properties: Object.fromEntries(common) } } };
}

/** Without what is true of a BrupopConfig only: a group has no defaults of its own, and percentages are of its nodes. */
function ofGroup(schema: Json): Json {
  const text = JSON.stringify(schema).replaceAll(DEFAULT_SENTENCE, '');
  return JSON.parse(text.replaceAll('percentage of the managed nodes', 'percentage of the nodes of the group')) as Json;
}

const DEFAULT_SENTENCE = / (?:The default is [^ "]+|By default [^."]+)\.(?=[ "])/gu;

/** @param rulesFrom - the definition whose rules about the same fields hold */
function definition(name: string, schema: GenericSchema, rulesFrom?: string): string {
  const base = baseOf(name);
  const [version] = base.spec.versions;
  const own = openApi(schema);
  const shared = rulesFrom === undefined ? own : merge(ofGroup(own), rulesOf(rulesFrom, own));
  version.schema = { openAPIV3Schema: tidy(merge(shared, version.schema?.openAPIV3Schema ?? {})) };
  const text = stringify(base, { lineWidth: 140, aliasDuplicateObjects: false });
  const source = `the schema in packages/shared/src/api and scripts/crds/${name}.yaml`;
  return `# Generated by \`make generate\` from ${source}. ${CRD_START}\n${withCommonMetadata(text)}# ${CRD_END}\n`;
}

/** Helm's actions are in comments, so that the file is plain YAML as well. */
const [CRD_START, CRD_END] = ['{{- if .Values.crds.enabled }}', '{{- end }}'];

function withCommonMetadata(crd: string): string {
  const annotations = '    # {{- include "brupop.commonAnnotations" . | nindent 4 }}\n';
  const labels = '  # {{- include "brupop.commonLabels" . | nindent 2 }}\n';
  return crd.replace('\nspec:\n', `\n${annotations}${labels}spec:\n`);
}

interface Property extends Json {
  readonly type?: string;
  readonly description?: string;
  readonly enum?: readonly string[];
  readonly properties?: Record<string, Property>;
  readonly items?: Property;
}

/** The fields of a schema that have no fields themselves, by their paths. */
function leaves({ properties = {} }: Property, path: string): [string, Property][] {
  return Object.entries(properties).flatMap(([name, property]): [string, Property][] => {
    const here = `${path}.${name}`;
    if (property.properties !== undefined) return leaves(property, here);
    if (name !== 'conditions' && property.items?.properties !== undefined)
      return [[here, property], ...leaves(property.items, `${here}[]`)];
    return [[here, property]];
  });
}

function typeOf(property: Property): string {
  const values = (property.enum ?? property.items?.enum)?.map((value) => `\`${value}\``).join(', ');
  if (values !== undefined) return property.enum === undefined ? `array of ${values}` : `one of ${values}`;
  if (property['x-kubernetes-int-or-string'] === true) return 'integer or string';
  const isDuration = JSON.stringify(property['x-kubernetes-validations'] ?? '').includes('duration(self)');
  return isDuration ? 'duration' : (property.type ?? 'any');
}

/** The default of a field of the spec. A field of the status has none. */
function defaultOf(path: string): string {
  const value = path
    .split('.')
    .reduce<unknown>((one, name) => (isObject(one) ? one[name] : undefined), { spec: DEFAULT_SPEC });
  return value === undefined || (Array.isArray(value) && value.length === 0)
    ? ''
    : `, default \`${JSON.stringify(value).replaceAll('"', '')}\``;
}

/** Names of fields, labels and annotations. */
const CODE = /(?<![`\w/.])(?:[a-z]+[A-Z]\w*|(?:spec|metadata|drain)\.[\w.]*\w|[\w.-]+\.(?:aws|io)\/[\w=.-]*\w)/gu;

function entry([path, property]: [string, Property]): string {
  const { description = '', enum: values = [] } = property;
  const text = description
    .replace(/ The default is [^ ]+\.(?= |$)/u, '')
    .replaceAll(CODE, '`$&`')
    .replaceAll(/(?<=(?:^|\. )(?:[A-Z]\w+, )*)[A-Z]\w+(?=:)/gu, (word) =>
      values.includes(word) ? `\`${word}\`` : word,
    );
  return wrap(`- \`${path}\` (${typeOf(property)}${defaultOf(path)}): ${text}`);
}

/** The page with the reference of `part` between its markers, but for the fields `without`. */
function reference(page: string, part: 'spec' | 'status', schema: GenericSchema, without: object = {}): string {
  const { properties } = openApi(schema) as Property;
  const isWanted = ([path]: [string, Property]): boolean => !Object.hasOwn(without, path.split('.')[1] ?? '');
  const entries = leaves(properties?.[part] ?? {}, part)
    .filter(isWanted)
    .map(entry);
  return withPart(page, part, entries.join('\n'));
}

/** The metrics of each program, by the name of their part of docs/metrics.md. */
const METRICS = { both: PROCESS_METRICS, controller: CONTROLLER_METRICS, apiserver: APISERVER_METRICS };

function metricsPage(): string {
  const parts = Object.entries(METRICS);
  return parts.reduce((page, [part, table]) => withPart(page, part, metricEntries(table)), read('docs/metrics.md'));
}

const chart = 'charts/bottlerocket-update-operator';

function chartValues(): string {
  return valuesReference(read(`${chart}/values.yaml`), JSON.parse(read(`${chart}/values.schema.json`)) as Json);
}

/** A package of the chart has no files from outside its folder. */
function licenses(): string {
  const head = 'This chart is licensed under the Apache License, Version 2.0, or the MIT license, at your option.';
  return [head, read('LICENSE-APACHE'), read('LICENSE-MIT')]
    .map((text) => text.trimEnd())
    .join(`\n\n${'-'.repeat(80)}\n\n`)
    .concat('\n');
}

const dashboard = (made: object): string => `${JSON.stringify(made, undefined, 2)}\n`;
const crds = `${chart}/templates/crds`;
const generated = {
  [`${crds}/bottlerocketshadows.yaml`]: definition('bottlerocketshadows', shadowSchema),
  [`${crds}/bottlerocketnodegroups.yaml`]: definition('bottlerocketnodegroups', nodeGroupSchema, 'brupopconfigs'),
  [`${crds}/brupopconfigs.yaml`]: definition('brupopconfigs', configSchema),
  [`${chart}/files/dashboards/fleet.json`]: dashboard(fleet),
  [`${chart}/files/dashboards/operator.json`]: dashboard(operator),
  [`${chart}/README.md`]: withPart(read(`${chart}/README.md`), 'values', chartValues()),
  [`${chart}/LICENSE`]: licenses(),
  NOTICE: noticeOf(await bundleAll()),
  'docs/configuration.md': reference(
    reference(read('docs/configuration.md'), 'spec', configSchema),
    'status',
    configSchema,
  ),
  'docs/metrics.md': metricsPage(),
  'docs/node-groups.md': reference(read('docs/node-groups.md'), 'spec', nodeGroupSchema, OVERRIDES),
};
const stale = Object.entries(generated).filter(([file, text]) => !existsSync(join(root, file)) || read(file) !== text);
if (process.argv.includes('--check')) {
  for (const [file] of stale)
    process.stderr.write(`${file} differs from what it is generated from: run make generate and commit the result\n`);
  process.exitCode = stale.length === 0 ? 0 : 1;
} else {
  for (const [file, text] of stale) {
    writeFileSync(join(root, file), text);
    process.stdout.write(`wrote ${file}\n`);
  }
}
