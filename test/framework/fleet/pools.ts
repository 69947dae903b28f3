/** Pools of nodes, and the groups for them. */
import type { BottlerocketNodeGroup, NodeGroupStatus } from '../../../packages/shared/src/api/node-group.ts';
import type { FleetContext } from './with-fleet.ts';

const COLLECTION = '/apis/brupop.bottlerocket.aws/v1alpha1/bottlerocketnodegroups';

/** Sets the label `pool` of a Node. */
export async function setPool({ cluster }: Pick<FleetContext, 'cluster'>, node: string, pool: string): Promise<void> {
  await cluster.api.patch(`/api/v1/nodes/${node}`, { metadata: { labels: { pool } } });
}

/** Creates or changes the group of the nodes whose label `pool` has its name. */
export async function applyGroup(
  { cluster }: Pick<FleetContext, 'cluster'>,
  name: string,
  spec: Partial<BottlerocketNodeGroup['spec']>,
): Promise<void> {
  const body = {
    apiVersion: 'brupop.bottlerocket.aws/v1alpha1',
    kind: 'BottlerocketNodeGroup',
    metadata: { name },
    spec: { nodeSelector: { matchLabels: { pool: name } }, ...spec },
  };
  const path = `${COLLECTION}/${name}?fieldManager=user&force=true`;
  await cluster.api.request('PATCH', path, body, 'application/apply-patch+yaml');
}

/** Empty before the first one. */
export async function groupStatus({ cluster }: Pick<FleetContext, 'cluster'>, name: string): Promise<NodeGroupStatus> {
  return (await cluster.api.get<BottlerocketNodeGroup>(`${COLLECTION}/${name}`)).status ?? {};
}
