import type { Connection } from '../control-plane/connection.ts';

const DRIVER = 'disks.test';
const attachments = '/apis/storage.k8s.io/v1/volumeattachments';

/**
 * Creates a claim that is bound to a volume of its own; returns the name of the volume.
 * @param nodeName - the only node that has the volume
 */
export async function createVolume(
  { api }: Connection,
  namespace: string,
  claim: string,
  nodeName?: string,
): Promise<string> {
  const volume = `${namespace}-${claim}`;
  const common = { accessModes: ['ReadWriteOnce'], storageClassName: '' };
  const storage = '1Gi';
  await api.create('/api/v1/persistentvolumes', {
    metadata: { name: volume },
    spec: {
      ...common,
      capacity: { storage },
      csi: { driver: DRIVER, volumeHandle: volume },
      claimRef: { namespace, name: claim },
      ...(nodeName !== undefined && { nodeAffinity: affinityTo(nodeName) }),
    },
  });
  await api.create(`/api/v1/namespaces/${namespace}/persistentvolumeclaims`, {
    metadata: { name: claim },
    spec: { ...common, volumeName: volume, resources: { requests: { storage } } },
  });
  return volume;
}

function affinityTo(node: string) {
  const matchExpressions = [{ key: 'topology.disks.test/node', operator: 'In', values: [node] }];
  return { required: { nodeSelectorTerms: [{ matchExpressions }] } };
}

/** Attaches a volume to a node, as the attach-detach controller does. */
export async function attach({ api }: Connection, volume: string, nodeName: string): Promise<void> {
  await api.create(attachments, {
    metadata: { name: `attachment-of-${volume}` },
    spec: { attacher: DRIVER, nodeName, source: { persistentVolumeName: volume } },
  });
}

export async function detach({ api }: Connection, volume: string): Promise<void> {
  await api.delete(`${attachments}/attachment-of-${volume}`);
}

/** Attaches a volume only in the Node's status, without a VolumeAttachment. */
export async function setAttachedInStatus(
  { api }: Connection,
  node: string,
  volumes: readonly string[],
): Promise<void> {
  const volumesAttached = volumes.map((name) => ({ name: `kubernetes.io/csi/${DRIVER}^${name}`, devicePath: '' }));
  await api.patch(`/api/v1/nodes/${node}/status`, { status: { volumesAttached } });
}
