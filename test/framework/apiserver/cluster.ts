import { randomBytes } from 'node:crypto';
import { find, renderChart } from '../chart.ts';
import type { Connection } from '../control-plane/connection.ts';
import { createNamespace } from '../control-plane/namespaces.ts';
import { createNode } from '../control-plane/nodes.ts';
import { installCrds } from '../crds.ts';

/** A namespace with the chart's service accounts and exactly its permissions for the apiserver. */
export interface Installation {
  readonly namespace: string;
  /** Of the apiserver's service account. */
  readonly token: string;
  /** Of the cluster role. */
  readonly rules: readonly Rule[];
}

interface Rule {
  readonly resources: readonly string[];
}

export interface Agent {
  readonly node: string;
  readonly pod: string;
  readonly podUID: string;
  readonly token: string;
}

/**
 * Creates a namespace for a suite.
 * @param values - of the chart, such as `drain.allowForce=true`; they decide what is granted
 */
export async function installNamespace(cluster: Connection, values: readonly string[] = []): Promise<Installation> {
  await installCrds(cluster);
  const namespace = await createNamespace(cluster, 'apiserver');
  for (const name of ['brupop-agent', 'brupop-apiserver', 'brupop-other'])
    await cluster.api.create(`/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name } });
  await createWorkload(cluster, namespace, 'DaemonSet', 'brupop-agent');
  const rules = await grantAsTheChartDoes(cluster, namespace, values);
  const { status } = await requestToken(cluster, namespace, 'brupop-apiserver', { audiences: [cluster.issuer] });
  return { namespace, token: status.token, rules };
}

async function grantAsTheChartDoes(
  cluster: Connection,
  namespace: string,
  values: readonly string[],
): Promise<readonly Rule[]> {
  const chart = await renderChart(cluster, ...values.flatMap((value) => ['--set', value]));
  const rules = (kind: string): readonly Rule[] =>
    (find(chart, kind, 'brupop-apiserver') as unknown as { rules: readonly Rule[] }).rules;
  const subjects = [{ kind: 'ServiceAccount', name: 'brupop-apiserver', namespace }];
  const name = `brupop-apiserver-${namespace}`;
  const base = '/apis/rbac.authorization.k8s.io/v1';
  const apiGroup = 'rbac.authorization.k8s.io';
  const local = `${base}/namespaces/${namespace}`;
  await cluster.api.create(`${base}/clusterroles`, { metadata: { name }, rules: rules('ClusterRole') });
  await cluster.api.create(`${base}/clusterrolebindings`, {
    metadata: { name },
    roleRef: { apiGroup, kind: 'ClusterRole', name },
    subjects,
  });
  await cluster.api.create(`${local}/roles`, { metadata: { name }, rules: rules('Role') });
  await cluster.api.create(`${local}/rolebindings`, {
    metadata: { name },
    roleRef: { apiGroup, kind: 'Role', name },
    subjects,
  });
  return rules('ClusterRole');
}

const WORKLOADS = { DaemonSet: 'daemonsets', ReplicaSet: 'replicasets' } as const;

/**
 * Creates a workload for tests that make its pods themselves. A finalizer keeps it while it is being
 * deleted: its controller does nothing then, and the garbage collector keeps its pods.
 */
export async function createWorkload(
  cluster: Connection,
  namespace: string,
  kind: keyof typeof WORKLOADS,
  name: string,
): Promise<void> {
  const path = `/apis/apps/v1/namespaces/${namespace}/${WORKLOADS[kind]}`;
  const labels = { workload: name };
  const spec = { nodeSelector: { workload: 'nowhere' }, containers: [{ name: 'main', image: 'main' }] };
  await cluster.api.create(path, {
    metadata: { name, finalizers: ['brupop.bottlerocket.aws/test'] },
    spec: {
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec },
      ...(kind === 'ReplicaSet' && { replicas: 0 }),
    },
  });
  await cluster.api.delete(`${path}/${name}`);
}

/** What a pod of this workload has as its controller. */
export async function ownerReference(
  cluster: Connection,
  namespace: string,
  kind: keyof typeof WORKLOADS,
  name: string,
): Promise<object> {
  const path = `/apis/apps/v1/namespaces/${namespace}/${WORKLOADS[kind]}/${name}`;
  const { metadata } = await cluster.api.get<{ metadata: { uid: string } }>(path);
  return { apiVersion: 'apps/v1', kind, name, uid: metadata.uid, controller: true };
}

export interface TokenSpec {
  readonly audiences: readonly string[];
  readonly expirationSeconds?: number;
  readonly boundObjectRef?: object;
}

/** A token of a service account, as a kubelet asks for it. */
export async function requestToken(
  cluster: Connection,
  namespace: string,
  account: string,
  spec: TokenSpec,
): Promise<{ status: { token: string } }> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
  return await cluster.api.create(path, { spec });
}

export function uniqueName(prefix: string): string {
  return `${prefix}-${randomBytes(4).toString('hex')}`;
}

/** A managed node with an agent's pod on it and the token that a kubelet would project into it. */
export async function createAgent(
  cluster: Connection,
  namespace: string,
  labels: Readonly<Record<string, string>> = { 'bottlerocket.aws/updater-interface-version': '2.0.0' },
): Promise<Agent> {
  const node = uniqueName('node');
  await createNode(cluster, { name: node, labels });
  return await createAgentPod(cluster, namespace, node);
}

/** An agent's pod on a node. */
export async function createAgentPod(
  cluster: Connection,
  namespace: string,
  node: string,
  pod = uniqueName('brupop-agent'),
  more: { readonly ownerReferences?: readonly object[] } = {},
): Promise<Agent> {
  const path = `/api/v1/namespaces/${namespace}/pods`;
  const owner = await ownerReference(cluster, namespace, 'DaemonSet', 'brupop-agent');
  const { metadata } = await cluster.api.create<{ metadata: { uid: string } }>(path, {
    metadata: {
      name: pod,
      labels: { 'brupop.bottlerocket.aws/component': 'brupop-agent' },
      ownerReferences: more.ownerReferences ?? [owner],
    },
    spec: {
      nodeName: node,
      serviceAccountName: 'brupop-agent',
      automountServiceAccountToken: false,
      containers: [{ name: 'agent', image: 'agent' }],
      tolerations: [{ operator: 'Exists' }],
    },
  });
  const token = await agentToken(cluster, namespace, { pod, podUID: metadata.uid });
  return { node, pod, podUID: metadata.uid, token };
}

/** What a kubelet reports when the pod of an agent has its address. */
export async function reportAddress(
  cluster: Connection,
  namespace: string,
  { pod }: Pick<Agent, 'pod'>,
  ip: string,
): Promise<void> {
  const status = { phase: 'Running', podIP: ip, podIPs: [{ ip }] };
  await cluster.api.patch(`/api/v1/namespaces/${namespace}/pods/${pod}/status`, { status });
}

/** A fresh token for an agent's pod. */
export async function agentToken(
  cluster: Connection,
  namespace: string,
  { pod, podUID }: Pick<Agent, 'pod' | 'podUID'>,
  spec: Partial<TokenSpec> = {},
): Promise<string> {
  const boundObjectRef = { apiVersion: 'v1', kind: 'Pod', name: pod, uid: podUID };
  const audiences = ['brupop-apiserver'];
  const { status } = await requestToken(cluster, namespace, 'brupop-agent', { audiences, boundObjectRef, ...spec });
  return status.token;
}
