import type { BrupopConfig, BrupopConfigStatus, PlannedNode, VersionStatus } from '@brupop/shared/api/brupop-config';
import { formatDuration } from '@brupop/shared/api/spec-schema';
import type { Condition } from '@brupop/shared/api/meta';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { describeStuck } from './capacity.ts';
import { transitionTime } from './condition.ts';
import type { Forecast, VersionCount } from './forecast.ts';
import type { Plan } from './plan.ts';
import { type Reason, traitsOf } from './gates/reasons.ts';

/** Reasons besides those for which nodes wait. `docs/runbook.md` explains each. */
export const CONFIG_REASONS = [
  'InUse',
  'InvalidConfiguration',
  'Paused',
  'NotPaused',
  'WatchStale',
  'NotFrozen',
  'NoWindows',
  'InWindow',
  'OutsideWindows',
  'Blackout',
  'Updating',
  'UpToDate',
  'NoNodes',
  'Waiting',
  'NodesFailed',
  'NodesNeedAttention',
  'AsExpected',
] as const;

interface NewCondition extends Omit<Condition, 'lastTransitionTime'> {
  readonly reason: (typeof CONFIG_REASONS)[number] | Reason;
}

export function conditionsOf(plan: Plan): NewCondition[] {
  return [ready(plan), paused(plan), frozen(plan), windowOpen(plan), progressing(plan), degraded(plan)];
}

function ready({ policy: { problem } }: Plan): NewCondition {
  if (problem === undefined) {
    return { type: 'Ready', status: 'True', reason: 'InUse', message: 'The configuration is in use' };
  }
  const message = `No update starts, and updating nodes follow the previous configuration: ${problem}`;
  return { type: 'Ready', status: 'False', reason: 'InvalidConfiguration', message };
}

function paused({ policy: { paused, pauseReason } }: Plan): NewCondition {
  if (!paused) {
    return { type: 'Paused', status: 'False', reason: 'NotPaused', message: 'Updates may start' };
  }
  const message = pauseReason ?? 'spec.paused is true; spec.pauseReason does not say why';
  return { type: 'Paused', status: 'True', reason: 'Paused', message };
}

function frozen({ policy: { problem }, stale }: Plan): NewCondition {
  if (stale.length > 0) {
    const message = `No update starts: the Kubernetes API has sent nothing about ${stale.join(', ')} for more than 2 minutes`;
    return { type: 'Frozen', status: 'True', reason: 'WatchStale', message };
  }
  if (problem !== undefined) {
    const message = `No update starts: ${problem}`;
    return { type: 'Frozen', status: 'True', reason: 'InvalidConfiguration', message };
  }
  const message = 'All watches are up to date and the configuration is valid';
  return { type: 'Frozen', status: 'False', reason: 'NotFrozen', message };
}

const WINDOW_MESSAGES = {
  NoWindows: 'No windows are configured: updates may start at any time',
  InWindow: 'A maintenance window is open',
  OutsideWindows: 'No maintenance window is open',
  Blackout: 'No update or drain starts during this blackout',
} as const;

function windowOpen({ forecast: { window, nextOpenAt } }: Plan): NewCondition {
  const { open, reason, until, blackout } = window;
  const why = blackout?.reason === undefined ? '' : `: ${blackout.reason}`;
  const closes = open && until !== undefined ? `, until ${rfc3339(until)}` : '';
  const opens = !open && nextOpenAt !== undefined ? `; the next opens at ${rfc3339(nextOpenAt)}` : '';
  const message = `${WINDOW_MESSAGES[reason]}${why}${closes}${opens}`;
  return { type: 'WindowOpen', status: open ? 'True' : 'False', reason, message };
}

function progressing({ counts, forecast: { reasons, completionTime }, policy }: Plan): NewCondition {
  const type = 'Progressing';
  const { managed, upToDate, updating } = counts;
  const by = completionTime === undefined ? '' : `; expected to be complete by ${completionTime}`;
  const tally = `${upToDate} of ${managed} nodes are up to date`;
  if (managed === 0) {
    const which = policy.nodeSelector === undefined ? '' : ' and that spec.nodeSelector selects';
    const message = `There is no node with the label of managed nodes${which}`;
    return { type, status: 'False', reason: 'NoNodes', message };
  }
  if (policy.problem !== undefined) {
    const message = `${tally}, ${updating} updating, and no other update starts: the configuration cannot be followed`;
    return { type, status: updating > 0 ? 'True' : 'False', reason: 'InvalidConfiguration', message };
  }
  if (updating > 0) {
    return { type, status: 'True', reason: 'Updating', message: `${tally}, ${updating} updating${by}` };
  }
  if (upToDate === managed) return { type, status: 'False', reason: 'UpToDate', message: 'All nodes are up to date' };
  const [reason = 'Waiting', waiting] = mostFrequent(reasons);
  const why = waiting === undefined ? 'the others have not reported yet' : `${waiting} waiting: ${reason}`;
  return { type, status: 'False', reason, message: `${tally}; ${why}${by}` };
}

function mostFrequent(reasons: ReadonlyMap<Reason, number>): [Reason, number] | [] {
  return [...reasons].toSorted(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))[0] ?? [];
}

function degraded({ policy: { problem }, counts: { failed }, forecast: { reasons }, stuckNodes }: Plan): NewCondition {
  const type = 'Degraded';
  const needed = [...reasons]
    .filter(([reason]) => traitsOf(reason).needsAttention === true)
    .map(([reason, count]) => `${count} ${reason}`)
    .toSorted();
  if (problem !== undefined) return { type, status: 'True', reason: 'InvalidConfiguration', message: problem };
  if (needed.length > 0 || stuckNodes.length > 0) {
    const what = [...needed, ...(stuckNodes.length > 0 ? [describeStuck(stuckNodes)] : [])].join(', ');
    const message = `Nodes need attention: ${what}; kubectl get brs -A -o wide shows which and why`;
    return { type, status: 'True', reason: 'NodesNeedAttention', message };
  }
  if (failed > 0) {
    const message = `The latest attempt failed on ${failed} ${failed === 1 ? 'node' : 'nodes'}; retried automatically`;
    return { type, status: 'True', reason: 'NodesFailed', message };
  }
  return { type, status: 'False', reason: 'AsExpected', message: 'No node needs attention' };
}

interface ReportInput {
  readonly config: BrupopConfig;
  readonly plan: Plan;
  readonly before: BrupopConfigStatus | undefined;
  /** Everything that the configuration requests is written. */
  readonly isInEffect: boolean;
  readonly now: number;
}

export function statusOf({ config, plan, before, isInEffect, now }: ReportInput): BrupopConfigStatus {
  const { generation = 0 } = config.metadata;
  const { policy, forecast, counts } = plan;
  const takesEffect = isInEffect && policy.problem === undefined;
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
    versions: versionStatuses(forecast.versions, before?.versions ?? [], now),
    ...windowOf(plan),
    ...expectations(forecast),
    plan: forecast.queue.map(({ node, version, reason, expectedTime }): PlannedNode => {
      return { node, version, reason, ...(expectedTime !== undefined && { expectedTime }) };
    }),
    ...(policy.inForce !== undefined && { inForce: policy.inForce }),
  };
}

function windowOf({ policy, forecast: { window, nextOpenAt } }: Plan): Pick<BrupopConfigStatus, 'window'> {
  if (policy.maintenance.windows.length === 0 && policy.maintenance.blackouts.length === 0) return {};
  const { open, until } = window;
  const nextOpen = open || nextOpenAt === undefined ? {} : { nextOpenTime: rfc3339(nextOpenAt) };
  return { window: { ...nextOpen, ...(open && until !== undefined && { nextCloseTime: rfc3339(until) }) } };
}

function expectations({ measuredMs, completionTime }: Forecast): Partial<BrupopConfigStatus> {
  return {
    ...(measuredMs !== undefined && { updateEstimate: formatDuration(measuredMs) }),
    ...(completionTime !== undefined && { expectedCompletionTime: completionTime }),
  };
}

const MAX_VERSIONS = 50;

/**
 * Returns the versions for the status at `now` (epoch milliseconds), newest first. Versions that are
 * no longer run or available are kept while there is room, so that their age continues when they
 * come back.
 */
function versionStatuses(
  counts: readonly VersionCount[],
  before: readonly VersionStatus[],
  now: number,
): VersionStatus[] {
  const current = counts.map((count): VersionStatus => {
    const known = before.find(({ version }) => version === count.version);
    const isDated = known !== undefined && parseTime(known.firstOfferedTime) !== undefined;
    return { ...count, firstOfferedTime: isDated ? known.firstOfferedTime : rfc3339(now) };
  });
  const gone = before
    .filter(({ version }) => !counts.some((count) => count.version === version))
    .map((one) => ({ ...one, running: 0, offered: 0 }));
  return [...current.toSorted(newestFirst), ...gone.toSorted(newestFirst)].slice(0, MAX_VERSIONS).toSorted(newestFirst);
}

function newestFirst(a: VersionStatus, b: VersionStatus): number {
  return b.version.localeCompare(a.version, 'en', { numeric: true });
}
