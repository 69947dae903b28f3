/** What the operator reports outside of shadows: the status of the BrupopConfig, and Events. */
import type { CoreV1EventList } from '@kubernetes/client-node';
import type { BrupopConfig, BrupopConfigStatus } from '../../../packages/shared/src/api/brupop-config.ts';
import type { FleetContext } from './with-fleet.ts';

type Connected = Pick<FleetContext, 'cluster'>;

/** Empty before the first one. */
export async function configStatus({ cluster }: Connected): Promise<BrupopConfigStatus> {
  const path = '/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs/cluster';
  return (await cluster.api.get<BrupopConfig>(path)).status ?? {};
}

/** The reasons of the Events on a BrupopConfig or Node, in order. */
export async function eventReasons(
  { cluster }: Connected,
  about: { readonly kind: 'BrupopConfig' | 'Node'; readonly name: string },
): Promise<string[]> {
  const fields = `involvedObject.kind=${about.kind},involvedObject.name=${about.name}`;
  const path = `/api/v1/namespaces/default/events?fieldSelector=${encodeURIComponent(fields)}`;
  const { items } = await cluster.api.get<CoreV1EventList>(path);
  return items.map(({ reason = '' }) => reason).toSorted();
}
