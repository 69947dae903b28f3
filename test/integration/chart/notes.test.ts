import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { jest } from '@jest/globals';
import { CONFIG_NAME, CONFIG_PLURAL, CONFIG_VERSION, GROUP, MANAGED_LABEL } from '@brupop/shared/api/names';
import { helm, releaseNamespace } from '../../framework/chart.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { chartDir } from '../../framework/crds.ts';

jest.setTimeout(120_000);

const node = 'node-of-the-notes';

let cluster: ControlPlane;
let notes = '';

beforeAll(async () => {
  cluster = await startControlPlane();
  notes = await helm(cluster, 'install', 'brupop', chartDir, '--namespace', releaseNamespace, '--create-namespace');
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
  for (const command of commands) await shell(command.replace('NODE', node).replace(' --watch', ''));

  const { metadata } = await cluster.api.get<{ metadata: { labels: object } }>(`/api/v1/nodes/${node}`);
  expect(metadata.labels).toHaveProperty([MANAGED_LABEL]);
  expect(await cluster.api.get(`/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}/${CONFIG_NAME}`)).toMatchObject({
    spec: { paused: false, pauseReason: 'change freeze' },
  });
});

describe('the notes warn of', () => {
  const upgrade = ['upgrade', 'brupop', chartDir, '--namespace', releaseNamespace, '--dry-run=server'];
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
      'NetworkPolicies that let nobody read metrics',
      'let nobody read metrics',
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
