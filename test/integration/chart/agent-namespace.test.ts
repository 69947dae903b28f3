import { jest } from '@jest/globals';
import type { V1ConfigMap } from '@kubernetes/client-node';
import { AGENT, APISERVER, CONTROLLER } from '@brupop/shared/api/names';
import { find, helm, IMAGE, podOf, releaseNamespace, renderChart, type Rendered } from '../../framework/chart.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { accountOfController } from '../../framework/controller/installation.ts';
import { startReplica } from '../../framework/controller/replica.ts';
import { chartDir } from '../../framework/crds.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

const AGENTS = 'brupop-agents';
const VALUES = ['--set', `agent.namespace=${AGENTS}`];

let cluster: ControlPlane;
let objects: Rendered[] = [];

async function createNamespace(name: string, level: string): Promise<void> {
  const labels = { 'pod-security.kubernetes.io/enforce': level };
  await cluster.api.create('/api/v1/namespaces', { metadata: { name, labels } });
}

beforeAll(async () => {
  cluster = await startControlPlane();
  await createNamespace(AGENTS, 'privileged');
  await createNamespace(releaseNamespace, 'restricted');
  await helm(cluster, 'install', 'brupop', chartDir, ...IMAGE, '--namespace', releaseNamespace, ...VALUES);
  objects = await renderChart(cluster, ...VALUES, '--set', 'networkPolicy.enabled=true');
});

afterAll(async () => await cluster.stop());

const objectsIn = (namespace: string): string[] =>
  objects
    .filter(({ metadata }) => metadata.namespace === namespace)
    .map(({ kind, metadata }) => `${kind} ${metadata.name}`)
    .toSorted();

it('has the objects of the agents in it, and what the controller does there', () => {
  expect(objectsIn(AGENTS)).toEqual([
    'DaemonSet brupop-agent',
    'NetworkPolicy brupop-agent',
    'NetworkPolicy brupop-test',
    'Pod brupop-test',
    'Role brupop-controller-agents',
    'RoleBinding brupop-controller-agents',
    'ServiceAccount brupop-agent',
  ]);
  expect(objectsIn(releaseNamespace).filter((name) => name.includes('agent'))).toEqual([]);
});

it('leaves only the namespace of the agents privileged', async () => {
  const create = async (kind: string, name: string, namespace: string): Promise<unknown> => {
    const { labels, annotations, pod } = podOf(find(objects, kind, name));
    const body = { metadata: { generateName: 'try-', labels, annotations }, spec: pod };
    return await cluster.api.create(`/api/v1/namespaces/${namespace}/pods?dryRun=All`, body);
  };
  await create('Deployment', CONTROLLER, releaseNamespace);
  await create('Deployment', APISERVER, releaseNamespace);
  await create('DaemonSet', AGENT, AGENTS);
  const account = { metadata: { name: AGENT } };
  await cluster.api.create(`/api/v1/namespaces/${releaseNamespace}/serviceaccounts`, account);
  await expect(create('DaemonSet', AGENT, releaseNamespace)).rejects.toThrow(
    'violates PodSecurity "restricted:latest"',
  );
});

it('is where the agents of a controller and an API server are', () => {
  const env = (kind: string, name: string): Record<string, string | undefined> =>
    Object.fromEntries((podOf(find(objects, kind, name)).container.env ?? []).map((one) => [one.name, one.value]));
  for (const name of [CONTROLLER, APISERVER]) expect(env('Deployment', name)['AGENT_NAMESPACE']).toBe(AGENTS);
  expect(env('DaemonSet', AGENT)).toMatchObject({
    APISERVER_HOST: `${APISERVER}.${releaseNamespace}.svc`,
    APISERVER_PORT: '443',
    APISERVER_SERVER_NAME: `${APISERVER}.${releaseNamespace}.svc`,
  });
});

it('gets the authority from the controller, with the rights of the chart, and the release gets the certificate', async () => {
  const account = await accountOfController(cluster);
  const controller = await startReplica(cluster, account, { agentNamespace: AGENTS, tlsMode: 'self' });
  const core = (namespace: string): string => `/api/v1/namespaces/${namespace}`;
  try {
    const { data } = await eventually(
      async () => await cluster.api.get<V1ConfigMap>(`${core(AGENTS)}/configmaps/brupop-ca`),
    );
    expect(data?.['ca.crt']).toContain('BEGIN CERTIFICATE');
    await eventually(async () => await cluster.api.get(`${core(releaseNamespace)}/secrets/brupop-apiserver-tls`));
    await expect(cluster.api.get(`${core(releaseNamespace)}/configmaps/brupop-ca`)).rejects.toThrow('404');
    await expect(cluster.api.get(`${core(AGENTS)}/secrets/brupop-ca`)).rejects.toThrow('404');
    expect(controller.lines.filter((line) => /"level":"error"/u.test(line))).toEqual([]);
  } finally {
    await controller.stop();
  }
});
