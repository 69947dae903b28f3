import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { jest } from '@jest/globals';
import { CONFIG_NAME, CONFIG_PLURAL, CONFIG_VERSION, GROUP, MANAGED_LABEL } from '@brupop/shared/api/names';
import { parse } from 'yaml';
import { helm, IMAGE, releaseNamespace } from '../../framework/chart.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { chartDir } from '../../framework/crds.ts';
import { anchorsOf } from '../../framework/markdown.ts';

jest.setTimeout(120_000);

const node = 'node-of-the-notes';

let cluster: ControlPlane;
let notes = '';

beforeAll(async () => {
  cluster = await startControlPlane();
  notes = await helm(
    cluster,
    'install',
    'brupop',
    chartDir,
    ...IMAGE,
    '--namespace',
    releaseNamespace,
    '--create-namespace',
  );
  await createNode(cluster, { name: node });
  const config = { apiVersion: `${GROUP}/${CONFIG_VERSION}`, kind: 'BrupopConfig', metadata: { name: CONFIG_NAME } };
  await cluster.api.create(`/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}`, { ...config, spec: {} });
});

afterAll(async () => await cluster.stop());

async function shell(command: string): Promise<string> {
  const args = ['-e', '-c', command];
  const { stdout } = await promisify(execFile)('sh', args, { env: cluster.env, timeout: 30_000 });
  return stdout;
}

it('the notes of an installation tell commands that work', async () => {
  const commands = [...notes.matchAll(/^ {5}(?<command>kubectl .*)$/gmu)].map(
    ({ groups }) => groups?.['command'] ?? '',
  );
  expect(commands.length).toBeGreaterThan(4);
  const pause = commands.filter((command) => command.includes('"paused":true'));
  expect(pause).toEqual([expect.stringContaining('"pauseMode":null')]);
  for (const command of commands) await shell(command.replace('NODE', node).replace(' --watch', ''));

  const { metadata } = await cluster.api.get<{ metadata: { labels: object } }>(`/api/v1/nodes/${node}`);
  expect(metadata.labels).toHaveProperty([MANAGED_LABEL]);
  const path = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}/${CONFIG_NAME}`;
  const { spec } = await cluster.api.get<{ spec: object }>(path);
  expect(spec).toMatchObject({ paused: false });
  expect(spec).not.toHaveProperty('pauseReason');
});

describe('the links of the notes and of alerts', () => {
  const docs = join(import.meta.dirname, '../../../docs');
  const rule = ['--set', 'alerts.enabled=true', '--show-only', 'templates/metrics/prometheusrule.yaml'];
  const alerts = async (...values: string[]): Promise<string> =>
    await helm(
      cluster,
      'template',
      'brupop',
      chartDir,
      ...IMAGE,
      '--api-versions',
      'monitoring.coreos.com/v1',
      ...rule,
      ...values,
    );
  const linksIn = (text: string): string[] => text.match(/https?:\/\/\S+/gu) ?? [];

  it('are addresses of this release, and lead to a heading', async () => {
    const { home, version } = parse(readFileSync(join(chartDir, 'Chart.yaml'), 'utf8')) as Record<string, string>;
    const links = [...linksIn(notes), ...linksIn(await alerts())];
    expect(await alerts()).not.toMatch(/runbook_url: (?!https:)/u);
    expect(notes).not.toMatch(/(?<!\/)docs\//u);
    expect(links.length).toBeGreaterThan(15);
    for (const link of links) {
      const [, page = '', anchor = ''] = /^(?:.+)\/docs\/(?<page>[^#]+)#(?<anchor>.+)$/u.exec(link) ?? [];
      expect(link).toBe(`${home}/blob/v${version}/docs/${page}#${anchor}`);
      expect([link, existsSync(join(docs, page))]).toEqual([link, true]);
      expect([link, anchorsOf(readFileSync(join(docs, page), 'utf8'))]).toEqual([
        link,
        expect.arrayContaining([anchor]),
      ]);
    }
  });

  it('lead to where docsUrl says, and those of alerts to alerts.runbookUrl', async () => {
    const docsUrl = ['--set', 'docsUrl=https://git.example.com/docs'];
    const upgraded = await helm(
      cluster,
      'upgrade',
      'brupop',
      chartDir,
      ...IMAGE,
      '-n',
      releaseNamespace,
      '--dry-run=server',
      ...docsUrl,
    );
    const ours = /^https:\/\/git\.example\.com\/docs\/[a-z-]+\.md#/u;
    for (const link of [...linksIn(upgraded.split('\nNOTES:')[1] ?? ''), ...linksIn(await alerts(...docsUrl))])
      expect(link).toMatch(ours);
    const runbook = ['--set', 'alerts.runbookUrl=https://wiki.example.com/brupop'];
    for (const link of linksIn(await alerts(...docsUrl, ...runbook)))
      expect(link).toMatch(/^https:\/\/wiki\.example\.com\/brupop#/u);
  });
});

describe('the notes warn of', () => {
  const upgrade = ['upgrade', 'brupop', chartDir, ...IMAGE, '--namespace', releaseNamespace, '--dry-run=server'];
  const policies = 'networkPolicy.enabled=true';
  const metricsFrom = 'networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus';
  const hostNetwork = 'agent.hostNetwork=true';
  const selected = 'apiserver.nodeSelector.node-restriction\\.kubernetes\\.io/brupop=apart';
  const terms = 'apiserver.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms';
  const required = `${terms}[0].matchExpressions[0].key=apart,${terms}[0].matchExpressions[0].operator=Exists`;
  const nodeCIDRs = 'networkPolicy.nodeCIDRs={10.0.0.0/16}';

  const notesWith = async (values: readonly string[]): Promise<string> =>
    await helm(cluster, ...upgrade, ...values.flatMap((value) => ['--set', value]));

  it.each([
    [
      'NetworkPolicies that let no peer read metrics',
      'let no peer read metrics',
      [policies],
      [[], [policies, metricsFrom]],
    ],
    [
      'NetworkPolicies that let every address connect to the API server',
      'let every address connect',
      [policies, hostNetwork],
      [[policies], [hostNetwork], [policies, hostNetwork, nodeCIDRs]],
    ],
    ['API servers on managed nodes', 'may run on nodes that the operator manages', [], [[selected], [required]]],
  ])('%s', async (_, warning, warned, silent) => {
    expect(await notesWith(warned)).toContain(warning);
    for (const values of silent) expect(await notesWith(values)).not.toContain(warning);
  });
});
