/** `support-bundle`, by users with all, some and no rights. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { renderChart } from '../../framework/chart.ts';
import { Plugin } from '../../framework/cli/plugin.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { installCrds } from '../../framework/crds.ts';

jest.setTimeout(180_000);

const NAMESPACE = 'brupop';
const CRS = '/apis/brupop.bottlerocket.aws';
const SECRET = 'hunter22-is-secret';

let cluster: ControlPlane;
let plugin: Plugin;

beforeAll(async () => {
  cluster = await startControlPlane();
  plugin = await Plugin.build(cluster);
  await installCrds(cluster);
  await cluster.api.create('/api/v1/namespaces', { metadata: { name: NAMESPACE } });
  plugin.users['admin'] = { token: cluster.adminToken };
  plugin.users['nobody'] = { token: cluster.tokens.unprivileged };
  await plugin.grant('brupop-view', NAMESPACE);
  const annotations = {
    'kubectl.kubernetes.io/last-applied-configuration': SECRET,
    'brupop.bottlerocket.aws/x': 'kept',
  };
  await cluster.api.create(`${CRS}/v1alpha1/brupopconfigs`, {
    apiVersion: 'brupop.bottlerocket.aws/v1alpha1',
    kind: 'BrupopConfig',
    metadata: { name: 'cluster', annotations },
    spec: { pauseReason: `password=${SECRET}` },
  });
  const { metadata } = await createNode(cluster, { name: 'node-a.example', labels: {}, bootID: 'a' });
  await cluster.api.create(`${CRS}/v2/namespaces/${NAMESPACE}/bottlerocketshadows`, {
    apiVersion: 'brupop.bottlerocket.aws/v2',
    kind: 'BottlerocketShadow',
    metadata: {
      name: 'brs-node-a.example',
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'node-a.example', uid: metadata?.uid }],
    },
    spec: { state: 'Idle' },
  });
  await cluster.api.create(`/api/v1/namespaces/${NAMESPACE}/configmaps`, {
    metadata: { name: 'settings' },
    data: { key: SECRET },
  });
  await cluster.api.create(`/api/v1/namespaces/${NAMESPACE}/secrets`, {
    metadata: { name: 'credentials' },
    stringData: { key: SECRET },
  });
  await cluster.api.create(`/api/v1/namespaces/${NAMESPACE}/pods`, {
    metadata: { name: 'brupop-agent-1', labels: { 'brupop.bottlerocket.aws/component': 'brupop-agent' } },
    spec: {
      nodeName: 'node-a.example',
      containers: [{ name: 'main', image: 'x', env: [{ name: 'A', value: SECRET }] }],
    },
  });
});

afterAll(async () => {
  await cluster.stop();
  plugin.remove();
});

/** The files of a bundle, by their names in it, as `tar` extracts them. */
function extracted(name: string): Map<string, string> {
  const to = join(plugin.folder, `${name}-files`);
  mkdirSync(to);
  execFileSync('tar', ['-xzf', join(plugin.folder, `${name}.tar.gz`), '-C', to]);
  const files = readdirSync(join(to, name), { recursive: true, encoding: 'utf8' });
  return new Map(
    files.flatMap((file) => (file.includes('.') ? [[file, readFileSync(join(to, name, file), 'utf8')] as const] : [])),
  );
}

it('has the objects, and no secret', async () => {
  const { code, stdout } = await plugin.run('support-bundle', '-o', 'all.tar.gz');
  expect(code).toBe(0);
  expect(stdout).toContain(join(plugin.folder, 'all.tar.gz'));
  expect(statSync(join(plugin.folder, 'all.tar.gz')).mode & 0o777).toBe(0o600);
  const files = extracted('all');
  const text = [...files.values()].join('\n');
  expect(text).not.toContain(SECRET);
  for (const part of ['objects/brupopconfigs.json', 'objects/nodes.json', 'objects/pods.json', 'versions.json'])
    expect([...files.keys()]).toContain(part);
  const { items } = JSON.parse(files.get('objects/bottlerocketshadows.json') ?? '') as { items: object[] };
  expect(items).toMatchObject([{ metadata: { name: 'brs-node-a.example' } }]);
  expect(files.get('objects/configmaps.json')).toContain('"settings"');
  expect(files.get('objects/brupopconfigs.json')).toContain('"kept"');
  expect(files.get('README.md')).toContain('Secrets are never read');
  // No kubelet runs here, so the log cannot be read, which the README says.
  expect(files.get('README.md')).toMatch(/^- logs\/brupop-agent-1.log: log: /mu);
});

it('with some rights it has what these allow, and says which are missing', async () => {
  const { code, stderr } = await plugin.run('--context', 'brupop-view', 'support-bundle', '-o', 'some.tar.gz');
  expect(code).toBe(0);
  expect(stderr).toContain('not read: objects/nodes.json: missing permission: list nodes in the cluster');
  const files = extracted('some');
  expect([...files.keys()]).toContain('objects/bottlerocketshadows.json');
  expect([...files.keys()]).not.toContain('objects/pods.json');
  expect(files.get('README.md')).toContain(
    "- objects/pods.json: the operator's pods: missing permission: list pods in",
  );
});

describe('an operator with namespaces for its agents and its checks', () => {
  const names = (files: ReadonlyMap<string, string>, part: string): string[] => {
    const { items } = JSON.parse(files.get(`objects/${part}.json`) ?? '') as {
      items: { metadata: { name: string } }[];
    };
    return items.map(({ metadata }) => metadata.name).toSorted();
  };

  beforeAll(async () => {
    for (const name of ['agents', 'checks']) await cluster.api.create('/api/v1/namespaces', { metadata: { name } });
    const values = ['--set', 'agent.namespace=agents', '--set', 'checks.namespace=checks'];
    for (const { kind, metadata, ...object } of await renderChart(cluster, '--namespace', NAMESPACE, ...values)) {
      if (kind !== 'Deployment' && kind !== 'DaemonSet') continue;
      const path = `/apis/apps/v1/namespaces/${metadata.namespace}/${kind.toLowerCase()}s`;
      await cluster.api.create(path, { kind, metadata, ...object });
    }
    const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'x' }] } };
    const ofCheck = { name: 'smoke-1', labels: { 'brupop.bottlerocket.aws/check': 'smoke' } };
    await cluster.api.create('/apis/batch/v1/namespaces/checks/jobs', { metadata: ofCheck, spec: { template } });
    await cluster.api.create('/api/v1/namespaces/agents/pods', {
      metadata: { name: 'brupop-agent-2', labels: { 'brupop.bottlerocket.aws/component': 'brupop-agent' } },
      spec: { nodeName: 'node-a.example', containers: [{ name: 'main', image: 'x' }] },
    });
    await cluster.api.create('/api/v1/namespaces/agents/events', {
      metadata: { name: 'of-the-agent' },
      involvedObject: { kind: 'Pod', namespace: 'agents', name: 'brupop-agent-2' },
      reason: 'BackOff',
    });
  });

  it('has its workloads, Jobs, Events and logs in the bundle', async () => {
    await plugin.run('support-bundle', '-o', 'namespaces.tar.gz');
    const files = extracted('namespaces');
    expect(names(files, 'deployments')).toEqual(['brupop-apiserver', 'brupop-controller']);
    expect(names(files, 'daemonsets')).toEqual(['brupop-agent']);
    expect(names(files, 'pods')).toEqual(['brupop-agent-1', 'brupop-agent-2']);
    expect(names(files, 'jobs')).toEqual(['smoke-1']);
    expect(names(files, 'events-in-agents')).toContain('of-the-agent');
    expect(files.get('README.md')).toContain('- logs/brupop-agent-2.log: log: ');
  });

  it('gives a user of its own namespace what is there, and says what is missing', async () => {
    await plugin.grant('brupop-view', NAMESPACE, 'of-the-namespace');
    const roles = `/apis/rbac.authorization.k8s.io/v1/namespaces/${NAMESPACE}`;
    const rules = [
      { apiGroups: ['apps'], resources: ['deployments', 'daemonsets'], verbs: ['list'] },
      { apiGroups: [''], resources: ['pods'], verbs: ['list'] },
    ];
    await cluster.api.create(`${roles}/roles`, { metadata: { name: 'workloads' }, rules });
    await cluster.api.create(`${roles}/rolebindings`, {
      metadata: { name: 'workloads' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'workloads' },
      subjects: [{ kind: 'ServiceAccount', name: 'of-the-namespace', namespace: NAMESPACE }],
    });
    const args = ['--context', 'of-the-namespace', 'support-bundle', '-o', 'own.tar.gz'];
    expect((await plugin.run(...args)).stderr).toContain(
      'not read: objects/pods.json: in other namespaces: missing permission: list pods in the cluster',
    );
    const files = extracted('own');
    expect(names(files, 'deployments')).toEqual(['brupop-apiserver', 'brupop-controller']);
    expect(names(files, 'pods')).toEqual(['brupop-agent-1']);
  });
});

it('without rights there is no bundle', async () => {
  const { code, stderr } = await plugin.run('--context', 'nobody', 'support-bundle', '-o', 'none.tar.gz');
  expect(stderr).toContain('nothing can be read, so there is no bundle: missing permission: list brupopconfigs');
  expect(code).toBe(1);
  expect(readdirSync(plugin.folder).filter((name) => name.startsWith('none'))).toEqual([]);
});

it('replaces names of nodes, if asked for', async () => {
  await plugin.run('support-bundle', '-o', 'names.tar.gz', '--redact-names');
  const text = [...extracted('names').values()].join('\n');
  expect(text).toContain('brs-node-1');
  expect(text).not.toContain('node-a');
});

it('does not overwrite an unfinished bundle, and names a folder that is missing', async () => {
  const { code, stderr } = await plugin.run('support-bundle', '-o', '/none/x.tar.gz');
  expect(stderr).toContain('/none/x.tar.gz.partial cannot be written');
  expect(code).toBe(1);
  expect(existsSync('/none')).toBe(false);
});
