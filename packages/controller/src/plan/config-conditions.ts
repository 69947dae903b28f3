/**
 * The status of the BrupopConfig, made from a plan: its conditions, the forecast of the rollout, and
 * since when each version is available. `apply/config-status.ts` calls {@link statusOf} in each
 * reconcile and writes what differs. Times and messages stay the same while nothing changes, since
 * each difference is a write.
 */
import type { BrupopConfig, BrupopConfigStatus, PlannedNode, VersionStatus } from '@brupop/shared/api/brupop-config';
import { formatDuration } from '@brupop/shared/api/spec-schema';
import type { Condition } from '@brupop/shared/api/meta';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { printable } from '@brupop/shared/runtime/errors';
import { describeStuck, namesOf } from './capacity.ts';
import { transitionTime } from './condition.ts';
import type { VersionCount } from './facts/versions.ts';
import type { Forecast } from './forecast.ts';
import type { Plan } from './plan.ts';
import type { Reason } from './gates/reasons.ts';

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

type Judged = Pick<Condition, 'status' | 'message'> & { readonly reason: (typeof CONFIG_REASONS)[number] | Reason };

const isTrue = (reason: Judged['reason'], message: string): Judged => ({ status: 'True', reason, message });
const isFalse = (reason: Judged['reason'], message: string): Judged => ({ status: 'False', reason, message });

export const CONDITIONS = {
  Ready: ready,
  Paused: paused,
  Frozen: frozen,
  WindowOpen: windowOpen,
  Progressing: progressing,
  Degraded: degraded,
} satisfies Record<string, (plan: Plan) => Judged>;

function ready({ policy: { problem } }: Plan): Judged {
  if (problem === undefined) return isTrue('InUse', 'The configuration is in use');
  const message = `No update starts, and updating nodes follow the previous configuration: ${problem}`;
  return isFalse('InvalidConfiguration', message);
}

function paused({ policy: { paused, pauseReason } }: Plan): Judged {
  if (!paused) return isFalse('NotPaused', 'Updates may start');
  return isTrue('Paused', pauseReason ?? 'spec.paused is true; spec.pauseReason does not say why');
}

function frozen({ policy: { problem }, stale }: Plan): Judged {
  if (stale.length > 0) {
    const what = stale.join(', ');
    const message = `No update starts: the Kubernetes API has sent nothing about ${what} for more than 2 minutes`;
    return isTrue('WatchStale', message);
  }
  if (problem !== undefined) return isTrue('InvalidConfiguration', `No update starts: ${problem}`);
  return isFalse('NotFrozen', 'All watches are up to date and the configuration is valid');
}

const WINDOW_MESSAGES = {
  NoWindows: 'No windows are configured: updates may start at any time',
  InWindow: 'A maintenance window is open',
  OutsideWindows: 'No maintenance window is open',
  Blackout: 'No update or drain starts during this blackout',
} as const;

function windowOpen({ forecast: { window, nextOpenAt } }: Plan): Judged {
  const { open, reason, until, blackout } = window;
  const why = blackout?.reason === undefined ? '' : `: ${blackout.reason}`;
  const closes = open && until !== undefined ? `, until ${rfc3339(until)}` : '';
  const opens = !open && nextOpenAt !== undefined ? `; the next opens at ${rfc3339(nextOpenAt)}` : '';
  const message = `${WINDOW_MESSAGES[reason]}${why}${closes}${opens}`;
  return { status: open ? 'True' : 'False', reason, message };
}

function progressing({ counts, forecast: { reasons, completionTime }, policy }: Plan): Judged {
  const { managed, upToDate, updating } = counts;
  const by = completionTime === undefined ? '' : `; expected to be complete by ${completionTime}`;
  const tally = `${upToDate} of ${managed} nodes are up to date`;
  if (managed === 0) {
    const which = policy.nodeSelector === undefined ? '' : ' and that spec.nodeSelector selects';
    return isFalse('NoNodes', `There is no node with the label of managed nodes${which}`);
  }
  if (policy.problem !== undefined) {
    const message = `${tally}, ${updating} updating, and no other update starts: the configuration cannot be followed`;
    return { status: updating > 0 ? 'True' : 'False', reason: 'InvalidConfiguration', message };
  }
  if (updating > 0) return isTrue('Updating', `${tally}, ${updating} updating${by}`);
  if (upToDate === managed) return isFalse('UpToDate', 'All nodes are up to date');
  const [reason = 'Waiting', waiting] = mostFrequent(reasons);
  const why = waiting === undefined ? 'the others have not reported yet' : `${waiting} waiting: ${reason}`;
  return isFalse(reason, `${tally}; ${why}${by}`);
}

function mostFrequent(reasons: ReadonlyMap<Reason, number>): [Reason, number] | [] {
  return [...reasons].toSorted(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))[0] ?? [];
}

function degraded({
  policy: { problem },
  counts: { failed },
  forecast: { needAttention },
  stuckNodes,
  unexplainedNodes,
}: Plan): Judged {
  if (problem !== undefined) return isTrue('InvalidConfiguration', problem);
  const needed = [...needAttention].map(([reason, count]) => `${count} ${reason}`).toSorted();
  const named = [
    ...(stuckNodes.length > 0 ? [describeStuck(stuckNodes)] : []),
    ...(unexplainedNodes.length > 0
      ? [`annotations of the operator without an update on ${namesOf(unexplainedNodes)}`]
      : []),
  ];
  const found = [...needed, ...named].join(', ');
  if (found !== '') {
    const message = `Nodes need attention: ${found}; kubectl get brs -A -o wide shows which and why`;
    return isTrue('NodesNeedAttention', message);
  }
  if (failed === 0) return isFalse('AsExpected', 'No node needs attention');
  const nodes = failed === 1 ? 'node' : 'nodes';
  return isTrue('NodesFailed', `The latest attempt failed on ${failed} ${nodes}; retried automatically`);
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
  const conditions = Object.entries(CONDITIONS).map(([type, judge]): Condition => {
    const judged = judge(plan);
    const last = before?.conditions?.find((condition) => condition.type === type);
    const lastTransitionTime = transitionTime(last, judged.status, now);
    return { type, ...judged, message: printable(judged.message), lastTransitionTime, observedGeneration: generation };
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
 * Returns the versions for the status at `now` (epoch milliseconds), newest first. The age of a
 * version counts from when a second node runs it or is offered it, and ends when fewer are.
 */
function versionStatuses(
  counts: readonly VersionCount[],
  before: readonly VersionStatus[],
  now: number,
): VersionStatus[] {
  const current = counts.map(({ hasAge, ...count }): VersionStatus => {
    if (!hasAge) return count;
    const known = before.find(({ version }) => version === count.version)?.firstOfferedTime;
    return { ...count, firstOfferedTime: parseTime(known) === undefined ? rfc3339(now) : (known ?? rfc3339(now)) };
  });
  return current.toSorted(mostNodesFirst).slice(0, MAX_VERSIONS).toSorted(newestFirst);
}

function mostNodesFirst(a: VersionStatus, b: VersionStatus): number {
  return b.running + b.offered - (a.running + a.offered) || newestFirst(a, b);
}

function newestFirst(a: VersionStatus, b: VersionStatus): number {
  return b.version.localeCompare(a.version, 'en', { numeric: true });
}
