/** The status of a BottlerocketNodeGroup, made from a plan. `apply/node-groups.ts` writes what differs. */
import type { BottlerocketNodeGroup, NodeGroupStatus } from '@brupop/shared/api/node-group';
import { recordOf } from '../policy/rendered.ts';
import { GROUP_CONDITIONS } from './config-conditions.ts';
import { awaiting, conditionsOf, expectedOf, isGroupInEffect, isRecorded, laneOf, windowOf } from './config-status.ts';
import { groupNeedsUser, reconciliationOf } from './reconciliation.ts';
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
  const confirmed = isWritten && isGroupInEffect(rollout) ? generation : before?.confirmedGeneration;
  const isConfirmed = confirmed === generation;
  const shown = awaiting(withMetadata(rollout), isConfirmed);
  const evaluated = Object.entries(GROUP_CONDITIONS).map(([type, evaluate]) => [type, evaluate(shown)] as const);
  const needsUser = groupNeedsUser(rollout, GROUP_CONDITIONS.Ready(shown)) ?? groupStalls(rollout);
  const state = reconciliationOf(withMetadata(rollout), { generation, isConfirmed, isWritten }, needsUser);
  return {
    observedGeneration: generation,
    ...(confirmed !== undefined && { confirmedGeneration: confirmed }),
    conditions: conditionsOf({ ...Object.fromEntries(evaluated), ...state }, before, { generation, now }),
    ...(rendered !== undefined && { rendered }),
    nodes: rollout.counts,
    ...laneOf(rollout),
    ...(rollout.settings.left.length > 0 && { settings: rollout.settings.left }),
    ...windowOf(rollout),
    ...expectedOf(rollout.forecast),
  };
}

/** By a rule of its own. */
function groupStalls(rollout: GroupRollout): ReturnType<typeof groupNeedsUser> {
  const { forecast, fleetFrozen, frozen, progress } = rollout;
  if (progress?.isLate === true) return GROUP_CONDITIONS.Degraded(rollout);
  const isOwn = frozen.length > 0 && fleetFrozen.length === 0;
  return isOwn && forecast.reasons.has('Frozen') ? GROUP_CONDITIONS.Frozen(rollout) : undefined;
}

/** Labels, annotations and taints are written at once, unless one waits. */
function withMetadata(rollout: GroupRollout): GroupRollout {
  const { pending, waitsFor } = rollout.metadata;
  const isWriting = !isRecorded(rollout) || (pending.length > 0 && waitsFor === undefined);
  return {
    ...rollout,
    isMoving: rollout.isMoving || isWriting,
    unconfirmed: [...new Set([...rollout.unconfirmed, ...pending])],
  };
}
