import type { V1StatefulSet } from '@kubernetes/client-node';
import { createVolume } from '../apiserver/volumes.ts';
import type { Connection } from '../control-plane/connection.ts';
import { eventually } from '../eventually.ts';

/** A volume of its own for each pod of a StatefulSet, bound to what `createVolume` made for it. */
export const VOLUME_CLAIM = {
  metadata: { name: 'data' },
  spec: { accessModes: ['ReadWriteOnce'], storageClassName: '', resources: { requests: { storage: '1Gi' } } },
};

/**
 * Creates a StatefulSet `db` of three pods with a volume each, all on one node and without a
 * disruption budget, so that only the drain limits their evictions. Resolves when they are ready.
 */
export async function createDatabase(cluster: Connection, namespace: string, node: string): Promise<void> {
  const { api } = cluster;
  const others = await otherNodes(cluster, node);
  for (const index of [0, 1, 2]) await createVolume(cluster, namespace, `data-db-${index}`);
  for (const name of others) await api.patch(`/api/v1/nodes/${name}`, { spec: { unschedulable: true } });
  const labels = { app: 'db' };
  const path = `/apis/apps/v1/namespaces/${namespace}/statefulsets`;
  const containers = [{ name: 'main', image: 'db', volumeMounts: [{ name: 'data', mountPath: '/data' }] }];
  await api.create(path, {
    metadata: { name: 'db' },
    spec: {
      replicas: 3,
      serviceName: 'db',
      podManagementPolicy: 'Parallel',
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers } },
      volumeClaimTemplates: [VOLUME_CLAIM],
    },
  });
  await eventually(async () => {
    const { status } = await api.get<V1StatefulSet>(`${path}/db`);
    if (status?.readyReplicas !== 3) throw new Error(`db has ${status?.readyReplicas} of 3 replicas ready`);
  });
  for (const name of others) await api.patch(`/api/v1/nodes/${name}`, { spec: { unschedulable: null } });
}

async function otherNodes({ api }: Connection, node: string): Promise<string[]> {
  const { items } = await api.get<{ items: { metadata: { name: string } }[] }>('/api/v1/nodes');
  return items.map(({ metadata }) => metadata.name).filter((name) => name !== node);
}
