import { randomInt, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Node, V1PodList, V1PodStatus } from '@kubernetes/client-node';
import { ApiError } from './api.ts';
import type { Connection } from './connection.ts';
import { kwokNodeAnnotation, ourPodLabel, rebootingAnnotation } from './stages.ts';

export interface NodeOptions {
  name: string;
  /** Value of `topology.kubernetes.io/zone`. */
  zone?: string;
  labels?: Readonly<Record<string, string>>;
  annotations?: Readonly<Record<string, string>>;
  /** Default: a fresh UUID. */
  bootID?: string;
  /** Bottlerocket version that the node reports in its osImage; default 1.20.0. */
  version?: string;
}

type Cluster = Pick<Connection, 'api'>;

const strategicMerge = 'application/strategic-merge-patch+json';

/** The `status.nodeInfo.osImage` of a Bottlerocket node. */
export function osImageOf(version: string): string {
  return `Bottlerocket OS ${version} (aws-k8s-1.36)`;
}

/** Creates a node that KWOK simulates, waits until it is Ready (at most 20 s) and returns it. */
export async function createNode(cluster: Cluster, options: NodeOptions): Promise<V1Node> {
  const { name } = options;
  const zone = options.zone === undefined ? {} : { 'topology.kubernetes.io/zone': options.zone };
  const address = `10.${64 + randomInt(64)}.${randomInt(256)}.${1 + randomInt(254)}`;
  await cluster.api.create('/api/v1/nodes', {
    metadata: {
      name,
      annotations: { [kwokNodeAnnotation]: 'fake', ...options.annotations },
      labels: {
        'kubernetes.io/hostname': name,
        'kubernetes.io/os': 'linux',
        'kubernetes.io/arch': 'amd64',
        ...zone,
        ...options.labels,
      },
    },
    spec: { providerID: `test:///${name}` },
    status: {
      addresses: [
        { type: 'InternalIP', address },
        { type: 'Hostname', address: name },
      ],
      nodeInfo: {
        architecture: 'amd64',
        operatingSystem: 'linux',
        bootID: options.bootID ?? randomUUID(),
        osImage: osImageOf(options.version ?? '1.20.0'),
        kubeletVersion: 'v1.36.3',
        containerRuntimeVersion: 'containerd://2.1.5+bottlerocket',
        kernelVersion: '6.12.46',
      },
    },
  });
  return await waitUntilReady(cluster, name);
}

async function waitUntilReady(cluster: Cluster, name: string): Promise<V1Node> {
  const deadline = Date.now() + 20_000;
  for (;;) {
    const node = await cluster.api.get<V1Node>(`/api/v1/nodes/${name}`);
    if (node.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True')) return node;
    if (Date.now() > deadline)
      throw new Error(`node ${name} is not Ready after 20 s; its status: ${JSON.stringify(node.status)}`);
    await sleep(20);
  }
}

/**
 * Sets Ready to False for a node and its pods, as after the shutdown of its host, until
 * `setNodeBooted`.
 */
export async function setNodeRebooting(cluster: Cluster, name: string): Promise<void> {
  await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata: { annotations: { [rebootingAnnotation]: 'true' } } });
  await patchNodeStatus(cluster, name, { conditions: [ready('False', 'KubeletNotReady', 'node is shutting down')] });
  await patchPods(cluster, name, () => ({ conditions: [podReady('False')] }));
}

/** Sets Ready to Unknown, as kube-controller-manager does when the kubelet has stopped reporting, until `setNodeBooted`. */
export async function setNodeUnreachable(cluster: Cluster, name: string, since = new Date()): Promise<void> {
  await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata: { annotations: { [rebootingAnnotation]: 'true' } } });
  const condition = ready('Unknown', 'NodeStatusUnknown', 'Kubelet stopped posting node status.');
  await patchNodeStatus(cluster, name, { conditions: [{ ...condition, lastTransitionTime: since.toISOString() }] });
}

/** Sets Ready to True, a new boot ID and restarted pods, as after the boot of a host. */
export async function setNodeBooted(cluster: Cluster, name: string, bootID: string, osImage?: string): Promise<void> {
  const nodeInfo = osImage === undefined ? { bootID } : { bootID, osImage };
  await patchNodeStatus(cluster, name, {
    nodeInfo,
    conditions: [ready('True', 'KubeletReady', 'kubelet is posting ready status')],
  });
  await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata: { annotations: { [rebootingAnnotation]: null } } });
  await patchPods(cluster, name, restarted);
}

/** Sets a new boot ID, but leaves Ready False, as after a boot whose kubelet does not get ready. */
export async function setNodeBootedNotReady(
  cluster: Cluster,
  name: string,
  bootID: string,
  osImage: string,
): Promise<void> {
  const conditions = [ready('False', 'KubeletNotReady', 'PLEG is not healthy')];
  await patchNodeStatus(cluster, name, { nodeInfo: { bootID, osImage }, conditions });
}

async function patchNodeStatus(cluster: Cluster, name: string, status: object): Promise<void> {
  await cluster.api.request('PATCH', `/api/v1/nodes/${name}/status`, { status }, strategicMerge);
}

function ready(status: 'True' | 'False' | 'Unknown', reason: string, message: string): object {
  const now = new Date().toISOString();
  return { type: 'Ready', status, reason, message, lastHeartbeatTime: now, lastTransitionTime: now };
}

/**
 * Patches the status of the node's running pods, except the operator's, which belong to the
 * stand-in kubelet.
 */
async function patchPods(cluster: Cluster, node: string, change: (status: V1PodStatus) => object): Promise<void> {
  const query = new URLSearchParams({
    fieldSelector: `spec.nodeName=${node},status.phase=Running`,
    labelSelector: `!${ourPodLabel}`,
  });
  const { items } = await cluster.api.get<V1PodList>(`/api/v1/pods?${query.toString()}`);
  for (const { metadata = {}, status = {} } of items) {
    if (metadata.deletionTimestamp !== undefined) continue;
    const path = `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}/status`;
    await cluster.api.request('PATCH', path, { status: change(status) }, strategicMerge).catch((error: unknown) => {
      // Deleted since the list, by a drain or with its DaemonSet's selection.
      if (!(error instanceof ApiError && error.status === 404)) throw error;
    });
  }
}

/**
 * A kubelet that comes up restarts containers. A pod whose ContainersReady was not True before
 * stays unready.
 */
function restarted(status: V1PodStatus): object {
  const healthy =
    status.conditions?.some(({ type, status }) => type === 'ContainersReady' && status === 'True') ?? false;
  const containers = status.containerStatuses ?? [];
  return {
    conditions: [podReady(healthy ? 'True' : 'False')],
    containerStatuses: containers.map(({ name, restartCount }) => ({ name, restartCount: restartCount + 1 })),
  };
}

/** The reason keeps KWOK from making it Ready again. */
function podReady(status: 'True' | 'False'): object {
  const reason = status === 'True' ? null : 'NodeShutdown';
  return { type: 'Ready', status, reason, lastTransitionTime: new Date().toISOString() };
}
