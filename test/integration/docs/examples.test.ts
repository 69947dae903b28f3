/** The YAML of README and docs/, and what their commands do to the configuration, on a real kube-apiserver. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import type { V1CronJob } from '@kubernetes/client-node';
import { parse, parseAllDocuments } from 'yaml';
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { CONFIG_NAME, CONFIG_PLURAL, CONFIG_VERSION, GROUP, MANAGED_LABEL } from '@brupop/shared/api/names';
import { renderChart } from '../../framework/chart.ts';
import { commandsOf, runCommands, splitCommands, withFile } from '../../framework/commands.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { eventually } from '../../framework/eventually.ts';
import { fencesOf, spansOf } from '../../framework/markdown.ts';
import { userPages, type YamlExample, yamlExamplesOf } from '../../framework/yaml-examples.ts';

jest.setTimeout(180_000);

const ROOT = join(import.meta.dirname, '../../..');
const NOTES = 'charts/bottlerocket-update-operator/templates/NOTES.txt';
const CONFIG = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}/${CONFIG_NAME}`;
/** Argo CD and Flux have definitions of their own; test/integration/chart/values.test.ts renders their values. */
const OF_OTHER_TOOLS = /^apiVersion: (?:argoproj\.io|(?:helm|kustomize)\.toolkit\.fluxcd\.io)\//mu;

const examples = userPages.flatMap(yamlExamplesOf);
const objects = examples.filter(({ is }) => is === 'object' || is === 'part');
const of = (is: YamlExample['is']): [string, string][] =>
  examples.filter((example) => example.is === is).map(({ where, text }) => [where, text]);

/** The commands of the pages, also those in sentences, and of the notes that start so. Those of one page are in their order. */
function commandsLike(pattern: RegExp): string[] {
  const fromPages = userPages.flatMap((page) => {
    const text = readFileSync(join(ROOT, page), 'utf8');
    const blocks = fencesOf(text).filter(({ info }) => info === 'sh');
    return [...blocks.flatMap((block) => splitCommands(block.text)), ...spansOf(text)];
  });
  const fromNotes = [...readFileSync(join(ROOT, NOTES), 'utf8').matchAll(/^ +(?<command>kubectl .*)$/gmu)];
  return [...fromPages, ...fromNotes.map(({ groups }) => groups?.['command'] ?? '')]
    .map((command) => command.trim().replaceAll('VERSION', '1.21.0').replace('brng GROUP', 'brng db'))
    .filter((command) => pattern.test(command));
}

let cluster: ControlPlane;

/** Installs the chart as README says, and upgrades it as each page says, in their order. */
beforeAll(async () => {
  cluster = await startControlPlane();
  const [namespace = '', labelled = '', install = ''] = splitCommands(commandsOf('README.md', 'Install'));
  for (const command of [namespace, labelled, install]) await runCommands(cluster, command);
  for (const command of commandsLike(/^(?:kubectl (?:create|label) namespace (?:brupop-checks|shop)|helm upgrade )/u))
    await runCommands(cluster, command);
  // Where Argo CD runs.
  await runCommands(cluster, 'kubectl create namespace argocd');
});

afterAll(async () => await cluster.stop());

/** What kubectl says of an object. */
async function dryRun(text: string): Promise<string> {
  const apply = 'kubectl apply --server-side --dry-run=server --validate=strict -f';
  let answer = '';
  await withFile('example.yaml', text, async (file) => {
    answer = await runCommands(cluster, `${apply} ${file}`);
  });
  return answer;
}

describe('the API server accepts the example', () => {
  it.each(objects.map(({ where, text }) => [where, text]))('%s', async (_, text) => {
    const documents = text.split(/^---$/mu).filter((document) => !OF_OTHER_TOOLS.test(document));
    // Policies, and the discovery of new definitions, lag.
    for (const document of documents)
      expect(await eventually(async () => await dryRun(document))).toContain('serverside-applied (server dry run)');
  });
});

describe('the chart accepts the values', () => {
  it.each(of('values'))('%s', async (_, text) => {
    await withFile('values.yaml', text, async (file) => {
      expect(await renderChart(cluster, '-f', file)).not.toEqual([]);
    });
  });
});

it.each(of('label'))('%s gives nodes the label of managed nodes', (_, text) => {
  expect(JSON.stringify(parse(text))).toContain(`{"${MANAGED_LABEL}":"2.0.0"}`);
});

it('no two examples are the same object, which would replace one another', () => {
  const names = objects
    .filter(({ is }) => is === 'object')
    .flatMap(({ text, where }) =>
      parseAllDocuments(text).map((document) => {
        const { kind, metadata } = document.toJS() as { kind: string; metadata: { name: string } };
        return `${where.split(':')[0]} ${kind} ${metadata.name}`;
      }),
    );
  expect(names.toSorted()).toEqual([...new Set(names)].toSorted());
});

const cronJobs = objects.flatMap(({ text, where }) =>
  parseAllDocuments(text)
    .map((document) => document.toJS() as V1CronJob)
    .filter(({ kind }) => kind === 'CronJob')
    .map((cronJob): [string, V1CronJob] => [where, cronJob]),
);

it.each(cronJobs)('the namespace of %s admits the pods of its Jobs', async (_, { metadata, spec }) => {
  const pods = `/api/v1/namespaces/${metadata?.namespace}/pods`;
  const pod = { metadata: { generateName: 'check-' }, spec: spec?.jobTemplate.spec?.template.spec };
  // kube-controller-manager creates the service account soon after the namespace.
  await expect(eventually(async () => await cluster.api.create(`${pods}?dryRun=All`, pod))).resolves.toBeDefined();
});

describe('what a user has configured outlives', () => {
  const [configure = ''] = splitCommands(commandsOf('README.md', 'Configure'));
  let configured: BrupopConfig;

  beforeEach(async () => {
    await cluster.api.delete(CONFIG);
    await runCommands(cluster, configure);
    configured = await cluster.api.get<BrupopConfig>(CONFIG);
  });

  it.each(commandsLike(/^kubectl (?:patch brc|apply .*(?:.*\n)*kind: BrupopConfig)/u))('%s', async (command) => {
    await runCommands(cluster, command.replace('patch brc', 'patch --warnings-as-errors brc'));
    const { spec } = await cluster.api.get<BrupopConfig>(CONFIG);
    expect(spec).toMatchObject(configured.spec);
  });
});

describe('the API server accepts the change of an example', () => {
  beforeAll(async () => {
    for (const { text } of objects.filter((one) => one.text.includes('kind: BottlerocketNodeGroup')))
      await withFile('group.yaml', text, async (file) => {
        await runCommands(cluster, `kubectl apply --server-side -f ${file}`);
      });
  });

  it.each(commandsLike(/^kubectl (?:patch brng|create (?:secret generic|clusterrolebinding))/u))(
    '%s',
    async (command) => {
      const dryRun = await runCommands(cluster, `${command} --dry-run=server --warnings-as-errors`);
      expect(dryRun).toMatch(/ (?:patched|created)(?: \((?:server dry run|no change)\))?$/mu);
    },
  );
});
