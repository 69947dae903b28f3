/** The status of a BottlerocketNodeGroup, made from a plan. `apply/node-groups.ts` writes what differs. */
import type { BottlerocketNodeGroup, NodeGroupStatus } from '@brupop/shared/api/node-group';
import { recordOf } from '../policy/rendered.ts';
import { GROUP_CONDITIONS } from './config-conditions.ts';
import { awaiting, conditionsOf, expectedOf, isGroupInEffect, windowOf } from './config-status.ts';
import type { GroupRollout } from './rollout.ts';

interface GroupReportInput {
  readonly rollout: GroupRollout;
  readonly before: NodeGroupStatus | undefined;
  /** Everything that configuration and groups request is written. */
  readonly isWritten: boolean;
  readonly now: number;
}

export function groupStatusOf(
  { metadata }: BottlerocketNodeGroup,
  { rollout, before, isWritten, now }: GroupReportInput,
): NodeGroupStatus {
  const { generation = 0 } = metadata;
  const rendered = recordOf({ metadata, status: before ?? {} }, rollout.group);
  const observed = isWritten && isGroupInEffect(rollout) ? generation : before?.observedGeneration;
  const shown = awaiting(rollout, observed === generation);
  const judged = Object.entries(GROUP_CONDITIONS).map(([type, judge]) => [type, judge(shown)] as const);
  return {
    ...(observed !== undefined && { observedGeneration: observed }),
    conditions: conditionsOf(Object.fromEntries(judged), before, { generation, now }),
    ...(rendered !== undefined && { rendered }),
    nodes: rollout.counts,
    ...(rollout.settings.left.length > 0 && { settings: rollout.settings.left }),
    ...windowOf(rollout),
    ...expectedOf(rollout.forecast),
  };
}
