import type { BrupopConfig, BrupopConfigStatus, PlannedNode } from '@brupop/shared/brupop-config';
import { rfc3339 } from '@brupop/shared/clock';
import type { Condition } from '@brupop/shared/kubernetes-types';
import type { Outlook } from '../decide/outlook.ts';
import type { Plan } from '../decide/plan.ts';
import { conditionsOf } from './config-conditions.ts';
import { transitionTime } from './publish.ts';
import { versionStatuses } from './version-statuses.ts';

export interface ReportInput {
  readonly config: BrupopConfig;
  readonly plan: Plan;
  /** The status as it was before. */
  readonly before: BrupopConfigStatus | undefined;
  /** All that the configuration asks for is written. */
  readonly isInEffect: boolean;
  /** Epoch milliseconds. */
  readonly now: number;
}

/** The status that says what a plan made of the configuration. */
export function statusOf({ config, plan, before, isInEffect, now }: ReportInput): BrupopConfigStatus {
  const { generation = 0 } = config.metadata;
  const { fleet, outlook, counts } = plan;
  const takesEffect = isInEffect && fleet.problem === undefined;
  const observed = takesEffect ? generation : before?.observedGeneration;
  const conditions = conditionsOf(plan).map((condition): Condition => {
    const last = before?.conditions?.find(({ type }) => type === condition.type);
    const lastTransitionTime = transitionTime(last, condition.status, now);
    return { ...condition, lastTransitionTime, observedGeneration: generation };
  });
  return {
    ...(observed !== undefined && { observedGeneration: observed }),
    conditions,
    nodes: counts,
    versions: versionStatuses(outlook.versions, before?.versions ?? [], now),
    ...windowOf(plan),
    ...expectations(outlook),
    plan: outlook.turns.map(({ node, version, reason, expectedTime }): PlannedNode => {
      return { node, version, reason, ...(expectedTime !== undefined && { expectedTime }) };
    }),
    ...(fleet.inForce !== undefined && { inForce: fleet.inForce }),
  };
}

function windowOf({ fleet, outlook: { window, nextOpenAt } }: Plan): Pick<BrupopConfigStatus, 'window'> {
  if (fleet.maintenance.windows.length === 0 && fleet.maintenance.blackouts.length === 0) return {};
  const { open, until } = window;
  const nextOpen = open || nextOpenAt === undefined ? {} : { nextOpenTime: rfc3339(nextOpenAt) };
  return { window: { ...nextOpen, ...(open && until !== undefined && { nextCloseTime: rfc3339(until) }) } };
}

function expectations({
  measuredMs,
  completionTime,
}: Outlook): Pick<BrupopConfigStatus, 'updateEstimateSeconds' | 'expectedCompletionTime'> {
  return {
    ...(measuredMs !== undefined && { updateEstimateSeconds: Math.ceil(measuredMs / 1000) }),
    ...(completionTime !== undefined && { expectedCompletionTime: completionTime }),
  };
}
