/** The pods of the DaemonSet log-shipper, which `createWorkloads` makes. */
import type { V1Pod, V1PodList } from '@kubernetes/client-node';
import type { Api } from '../control-plane/api.ts';
import type { FleetContext } from './with-fleet.ts';

export async function daemonPods({ cluster: { api }, namespace }: FleetContext): Promise<V1Pod[]> {
  return (await api.get<V1PodList>(`/api/v1/namespaces/${namespace}/pods?labelSelector=app%3Dlog-shipper`)).items;
}

/** As a kubelet does. With a reason, KWOK leaves the pod alone. */
export async function setReady(
  { cluster: { api }, namespace }: Pick<FleetContext, 'namespace'> & { readonly cluster: { readonly api: Api } },
  pod: V1Pod,
  ready: boolean,
): Promise<void> {
  const lastTransitionTime = new Date().toISOString();
  const condition = { type: 'Ready', status: ready ? 'True' : 'False', reason: 'ByTest', lastTransitionTime };
  const path = `/api/v1/namespaces/${namespace}/pods/${pod.metadata?.name}/status`;
  const patch = { status: { conditions: [condition] } };
  await api.request('PATCH', path, patch, 'application/strategic-merge-patch+json');
}
