/**
 * What root on one managed node can do with the credentials of its kubelet, against the real Node
 * authorizer and NodeRestriction, and with the chart's own objects.
 */
import { jest } from '@jest/globals';
import type { V1Node, V1Pod, V1PodList } from '@kubernetes/client-node';
import { readNode } from '../../../packages/controller/src/cluster/node.ts';
import {
  AGENT,
  APISERVER,
  COMPONENT_LABEL,
  CONTROLLER,
  MANAGED_LABEL,
  MANAGED_LABEL_VALUE,
  TOKEN_AUDIENCE,
} from '../../../packages/shared/src/api/names.ts';
import { shadowPath } from '../../framework/apiserver/shadow.ts';
import { makeAuthority } from '../../framework/certificates.ts';
import { ApiError, type Api } from '../../framework/control-plane/api.ts';
import { LEASES } from '../../framework/control-plane/node-leases.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { eventually } from '../../framework/eventually.ts';
import { mirrorPod, PLACEMENT, PLACEMENT_LABELS } from '../../framework/fleet/compromised-node.ts';
import { Operator } from '../../framework/fleet/operator.ts';

jest.setTimeout(120_000);

const NODE = 'compromised';
const NAMESPACE = 'brupop-bottlerocket-aws';
const PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;
const SECRETS = ['brupop-apiserver-tls', 'brupop-ca'];

let cluster: ControlPlane;
let kubelet: Api;
/** The agent's pods on the compromised node and on another one, and an apiserver's on a third. */
let ownAgent: V1Pod;
let otherAgent: V1Pod;
let apiserver: V1Pod;

beforeAll(async () => {
  cluster = await startControlPlane();
  const managed = { [MANAGED_LABEL]: MANAGED_LABEL_VALUE };
  await createNode(cluster, { name: NODE, labels: managed });
  await createNode(cluster, { name: 'other', labels: managed });
  await createNode(cluster, { name: 'apart', labels: PLACEMENT_LABELS });
  await new Operator(cluster, NAMESPACE).install(PLACEMENT);
  await createWhatIsIssued();
  kubelet = cluster.api.as(cluster.tokens['kubelet-of-compromised']);
  ownAgent = await podOn(NODE, AGENT);
  otherAgent = await podOn('other', AGENT);
  apiserver = await podOn('apart', APISERVER);
});

afterAll(async () => await cluster.stop());

/** No controller runs here. */
async function createWhatIsIssued(): Promise<void> {
  const path = `/api/v1/namespaces/${NAMESPACE}`;
  const create = async (kind: string, name: string, contents: object): Promise<void> => {
    await cluster.api.create(`${path}/${kind}`, { metadata: { name }, ...contents }).catch(unlessExists);
  };
  for (const name of SECRETS) await create('secrets', name, { stringData: { 'tls.crt': 'CERT', 'tls.key': 'KEY' } });
  await create('configmaps', 'brupop-ca', { data: { 'ca.crt': makeAuthority('test').caCert } });
}

function unlessExists(error: unknown): void {
  if (!(error instanceof ApiError && error.status === 409)) throw error;
}

/** A pod of the component that the scheduler has bound to the node. */
async function podOn(node: string, component: string): Promise<V1Pod> {
  const labelSelector = `${COMPONENT_LABEL}=${component}`;
  const query = new URLSearchParams({ labelSelector, fieldSelector: `spec.nodeName=${node}` });
  return await eventually(async () => {
    const [pod] = (await cluster.api.get<V1PodList>(`${PODS}?${query.toString()}`)).items;
    if (pod === undefined) throw new Error(`there is no pod of ${component} on ${node}`);
    return pod;
  });
}

/** The status of the response: 200 when it was allowed. */
async function statusOf(call: Promise<unknown>): Promise<number> {
  return await call.then(
    () => 200,
    (error: unknown) => {
      if (error instanceof ApiError) return error.status;
      throw error;
    },
  );
}

async function get(path: string): Promise<number> {
  return await statusOf(kubelet.get(path));
}

interface TokenRequest {
  readonly account: string;
  readonly pod?: V1Pod;
  /** None: the Kubernetes API. */
  readonly audiences?: readonly string[];
}

async function requestToken({ account, pod, audiences = [TOKEN_AUDIENCE] }: TokenRequest): Promise<number> {
  const { name, uid } = pod?.metadata ?? {};
  const boundObjectRef = { apiVersion: 'v1', kind: 'Pod', name, uid };
  const spec = { audiences, ...(pod && { boundObjectRef }) };
  return await statusOf(kubelet.create(`/api/v1/namespaces/${NAMESPACE}/serviceaccounts/${account}/token`, { spec }));
}

async function create(pod: object): Promise<number> {
  return await statusOf(kubelet.create(PODS, pod));
}

async function mirror(spec: object = {}): Promise<V1Pod> {
  return mirrorPod(await cluster.api.get<V1Node>(`/api/v1/nodes/${NODE}`), { namespace: NAMESPACE, spec });
}

async function patchNode(node: string, body: object): Promise<number> {
  return await statusOf(kubelet.patch(`/api/v1/nodes/${node}`, body));
}

describe('the kubelet of a managed node', () => {
  it('reads the certificate of the authority, which its agent mounts, and no key with it', async () => {
    await eventually(async () => {
      const { data } = await kubelet.get<{ data: object }>(`/api/v1/namespaces/${NAMESPACE}/configmaps/brupop-ca`);
      expect(JSON.stringify(data)).toContain('BEGIN CERTIFICATE');
      expect(JSON.stringify(data)).not.toContain('PRIVATE KEY');
    });
  });

  it.each(SECRETS)('cannot read the private key in the Secret %s, by get, list or watch', async (name) => {
    const path = `/api/v1/namespaces/${NAMESPACE}/secrets`;
    const named = `fieldSelector=metadata.name%3D${name}`;
    expect(await statusOf(cluster.api.get(`${path}/${name}`))).toBe(200);
    const ways = [`${path}/${name}`, `${path}?${named}`, `${path}?watch=true&${named}`, path, '/api/v1/secrets'];
    expect(await Promise.all(ways.map(get))).toEqual(ways.map(() => 403));
  });

  it.each([APISERVER, CONTROLLER])('gets no token of the account %s, whichever pod it names', async (account) => {
    const pods = [undefined, ownAgent, otherAgent, apiserver];
    const tried = pods.flatMap((pod) =>
      [[], [TOKEN_AUDIENCE]].map(async (audiences) => await requestToken({ account, audiences, ...(pod && { pod }) })),
    );
    expect(await Promise.all(tried)).toEqual(tried.map(() => 403));
  });

  it('gets tokens of its own agent only, and since Kubernetes 1.33 only for the operator’s API server', async () => {
    const { minor } = await cluster.api.get<{ minor: string }>('/version');
    const forOthers = Number(minor) >= 33 ? 403 : 200;
    await eventually(async () => expect(await requestToken({ account: AGENT, pod: ownAgent })).toBe(200));
    expect(await requestToken({ account: AGENT, pod: otherAgent })).toBe(403);
    for (const audiences of [[], [cluster.issuer]])
      expect(await requestToken({ account: AGENT, pod: ownAgent, audiences })).toBe(forOthers);
  });

  it.each<readonly [string, object]>([
    ['mounts the Secret', { volumes: [{ name: 'tls', secret: { secretName: 'brupop-apiserver-tls' } }] }],
    [
      'projects the Secret',
      { volumes: [{ name: 'tls', projected: { sources: [{ secret: { name: 'brupop-apiserver-tls' } }] } }] },
    ],
    ['has the account of the apiserver', { serviceAccountName: APISERVER }],
    [
      'projects a token',
      { volumes: [{ name: 'token', projected: { sources: [{ serviceAccountToken: { path: 'token' } }] } }] },
    ],
    ['is on another node', { nodeName: 'other' }],
  ])('cannot create a mirror pod that %s', async (_what, spec) => {
    expect(await create(await mirror(spec))).toBeGreaterThanOrEqual(400);
  });

  it('cannot create a mirror pod with the labels of the operator in its namespace, by the admission policy', async () => {
    // kube-apiserver takes a moment until it applies a new policy.
    await eventually(async () => {
      const tried = kubelet.create(`${PODS}?dryRun=All`, await mirror());
      await expect(tried).rejects.toThrow('the operator has no mirror pods');
    });
  });

  it('could create one without that policy', async () => {
    const path = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings';
    const binding = await cluster.api.get<{ metadata: object; spec: object }>(`${path}/brupop-mirror-pods`);
    await cluster.api.delete(`${path}/brupop-mirror-pods`);
    const pod = await mirror();
    await eventually(async () => expect(await create(pod)).toBe(200));
    await cluster.api.delete(`${PODS}/${pod.metadata?.name}`, { gracePeriodSeconds: 0 });
    const { spec } = binding;
    await cluster.api.create(path, { metadata: { name: 'brupop-mirror-pods' }, spec });
    await eventually(async () => expect(await create(await mirror())).toBe(403));
  });

  it('cannot create a pod that is no mirror pod', async () => {
    const { metadata, ...rest } = await mirror();
    const { annotations: _, ...plain } = metadata ?? {};
    expect(await create({ metadata: plain, ...rest })).toBe(403);
  });

  it('cannot delete, relabel or mark not ready the pods of other nodes', async () => {
    const paths = [otherAgent, apiserver].map(({ metadata }) => `${PODS}/${metadata?.name}`);
    const conditions = [{ type: 'Ready', status: 'False' }];
    const tried = paths.flatMap((path) => [
      statusOf(kubelet.request('DELETE', path)),
      statusOf(kubelet.patch(path, { metadata: { labels: { [COMPONENT_LABEL]: null } } })),
      statusOf(kubelet.patch(`${path}/status`, { status: { conditions } })),
      statusOf(kubelet.create(`${path}/eviction`, { metadata: { name: path.split('/').at(-1) } })),
    ]);
    expect(await Promise.all(tried)).toEqual(tried.map(() => 403));
  });

  it('cannot give a pod of its own the label of the apiserver', async () => {
    const path = `${PODS}/${ownAgent.metadata?.name}`;
    const labels = { [COMPONENT_LABEL]: APISERVER };
    expect(await statusOf(kubelet.patch(path, { metadata: { labels } }))).toBe(403);
    expect(await statusOf(kubelet.patch(`${path}/status`, { metadata: { labels } }))).toBe(403);
  });

  it('cannot read or write shadows and the configuration', async () => {
    const configs = '/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs';
    const paths = [shadowPath(NAMESPACE), shadowPath(NAMESPACE, NODE), configs, `${configs}/cluster`];
    expect(await Promise.all(paths.map(get))).toEqual(paths.map(() => 403));
    const changed = statusOf(kubelet.patch(shadowPath(NAMESPACE, NODE), { spec: { state: 'RebootedIntoUpdate' } }));
    expect(await changed).toBe(403);
  });

  it('cannot attract API servers by the label that keeps them off managed nodes, nor remove a taint', async () => {
    expect(await patchNode(NODE, { metadata: { labels: PLACEMENT_LABELS } })).toBe(403);
    const taints = [{ key: 'dedicated', effect: 'NoSchedule' }];
    await cluster.api.patch(`/api/v1/nodes/${NODE}`, { spec: { taints } });
    expect(await patchNode(NODE, { spec: { taints: [] } })).toBe(403);
    expect(await patchNode('other', { metadata: { labels: { any: 'label' } } })).toBe(403);
  });

  it('can remove its own managed label, so that label must not be what keeps API servers away', async () => {
    expect(await patchNode(NODE, { metadata: { labels: { [MANAGED_LABEL]: null } } })).toBe(200);
    expect(await patchNode(NODE, { metadata: { labels: { [MANAGED_LABEL]: MANAGED_LABEL_VALUE } } })).toBe(200);
  });

  it('can add more labels than the controller keeps, which still knows those that it cannot set', async () => {
    const pool = { 'node-restriction.kubernetes.io/pool': 'untrusted' };
    await cluster.api.patch(`/api/v1/nodes/${NODE}`, { metadata: { labels: pool } });
    const many = Array.from({ length: 1_000 }, (_, i) => `example.com/${i}`);
    const added = Object.fromEntries(many.map((key) => [key, '7'.repeat(60)]));
    expect(await patchNode(NODE, { metadata: { labels: added } })).toBe(200);
    const { metadata, isLarge } = readNode(await cluster.api.get<V1Node>(`/api/v1/nodes/${NODE}`));
    expect(isLarge).toBe(true);
    expect(metadata.labels).toMatchObject(pool);
    const removed = Object.fromEntries([...many, ...Object.keys(pool)].map((key) => [key, null]));
    expect(await patchNode(NODE, { metadata: { labels: removed } })).toBe(403);
    await cluster.api.patch(`/api/v1/nodes/${NODE}`, { metadata: { labels: removed } });
  });

  it('falls silent only itself, and reaches no object that the operator scales', async () => {
    const silent = { spec: { renewTime: '2026-01-02T03:04:05.000000Z' } };
    const zone = { metadata: { labels: { 'topology.kubernetes.io/zone': 'made-up' } } };
    for (const [node, status] of [
      [NODE, 200],
      ['other', 403],
    ] as const) {
      await eventually(async () => expect(await statusOf(cluster.api.get(`${LEASES}/${node}`))).toBe(200));
      expect(await statusOf(kubelet.patch(`${LEASES}/${node}?dryRun=All`, silent))).toBe(status);
      expect(await patchNode(`${node}?dryRun=All`, zone)).toBe(status);
    }
    expect(await statusOf(kubelet.create('/api/v1/nodes', { metadata: { name: 'made-up' } }))).toBe(403);
    const target = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/${CONTROLLER}`;
    const down = { spec: { replicas: 0 } };
    const tried = [get(target), ...[target, `${target}/scale`].map((path) => statusOf(kubelet.patch(path, down)))];
    expect(await Promise.all(tried)).toEqual(tried.map(() => 403));
  });

  it('reads the key and gets a token of the apiserver as soon as an API server runs on it', async () => {
    const { spec, metadata } = apiserver;
    const { nodeSelector: _, ...anywhere } = spec ?? {};
    const pod = await cluster.api.create<V1Pod>(PODS, {
      metadata: { name: 'misplaced', labels: metadata?.labels },
      spec: { ...anywhere, nodeName: NODE },
    });
    await eventually(async () => {
      expect(await get(`/api/v1/namespaces/${NAMESPACE}/secrets/brupop-apiserver-tls`)).toBe(200);
      expect(await requestToken({ account: APISERVER, pod, audiences: [] })).toBe(200);
    });
    expect(await get(`/api/v1/namespaces/${NAMESPACE}/secrets/brupop-ca`)).toBe(403);
    await cluster.api.delete(`${PODS}/misplaced`, { gracePeriodSeconds: 0 });
    await eventually(async () => {
      expect(await get(`/api/v1/namespaces/${NAMESPACE}/secrets/brupop-apiserver-tls`)).toBe(403);
    });
  });
});
