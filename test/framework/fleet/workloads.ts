import type { V1Deployment, V1PodDisruptionBudget, V1StatefulSet } from '@kubernetes/client-node';
import { createVolume } from '../apiserver/volumes.ts';
import type { Connection } from '../control-plane/connection.ts';
import { eventually } from '../eventually.ts';
import { VOLUME_CLAIM } from './databases.ts';

export interface WorkloadOptions {
  readonly namespace: string;
  /** Replicas of the Deployment `web`; its disruption budget allows one disruption at a time. */
  readonly webReplicas: number;
  /** Replicas of the StatefulSet `store`. */
  readonly storeReplicas: number;
  /** Gives each replica of `store` a volume, which its next pod must get from the node of the former. */
  readonly storeVolumes?: boolean;
}

const containers = [{ name: 'main', image: 'workload' }];

function podTemplate(app: string): object {
  const labelSelector = { matchLabels: { app } };
  const spread = (topologyKey: string): object => ({
    maxSkew: 1,
    topologyKey,
    whenUnsatisfiable: 'ScheduleAnyway',
    labelSelector,
  });
  return {
    metadata: { labels: { app } },
    spec: {
      containers,
      topologySpreadConstraints: ['kubernetes.io/hostname', 'topology.kubernetes.io/zone'].map(spread),
    },
  };
}

function selected(app: string): object {
  return { selector: { matchLabels: { app } }, template: podTemplate(app) };
}

function manifests({
  namespace,
  webReplicas,
  storeReplicas,
  storeVolumes = false,
}: WorkloadOptions): readonly (readonly [string, object])[] {
  const apps = `/apis/apps/v1/namespaces/${namespace}`;
  const everywhere = { tolerations: [{ operator: 'Exists' }], containers };
  return [
    [`${apps}/deployments`, { metadata: { name: 'web' }, spec: { replicas: webReplicas, ...selected('web') } }],
    [
      `/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets`,
      { metadata: { name: 'web' }, spec: { maxUnavailable: 1, selector: { matchLabels: { app: 'web' } } } },
    ],
    [
      `${apps}/statefulsets`,
      {
        metadata: { name: 'store' },
        spec: {
          replicas: storeReplicas,
          serviceName: 'store',
          podManagementPolicy: 'Parallel',
          ...selected('store'),
          ...(storeVolumes && { volumeClaimTemplates: [VOLUME_CLAIM] }),
        },
      },
    ],
    [
      `${apps}/daemonsets`,
      {
        metadata: { name: 'log-shipper' },
        spec: {
          selector: { matchLabels: { app: 'log-shipper' } },
          template: { metadata: { labels: { app: 'log-shipper' } }, spec: everywhere },
        },
      },
    ],
  ];
}

/**
 * Creates a Deployment behind a disruption budget, a StatefulSet and a DaemonSet, and waits until
 * all replicas are ready.
 */
export async function createWorkloads(cluster: Connection, options: WorkloadOptions): Promise<void> {
  if (options.storeVolumes === true) await createStoreVolumes(cluster, options);
  for (const [path, body] of manifests(options)) await cluster.api.create(path, body);
  const { namespace, webReplicas, storeReplicas } = options;
  await eventually(async () => {
    const [web, store] = await readyReplicas(cluster, namespace);
    const budget = await cluster.api.get<V1PodDisruptionBudget>(budgetPath(namespace));
    if (web !== webReplicas || store !== storeReplicas || budget.status?.currentHealthy !== webReplicas) {
      throw new Error(`the workloads are not ready: web ${web} of ${webReplicas}, store ${store} of ${storeReplicas}`);
    }
  });
}

async function createStoreVolumes(cluster: Connection, { namespace, storeReplicas }: WorkloadOptions): Promise<void> {
  for (let index = 0; index < storeReplicas; index += 1) await createVolume(cluster, namespace, `data-store-${index}`);
}

/** Path of the disruption budget of the Deployment `web`. */
export function budgetPath(namespace: string): string {
  return `/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets/web`;
}

/** Sets `maxUnavailable` of the disruption budget of the Deployment `web`. */
export async function allowUnavailable(
  { cluster, namespace }: { readonly cluster: Pick<Connection, 'api'>; readonly namespace: string },
  maxUnavailable: number,
): Promise<void> {
  await cluster.api.patch(budgetPath(namespace), { spec: { maxUnavailable } });
}

async function readyReplicas(cluster: Pick<Connection, 'api'>, namespace: string): Promise<readonly [number, number]> {
  const apps = `/apis/apps/v1/namespaces/${namespace}`;
  const web = await cluster.api.get<V1Deployment>(`${apps}/deployments/web`);
  const store = await cluster.api.get<V1StatefulSet>(`${apps}/statefulsets/store`);
  return [web.status?.readyReplicas ?? 0, store.status?.readyReplicas ?? 0];
}
