/** Nodes as kubelets of a cloud make them, with their Leases and shadows. */
import { randomUUID } from 'node:crypto';
import type { V1Node, V1NodeCondition } from '@kubernetes/client-node';
import { GROUP, SHADOW_KIND, SHADOW_VERSION, shadowName } from '../../packages/shared/src/api/names.ts';
import type { Connection } from '../../test/framework/control-plane/connection.ts';
import { LEASES } from '../../test/framework/control-plane/node-leases.ts';
import { osImageOf } from '../../test/framework/control-plane/nodes.ts';
import { managedLabel, oldVersion, report, shadowsPath } from '../../test/framework/controller/agents.ts';

type Cluster = Pick<Connection, 'api'>;

const AT_ONCE = 32;
const LABELS = 20;
const IMAGES = 20;
const ZONES = 3;

export function nameOf(i: number): string {
  return `ip-10-0-${i >> 8}-${i & 255}.eu-central-1.compute.internal`;
}

/** Returns when the agents of all have reported that they are up to date. */
export async function createNodes(cluster: Cluster, count: number): Promise<void> {
  const queue = Array.from({ length: count }, (_, i) => i).values();
  const create = async (): Promise<void> => {
    for (const i of queue) await createNode(cluster, nameOf(i), `zone-${i % ZONES}`);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, create));
}

async function createNode({ api }: Cluster, name: string, zone: string): Promise<void> {
  const bootID = randomUUID();
  const { metadata } = await api.create<V1Node>('/api/v1/nodes', nodeOf(name, zone, bootID));
  const ownerReferences = [{ apiVersion: 'v1', kind: 'Node', name, uid: metadata?.uid }];
  const renewTime = new Date().toISOString().replace('Z', '000Z');
  const spec = { holderIdentity: name, leaseDurationSeconds: 40, renewTime };
  await api.create(LEASES, { metadata: { name, ownerReferences }, spec });
  const kind = { apiVersion: `${GROUP}/${SHADOW_VERSION}`, kind: SHADOW_KIND };
  const shadow = { ...kind, metadata: { name: shadowName(name), ownerReferences }, spec: { state: 'Idle' } };
  await api.create(shadowsPath, shadow);
  const versions = { current_version: oldVersion, target_version: oldVersion };
  await report({ api }, name, { current_state: 'Idle', ...versions, crash_count: 0, observedGeneration: 1, bootID });
}

function nodeOf(name: string, zone: string, bootID: string): V1Node {
  const more = Object.fromEntries(Array.from({ length: LABELS }, (_, i) => [`example.com/label-${i}`, `value-${i}`]));
  const labels = { 'kubernetes.io/hostname': name, 'topology.kubernetes.io/zone': zone, ...managedLabel, ...more };
  const capacity = { cpu: '8', memory: '32Gi', pods: '58', 'ephemeral-storage': '83864556Ki' };
  const nodeInfo = { architecture: 'amd64', operatingSystem: 'linux', machineID: bootID, systemUUID: bootID, bootID };
  const programs = { kubeletVersion: 'v1.36.3', containerRuntimeVersion: 'containerd://2.1.5+bottlerocket' };
  const images = Array.from({ length: IMAGES }, (_, i) => ({ names: [imageOf(i)], sizeBytes: 100_000_000 + i }));
  const conditions = ['MemoryPressure', 'DiskPressure', 'PIDPressure'].map((type) => conditionOf(type, 'False'));
  return {
    metadata: { name, labels, annotations: { 'csi.volume.kubernetes.io/nodeid': `{"ebs":"${name}"}` } },
    spec: { providerID: `test:///${name}` },
    status: {
      addresses: [{ type: 'Hostname', address: name }],
      capacity,
      allocatable: capacity,
      conditions: [...conditions, conditionOf('Ready', 'True')],
      nodeInfo: {
        ...nodeInfo,
        ...programs,
        kubeProxyVersion: '',
        osImage: osImageOf(oldVersion),
        kernelVersion: '6.12.46',
      },
      images,
    },
  };
}

function imageOf(i: number): string {
  return `registry.example.com/team/app-${i}@sha256:${'0'.repeat(64)}`;
}

function conditionOf(type: string, status: string): V1NodeCondition {
  const message = 'kubelet has reported this condition';
  return { type, status, reason: 'BenchHas', message, lastHeartbeatTime: new Date(), lastTransitionTime: new Date() };
}

export async function setReady({ api }: Cluster, name: string, isReady: boolean): Promise<void> {
  const status = { conditions: [conditionOf('Ready', isReady ? 'True' : 'False')] };
  await api.request('PATCH', `/api/v1/nodes/${name}/status`, { status }, 'application/strategic-merge-patch+json');
}
