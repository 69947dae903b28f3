/** The status of a BottlerocketNodeGroup, made from a plan. `apply/node-groups.ts` writes what differs. */
import type { BottlerocketNodeGroup, NodeGroupStatus } from '@brupop/shared/api/node-group';
import { GROUP_CONDITIONS } from './config-conditions.ts';
import { conditionsOf, expectedOf, windowOf } from './config-status.ts';
import type { GroupRollout } from './rollout.ts';

export function groupStatusOf(
  { metadata: { generation = 0 }, status }: BottlerocketNodeGroup,
  rollout: GroupRollout,
  now: number,
): NodeGroupStatus {
  const judged = Object.entries(GROUP_CONDITIONS).map(([type, judge]) => [type, judge(rollout)] as const);
  return {
    observedGeneration: generation,
    conditions: conditionsOf(Object.fromEntries(judged), status, { generation, now }),
    nodes: rollout.counts,
    ...windowOf(rollout),
    ...expectedOf(rollout.forecast),
  };
}
