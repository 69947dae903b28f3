/**
 * The conditions of the BrupopConfig, made from a plan. Messages stay the same while nothing changes,
 * since each difference is a write.
 */
import { NODE_GROUP_KIND } from '@brupop/shared/api/names';
import type { ConditionReport } from '@brupop/shared/api/meta';
import type { Difference } from '@brupop/shared/api/spec-schema';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { firstFew, namesOf, shorten } from '@brupop/shared/runtime/errors';
import { lostZones } from '../cluster/connectivity.ts';
import { describeStuck } from '../plan/fleet/concurrency.ts';
import { clockRight, unconfirmed } from '../plan/gates/fleet.ts';
import { describeSettings, evaluateSettings, SETTINGS_REASONS } from './group-settings.ts';
import { describeFrozen, groupFrozen, groupPaused, held, NOT_PAUSED } from './stopped-versions.ts';
import { describeLost } from '../upkeep/lost-nodes.ts';
import { describeMetadata, METADATA_REASONS, metadataApplied } from './metadata-condition.ts';
import type { WholePlan } from './report.ts';
import type { Progress } from './progress.ts';
import { MAX_MESSAGE, type Reason } from '../plan/facts/reasons.ts';
import { byFrequency, countsByReason, type GroupRollout, type Rollout } from './rollout.ts';

/** Reasons besides those for which nodes wait. `docs/runbook.md` explains each. */
export const CONFIG_REASONS = [
  'InUse',
  'InvalidConfiguration',
  'Paused',
  'NotPaused',
  'WatchStale',
  'ClockSkew',
  'LeasesExpired',
  'LeasesRenewed',
  'FailureBudgetExceeded',
  'NotFrozen',
  'WorkloadsFail',
  'NotHeld',
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
  'ProgressDeadlineExceeded',
  'AsExpected',
  'OtherDefaults',
  'NoOtherDefaults',
  'OtherRendering',
  'NoOtherRendering',
  ...METADATA_REASONS,
  ...SETTINGS_REASONS,
] as const;

type Report = ConditionReport<(typeof CONFIG_REASONS)[number] | Reason>;

const isTrue = (reason: Report['reason'], message: string): Report => ({ status: 'True', reason, message });
const isFalse = (reason: Report['reason'], message: string): Report => ({ status: 'False', reason, message });

/** Those of a group. */
export const GROUP_CONDITIONS = {
  Ready: groupReady,
  Paused: groupPaused,
  Frozen: groupFrozen,
  WindowOpen: windowOpen,
  Progressing: groupProgressing,
  SettingsApplied: ({ settings }) => evaluateSettings(settings),
  Degraded: ({ metadata, settings, progress, ...rollout }) =>
    evaluateNodes(rollout, progress, [...describeMetadata(metadata), ...describeSettings(settings)]),
  MetadataApplied: metadataApplied,
  PendingChanges: pendingRendering,
} satisfies Record<string, (rollout: GroupRollout) => Report>;

function groupReady({ group, policy, unconfirmed, isMoving }: GroupRollout): Report {
  const { problem } = group;
  if (problem === undefined && policy.problem !== undefined) {
    return isFalse('InvalidConfiguration', `BrupopConfig "cluster" cannot be followed: ${policy.problem}`);
  }
  // While it is being applied; what waits for a window or a user is not waited for.
  if (problem === undefined && isMoving && unconfirmed.length > 0)
    return isFalse('Applying', `The spec is being applied${missing(unconfirmed)}`);
  if (problem === undefined) return isTrue('InUse', `The spec is in use${missing(unconfirmed)}`);
  const message = `No node of the group starts an update, and updating nodes may follow the BrupopConfig instead: ${problem}`;
  return isFalse('InvalidConfiguration', message);
}

function pendingRendering({ group }: GroupRollout): Report {
  const list = describeChanges(group.pendingChanges);
  if (list === undefined) return isFalse('NoOtherRendering', 'The next change of the spec changes nothing else');
  return isTrue(
    'OtherRendering',
    `This release renders the spec differently. The next change of the spec will also change ${list}`,
  );
}

function withEarlier(result: Report, { waitsFor }: GroupRollout): Report {
  if (waitsFor === undefined) return result;
  const nodes =
    waitsFor.nodes.length === 0 ? '' : `, whose nodes ${namesOf(waitsFor.nodes)} do not run ${waitsFor.version} yet`;
  return { ...result, message: `${result.message}; waits for ${NODE_GROUP_KIND} "${waitsFor.name}"${nodes}` };
}

function groupProgressing(rollout: GroupRollout): Report {
  if (rollout.counts.managed > 0) return withEarlier(withSettings(progressing(rollout), rollout, [rollout]), rollout);
  const message =
    'No managed node is in the group: spec.nodeSelector selects none, or other groups with a higher precedence, or with the same ' +
    'precedence and a name that sorts first, select all of them';
  return isFalse('NoNodes', message);
}

/** Nodes that run the wanted version may still be to get settings of their group. */
function withSettings(result: Report, { isMoving }: Rollout, groups: readonly GroupRollout[]): Report {
  const left = groups.map(({ settings }) => evaluateSettings(settings)).find(({ status }) => status === 'False');
  if (result.reason !== 'UpToDate' || left === undefined) return result;
  return { status: isMoving ? 'True' : 'False', reason: left.reason, message: `${result.message}; ${left.message}` };
}

export const CONDITIONS = {
  Ready: ready,
  Paused: paused,
  Frozen: frozen,
  Held: held,
  Connected: connected,
  WindowOpen: windowOpen,
  Progressing: (plan) => withSettings(progressing(plan), plan, plan.groups),
  Degraded: degraded,
  PendingChanges: pendingChanges,
} satisfies Record<string, (plan: WholePlan) => Report>;

function missing(unconfirmed: readonly string[]): string {
  return unconfirmed.length === 0 ? '' : `; not confirmed yet by ${namesOf(unconfirmed)}`;
}

function ready({ policy: { problem }, unconfirmed }: WholePlan): Report {
  if (problem === undefined) return isTrue('InUse', `The configuration is in use${missing(unconfirmed)}`);
  const message = `No update starts, and updating nodes follow the previous configuration: ${problem}`;
  return isFalse('InvalidConfiguration', message);
}

function paused({ policy: { paused, pauseReason, problem } }: WholePlan): Report {
  if (!paused) return NOT_PAUSED;
  const why = pauseReason ?? 'spec.paused is true; spec.pauseReason does not say why';
  return isTrue(
    'Paused',
    problem === undefined ? why : `${why}. So says the configuration in force: the present one has a mistake`,
  );
}

function frozen({ policy: { problem }, stale, clockSkewMs, failed, frozen: versions }: WholePlan): Report {
  if (stale.length > 0) return isTrue('WatchStale', `No update starts. ${unconfirmed(stale)}`);
  const skewed = clockRight({ clockSkewMs });
  if (skewed !== undefined) return isTrue('ClockSkew', skewed.message);
  if (problem !== undefined) return isTrue('InvalidConfiguration', `No update starts: ${problem}`);
  const [first] = versions;
  if (first !== undefined) return isTrue('FailureBudgetExceeded', describeFrozen(first, failed));
  return isFalse(
    'NotFrozen',
    'Watches are up to date, the configuration is valid, and no version failed on too many nodes',
  );
}

const MAX_NAMED_LEASES = 5;

function connected({ connectivity }: WholePlan): Report {
  const { lost, expired, counted } = connectivity;
  const zones = lostZones(connectivity);
  if (!lost && zones.length === 0) return isTrue('LeasesRenewed', 'Most nodes renew their Leases');
  const list = expired.slice(0, MAX_NAMED_LEASES).map(({ name, renewedAt }) => `${name} since ${rfc3339(renewedAt)}`);
  const oldest = list.length === 0 ? '' : ` (${list.join(', ')})`;
  const where = lost ? '' : ` in the zone ${namesOf(zones)}`;
  const message =
    `No update or drain starts${where}: ${expired.length} of ${counted} nodes that are not updating have not renewed their Leases${oldest}. ` +
    'Updates continue by themselves when they do; look for a failure of the network, of a zone or of the control plane';
  return isFalse('LeasesExpired', message);
}

const WINDOW_MESSAGES = {
  NoWindows: 'No windows are configured: updates may start at any time',
  InWindow: 'A maintenance window is open',
  OutsideWindows: 'No maintenance window is open',
  Blackout: 'No update or drain starts during this blackout',
} as const;

function windowOpen({ forecast: { window, nextOpenAt } }: Pick<Rollout, 'forecast'>): Report {
  const { open, reason, until, blackout } = window;
  const why = blackout?.reason === undefined ? '' : `: ${blackout.reason}`;
  const closes = open && until !== undefined ? `, until ${rfc3339(until)}` : '';
  const opens = !open && nextOpenAt !== undefined ? `; the next opens at ${rfc3339(nextOpenAt)}` : '';
  const message = `${WINDOW_MESSAGES[reason]}${why}${closes}${opens}`;
  return { status: open ? 'True' : 'False', reason, message };
}

const NOT_REPORTED = ['Waiting', 'the others have not reported yet'] as const;

function progressing({ counts, forecast, policy }: Rollout): Report {
  const { managed, upToDate, updating } = counts;
  const { completionTime } = forecast;
  const by = completionTime === undefined ? '' : `; expected to be complete by ${completionTime}`;
  const tally = `${upToDate} of ${managed} nodes are up to date`;
  if (managed === 0) {
    const which = policy.nodeSelector === undefined ? '' : ' and that spec.nodeSelector selects';
    return isFalse('NoNodes', `There is no node with the label of managed nodes${which}`);
  }
  if (policy.problem !== undefined) {
    const message = `${tally}, ${updating} updating, and no other update starts: ${policy.problem}`;
    return { status: updating > 0 ? 'True' : 'False', reason: 'InvalidConfiguration', message };
  }
  if (updating > 0) return isTrue('Updating', `${tally}, ${updating} updating${by}`);
  if (upToDate === managed) return isFalse('UpToDate', 'All nodes are up to date');
  const [reason, why] = describeWaiting(counts, forecast) ?? NOT_REPORTED;
  return isFalse(reason, `${tally}; ${why}${by}`);
}

/** The most frequent reason of the nodes that wait; without one, of those that failed. */
function describeWaiting(
  { failed }: Rollout['counts'],
  { waitingReasons, failedReasons }: Rollout['forecast'],
): [reason: Reason, text: string] | undefined {
  const [waiting] = byFrequency(waitingReasons);
  const others = failed === 0 ? '' : `, ${failed} failed`;
  if (waiting !== undefined) return [waiting[0], `${waiting[1]} waiting: ${waiting[0]}${others}`];
  const [reason] = byFrequency(failedReasons)[0] ?? [];
  return reason === undefined ? undefined : [reason, `${failed} failed: ${reason}`];
}

function degraded(plan: WholePlan): Report {
  const { uncreated, orphanedNodes, progress, groups } = plan;
  const others = [
    ...describeUnhealthy(plan),
    ...describeUncreated(uncreated),
    ...describeOrphaned(orphanedNodes),
    ...describeGroups(groups),
    ...describeUnapplied(groups),
  ];
  return evaluateNodes(plan, progress, others);
}

function evaluateNodes(
  { policy: { problem }, counts, forecast, stuckNodes, lost }: Rollout,
  progress: Progress | undefined,
  more: readonly string[],
): Report {
  if (problem !== undefined) return isTrue('InvalidConfiguration', problem);
  const { failed } = counts;
  const needed = countsByReason(forecast.needAttention);
  const counted = [...needed, ...(stuckNodes.length > 0 ? [describeStuck(stuckNodes)] : [])].join(', ');
  const found = [
    ...(counted === '' ? [] : [`${counted}; kubectl get brs -A -o wide shows the nodes and reasons`]),
    ...describeLost(lost),
    ...more,
  ];
  const others = found.length === 0 ? '' : `Nodes need attention: ${found.join('; ')}`;
  if (progress?.isLate === true)
    return isTrue('ProgressDeadlineExceeded', describeLate(progress, describeWaiting(counts, forecast), others));
  if (others !== '') return isTrue('NodesNeedAttention', others);
  if (failed === 0) return isFalse('AsExpected', 'No node needs attention');
  const nodes = failed === 1 ? 'node' : 'nodes';
  return isTrue('NodesFailed', `The latest attempt failed on ${failed} ${nodes}; retried automatically`);
}

const MAX_CHANGES = 10;

/** A record keeps the defaults as they were when the spec was last changed (ADR 19). */
function pendingChanges({ policy }: WholePlan): Report {
  const list = describeChanges(policy.pendingChanges);
  if (list === undefined) return isFalse('NoOtherDefaults', 'The next change of the spec changes nothing else');
  return isTrue(
    'OtherDefaults',
    `This release has other defaults. The next change of the spec will also change ${list}`,
  );
}

function describeChanges(pending: readonly Difference[]): string | undefined {
  const changes = pending.map(
    ({ field, before, after }) => `spec.${field} from ${valueOf(before)} to ${valueOf(after)}`,
  );
  if (changes.length === 0) return undefined;
  return firstFew(changes, MAX_CHANGES, 'more fields');
}

function valueOf(value: unknown): string {
  return value === undefined ? 'none' : shorten(typeof value === 'string' ? value : JSON.stringify(value), 100);
}

function describeLate(
  { lastProgressAt }: Progress,
  waiting: ReturnType<typeof describeWaiting>,
  others: string,
): string {
  const late = `No node has succeeded since ${rfc3339(lastProgressAt)}, which is longer than spec.rollout.progressDeadline allows`;
  const why = waiting === undefined ? '' : `; ${waiting[1]}`;
  return others === '' ? `${late}${why}` : `${late}${why}. ${others}`;
}

/** A condition whose other status is the bad one keeps the whole fleet from updating. */
function describeUnhealthy({ counts: { managed, updating, upToDate }, forecast: { reasons } }: WholePlan): string[] {
  const unhealthy = reasons.get('NodeUnhealthy') ?? 0;
  if (unhealthy < 2 || updating > 0 || unhealthy < managed - upToDate) return [];
  return [
    `all ${unhealthy} nodes that wait are unhealthy (NodeUnhealthy). If that is wrong, a condition of spec.health.conditions is ` +
      'good when True: name its bad status, such as KernelReady=False',
  ];
}

function describeUncreated(uncreated: WholePlan['uncreated']): string[] {
  const [problem] = uncreated.values();
  if (problem === undefined) return [];
  return [`the shadows of ${namesOf([...uncreated.keys()])} cannot be created: ${shorten(problem, MAX_MESSAGE)}`];
}

function describeGroups(groups: WholePlan['groups']): string[] {
  const invalid = groups.filter(({ group }) => group.problem !== undefined).map(({ group }) => group.name);
  return invalid.length === 0 ? [] : [`these groups have a mistake: ${namesOf(invalid)}; see kubectl describe brng`];
}

/** Nodes with these may be up to date, so no count of nodes has them. */
const UNCOUNTED = {
  SettingsConflict: 'users have set other values than these groups on hosts',
  Conflict: 'other writers have set other labels, annotations or taints than these groups on Nodes',
  WriteRejected: 'labels, annotations or taints of these groups are rejected',
};

function describeUnapplied(groups: WholePlan['groups']): string[] {
  const result = groups.map(({ group, metadata, settings }) => {
    const reasons: string[] = [evaluateSettings(settings).reason, metadataApplied({ group, metadata }).reason];
    return { name: group.name, reasons };
  });
  return Object.entries(UNCOUNTED).flatMap(([reason, text]) => {
    const names = result.filter(({ reasons }) => reasons.includes(reason)).map(({ name }) => name);
    return names.length === 0 ? [] : [`${text} (${reason}): ${namesOf(names)}; see kubectl describe brng`];
  });
}

function describeOrphaned(nodes: readonly string[]): string[] {
  if (nodes.length === 0) return [];
  return [`orphaned annotations on ${namesOf(nodes)}: no update of the operator set them; see kubectl describe node`];
}
