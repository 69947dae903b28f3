/** The plugin beside shadows of a former installation in another namespace, which `helm uninstall` keeps. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { RELEASE } from '../../../packages/shared/src/runtime/build.ts';
import { Plugin } from '../../framework/cli/plugin.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { installCrds } from '../../framework/crds.ts';

jest.setTimeout(180_000);

const CRS = '/apis/brupop.bottlerocket.aws';
const CONFIG = { apiVersion: 'brupop.bottlerocket.aws/v1alpha1', kind: 'BrupopConfig', metadata: { name: 'cluster' } };
const TARGETS = { former: '1.20.0', present: '1.21.0' } as const;
const SENTENCE =
  'there are shadows in the namespaces former, present: name that of the operator with --namespace, and delete ' +
  'the shadows that a former installation has left';

let cluster: ControlPlane;
let plugin: Plugin;

const shadows = (namespace: string): string => `${CRS}/v2/namespaces/${namespace}/bottlerocketshadows`;

beforeAll(async () => {
  cluster = await startControlPlane();
  plugin = await Plugin.build(cluster);
  plugin.users['admin'] = { token: cluster.adminToken };
  plugin.users['nobody'] = { token: cluster.tokens.unprivileged };
  plugin.env['COLUMNS'] = '300';
  writeFileSync(join(plugin.folder, 'edit.yaml'), JSON.stringify({ ...CONFIG, spec: {} }));
  await installCrds(cluster);
  await cluster.api.create(`${CRS}/v1alpha1/brupopconfigs`, { ...CONFIG, spec: {} });
  await cluster.api.patch(`${CRS}/v1alpha1/brupopconfigs/cluster/status`, {
    status: { observedGeneration: 1, release: RELEASE },
  });
  const labels = { 'bottlerocket.aws/updater-interface-version': '2.0.0' };
  const { metadata } = await createNode(cluster, { name: 'node-a', labels, bootID: 'a' });
  for (const [namespace, target] of Object.entries(TARGETS)) {
    await cluster.api.create('/api/v1/namespaces', { metadata: { name: namespace } });
    const owner = { apiVersion: 'v1', kind: 'Node', name: 'node-a', uid: metadata?.uid };
    await cluster.api.create(shadows(namespace), {
      apiVersion: 'brupop.bottlerocket.aws/v2',
      kind: 'BottlerocketShadow',
      metadata: { name: 'brs-node-a', ownerReferences: [owner] },
      spec: { state: 'Idle' },
    });
    const reported = { current_state: 'Idle', current_version: '1.19.0', crash_count: 0, observedGeneration: 1 };
    await cluster.api.patch(`${shadows(namespace)}/brs-node-a/status`, {
      status: { ...reported, target_version: target, bootID: 'a' },
    });
  }
});

afterAll(async () => {
  await cluster.stop();
  plugin.remove();
});

const annotationsIn = async (namespace: string): Promise<unknown> =>
  (await cluster.api.get<{ metadata: { annotations?: object } }>(`${shadows(namespace)}/brs-node-a`)).metadata
    .annotations;

it.each([
  [['retry', 'node-a']],
  [['update-now', 'node-a']],
  [['abort', 'node-a']],
  [['explain', 'node-a']],
  [['explain', 'node-a', '--gates']],
  [['history']],
  [['report']],
  [['plan', '--with', 'edit.yaml']],
  [['support-bundle']],
])('%j is refused as long as the namespace of the operator is not named', async (args) => {
  expect(await plugin.run(...args)).toEqual({ code: 1, stdout: '', stderr: `error: ${SENTENCE}\n` });
  expect([await annotationsIn('former'), await annotationsIn('present')]).toEqual([undefined, undefined]);
});

it('status says that the shadows are in several namespaces', async () => {
  expect((await plugin.run('status')).stdout).toContain(`Namespaces: ${SENTENCE}\n`);
  expect((await plugin.run('status', '-o', 'json')).stderr).toBe(`warning: ${SENTENCE}\n`);
});

it('with the namespace, a command acts on the shadow of the operator', async () => {
  const { stdout } = await plugin.run('-n', 'present', 'status');
  expect(stdout).not.toContain('Namespaces:');
  expect(stdout.match(/^node-a/gmu)).toHaveLength(1);
  expect((await plugin.run('-n', 'present', 'explain', 'node-a', '--gates')).stderr).toBe('');
  expect((await plugin.run('--namespace', 'present', 'retry', 'node-a')).stdout).toContain('node-a retries 1.21.0');
  expect([await annotationsIn('former'), await annotationsIn('present')]).toEqual([
    undefined,
    { 'brupop.bottlerocket.aws/retry': '1.21.0' },
  ]);
});

it.each([
  ['-n=present', 'status'],
  ['status', '-n', 'present'],
  ['status', '--namespace=present'],
])('%s %s names the namespace of the operator', async (...args) => {
  const { stdout } = await plugin.run(...args);
  expect(stdout).not.toContain('Namespaces:');
  expect(stdout.match(/^node-a/gmu)).toHaveLength(1);
});

it.each(['', 'a b?x', 'Present', '-present'])('refuses %j as the name of a namespace', async (name) => {
  const { code, stderr } = await plugin.run(`--namespace=${name}`, 'status');
  expect([code, stderr]).toEqual([1, expect.stringContaining('expected the name of a namespace')]);
});

const NONE = 'there is no shadow in the namespace presnet';

it.each([
  [['plan', '--with', 'edit.yaml']],
  [['history']],
  [['report']],
  [['retry', 'node-a']],
  [['explain', 'node-a']],
  [['explain', 'node-a', '--gates']],
])('%j is refused in a namespace without shadows', async (args) => {
  expect(await plugin.run('-n', 'presnet', ...args)).toEqual({ code: 1, stdout: '', stderr: `error: ${NONE}\n` });
});

it('status does not say that no node is managed if the namespace that was named has no shadows', async () => {
  const { stdout } = await plugin.run('-n', 'presnet', 'status');
  expect(stdout).toContain(`Namespaces: ${NONE}\n`);
  expect(stdout).not.toContain('No node is managed');
  expect((await plugin.run('-n', 'presnet', 'status', '-o', 'json')).stderr).toBe(`warning: ${NONE}\n`);
});

it('a bundle of a namespace without shadows has a warning', async () => {
  const { code, stderr } = await plugin.run('support-bundle', '-n', 'presnet', '-o', 'none.tar.gz');
  expect([code, stderr]).toEqual([0, expect.stringContaining(`warning: ${NONE}\n`)]);
});

it('completes the name of a node once', async () => {
  expect((await plugin.run('__complete', '--', 'explain', '')).stdout).toBe('node-a\n:4\n');
});

it.each([
  [[], 'node-a\n:4\n'],
  [['--context', 'nobody'], ':4\n'],
  [['--context=nobody'], ':4\n'],
  [['--namespace=none'], ':4\n'],
])('completion asks the cluster that %j names', async (options, candidates) => {
  expect((await plugin.run('__complete', '--', ...options, 'explain', '')).stdout).toBe(candidates);
});

it('without the shadows of the former installation no namespace is to be named', async () => {
  await cluster.api.request('DELETE', shadows('former'));
  expect((await plugin.run('explain', 'node-a')).stdout).toMatch(/^Version: +1\.19\.0, offered 1\.21\.0$/mu);
});
