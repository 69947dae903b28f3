/** The plugin for a user whose rights end at the namespace of the operator. */
import { jest } from '@jest/globals';
import { RELEASE } from '../../../packages/shared/src/runtime/build.ts';
import { Plugin } from '../../framework/cli/plugin.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { installCrds } from '../../framework/crds.ts';

jest.setTimeout(180_000);

const GROUP = 'brupop.bottlerocket.aws';
const CRS = `/apis/${GROUP}`;
const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const NAMESPACE = 'brupop';
const SHADOWS = `${CRS}/v2/namespaces/${NAMESPACE}/bottlerocketshadows`;

let cluster: ControlPlane;
let plugin: Plugin;

beforeAll(async () => {
  cluster = await startControlPlane();
  plugin = await Plugin.build(cluster);
  plugin.env['COLUMNS'] = '300';
  await installCrds(cluster);
  await cluster.api.create(`${CRS}/v1alpha1/brupopconfigs`, {
    apiVersion: `${GROUP}/v1alpha1`,
    kind: 'BrupopConfig',
    metadata: { name: 'cluster' },
    spec: {},
  });
  await cluster.api.patch(`${CRS}/v1alpha1/brupopconfigs/cluster/status`, {
    status: { observedGeneration: 1, release: RELEASE },
  });
  await cluster.api.create('/api/v1/namespaces', { metadata: { name: NAMESPACE } });
  await createMember('node-a', 0);
  await createMember('node-b', 3);
  await createUser('of-the-namespace', []);
  await createUser('with-the-configuration', [
    { apiGroups: [GROUP], resources: ['brupopconfigs', 'bottlerocketnodegroups'], verbs: ['get', 'list'] },
  ]);
});

afterAll(async () => {
  await cluster.stop();
  plugin.remove();
});

/** With its shadow and the pod of its agent. */
async function createMember(name: string, crashes: number): Promise<void> {
  const { metadata } = await createNode(cluster, { name, labels: {}, bootID: name });
  await cluster.api.create(SHADOWS, {
    apiVersion: `${GROUP}/v2`,
    kind: 'BottlerocketShadow',
    metadata: { name: `brs-${name}`, ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name, uid: metadata?.uid }] },
    spec: { state: 'Idle' },
  });
  const condition = { type: 'Progressing', status: 'False', reason: 'Backoff', message: 'm' };
  const reported = { current_state: 'Idle', current_version: '1.19.0', target_version: '1.21.0', bootID: name };
  await cluster.api.patch(`${SHADOWS}/brs-${name}/status`, {
    status: {
      ...reported,
      crash_count: crashes,
      observedGeneration: 1,
      conditions: [{ ...condition, lastTransitionTime: '2026-11-28T11:00:00Z' }],
    },
  });
  await cluster.api.create(`/api/v1/namespaces/${NAMESPACE}/pods`, {
    metadata: { name: `brupop-agent-${name}`, labels: { [`${GROUP}/component`]: 'brupop-agent' } },
    spec: { nodeName: name, containers: [{ name: 'main', image: 'x' }] },
  });
}

/** @param clusterRules - of the user's rights in the cluster, besides those in the namespace */
async function createUser(name: string, clusterRules: readonly object[]): Promise<void> {
  const accounts = `/api/v1/namespaces/${NAMESPACE}/serviceaccounts`;
  await cluster.api.create(accounts, { metadata: { name } });
  const rules = [
    { apiGroups: [GROUP], resources: ['bottlerocketshadows'], verbs: ['get', 'list', 'patch'] },
    { apiGroups: [''], resources: ['pods', 'pods/log'], verbs: ['get', 'list'] },
  ];
  const subjects = [{ kind: 'ServiceAccount', name, namespace: NAMESPACE }];
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', name };
  const metadata = { name };
  const own = `${RBAC}/namespaces/${NAMESPACE}`;
  await cluster.api.create(`${own}/roles`, { metadata, rules });
  await cluster.api.create(`${own}/rolebindings`, { metadata, roleRef: { ...roleRef, kind: 'Role' }, subjects });
  await cluster.api.create(`${RBAC}/clusterroles`, { metadata, rules: clusterRules });
  await cluster.api.create(`${RBAC}/clusterrolebindings`, {
    metadata,
    roleRef: { ...roleRef, kind: 'ClusterRole' },
    subjects,
  });
  const { status } = await cluster.api.create<{ status: { token: string } }>(`${accounts}/${name}/token`, { spec: {} });
  plugin.users[name] = { token: status.token };
}

it('a bundle has the shadows of the namespace, and says that those of others are missing', async () => {
  const args = ['--context', 'with-the-configuration', 'support-bundle', '-n', NAMESPACE, '-o', 'own.tar.gz'];
  const { code, stderr } = await plugin.run(...args);
  expect(code).toBe(0);
  expect(stderr.match(/^not read: objects\/bottlerocketshadows.*$/gmu)).toEqual([
    expect.stringContaining('shadows.json: in other namespaces: missing permission: list bottlerocketshadows'),
  ]);
});

it('a bundle has the log of the agent whose node has failed first, also without a right to read the configuration', async () => {
  const args = [
    '--context',
    'of-the-namespace',
    'support-bundle',
    '-n',
    NAMESPACE,
    '--agents',
    '1',
    '-o',
    'one.tar.gz',
  ];
  // No kubelet runs here, so the log cannot be read.
  expect((await plugin.run(...args)).stderr.match(/logs\/[\w-]+\.log/gu)).toEqual(['logs/brupop-agent-node-b.log']);
});

it('an error says that the namespace can be named', async () => {
  const retry = ['--context', 'with-the-configuration', 'retry', 'node-b'];
  expect((await plugin.run(...retry)).stderr).toBe(
    `error: missing permission: list bottlerocketshadows.${GROUP} in the cluster\n` +
      'The ClusterRole brupop-view has it, and so have view, edit and admin. ' +
      'If you have it in the namespace of the operator, name that with --namespace.\n',
  );
  expect((await plugin.run(...retry, '-n', NAMESPACE)).stdout).toContain('node-b retries 1.21.0');
});
