/**
 * Whether a node is healthy: before its update, as a gate, and after it, while it is monitored. It is
 * healthy after its update when
 *
 *     the Node is Ready, and its agent has reported since the boot that it runs the version
 *     no condition of spec.health.conditions has its bad status
 *     the workloads whose pods its drain evicted have no pod elsewhere that is not Ready, if asked for
 *     the members of quorums that were on it are Ready again, wherever they are
 *     the checks after the update pass: their Jobs run once all of this holds
 *
 * all of that for spec.monitoring.healthyFor. Pods are not watched: those of a monitored node are
 * listed when it is otherwise healthy, every RECHECK_MS while some are not Ready, and once more at the
 * end.
 */
import { isFromFuture } from '@brupop/shared/api/deadlines';
import { CORDONED_ANNOTATION } from '@brupop/shared/api/names';
import { formatDuration } from '@brupop/shared/api/spec-schema';
import { sameVersion } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import { firstFew } from '@brupop/shared/runtime/errors';
import { cordonedByUs } from '@brupop/shared/node/ownership';
import { offers } from '../../cluster/needs.ts';
import type { NodeView } from '../../cluster/node.ts';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { NodePair } from '../../cluster/snapshot.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import { isOverdue, stateSince } from './deadlines.ts';
import type { Drainable, PodHealth } from './drainability.ts';
import { type Checks, probesOf, problemIn } from './query-checks.ts';
import { type JobProgress, jobsAfter, progressOf } from './jobs.ts';
import type { Quorums } from './quorums.ts';
import { byPrecedence, isObserved, isTrusted } from './suspects.ts';
import type { Workloads } from './workloads.ts';
import type { Moment } from '../../kept/moment.ts';

export interface MonitoringInput extends Pick<NodePair, 'node' | 'shadow'> {
  readonly policy: UpdatePolicy;
  readonly drain: () => Drainable;
  readonly checks: Checks;
  readonly workloads: Workloads;
  readonly quorums: Quorums;
  readonly now: Moment;
}

export interface Monitoring {
  /** Why the node is not healthy, if known. */
  readonly problem?: string | undefined;
  /** Only another attempt, or Idle, repairs it. */
  readonly lasting?: boolean;
  /** The controller cannot tell. */
  readonly isUnknown?: boolean;
  /** When it will have been healthy for long enough, epoch milliseconds; undefined: not known yet. */
  readonly healthyAt?: number;
  /** The pods on the node must be listed. */
  readonly lookUp?: boolean;
  /** When they must be listed, epoch milliseconds. */
  readonly recheckAt?: number;
  /** The Jobs of the checks after the update. */
  readonly jobs?: JobProgress;
}

const RECHECK_MS = 5_000;

/** Returns what is wrong with the Node, or undefined. */
export function problemCondition(
  { conditions }: NodeView,
  { health }: Pick<UpdatePolicy, 'health'>,
  before: readonly string[] = [],
): string | undefined {
  const found = conditions.find((type) => health.conditions.includes(type) && !before.includes(recordOf(type)));
  return found && `the Node has the condition ${found}`;
}

/** Their controllers. */
function unhealthyPods(
  { failing, notReadySince }: PodHealth,
  { health: { podGracePeriodMs } }: Pick<UpdatePolicy, 'health'>,
  now: Moment,
): Pick<PodHealth, 'failing' | 'unready'> {
  const overdue = [...notReadySince].filter(([, since]) => now.reached(since + podGracePeriodMs)).map(([name]) => name);
  return { failing, unready: overdue.filter((name) => !failing.includes(name)).toSorted() };
}

/** How long a node waits for unhealthy pods, milliseconds: less if only users without trust may have caused that. */
const WAIT_MS = 60 * 60_000;
const SHORT_WAIT_MS = 30 * 60_000;

/** Until when a node waits for unhealthy pods on it that other nodes go before, epoch milliseconds. */
export function waitsForPodsUntil(
  { shadow, policy, drain }: Pick<MonitoringInput, 'shadow' | 'policy' | 'drain'>,
  ownNamespace: string,
  now: Moment,
): number {
  const { failing, unready } = unhealthyPods(drain().podHealth(), policy, now);
  const isAnyTrusted = [...failing, ...unready].some((name) => isTrusted(name, policy, ownNamespace));
  return (podsWaitSince(shadow, now) ?? now.ms) + (isAnyTrusted ? WAIT_MS : SHORT_WAIT_MS);
}

/** Longer than from one monthly window to the next, so that a node is not delayed in each of them. */
const WAITED_MS = 36 * 24 * 60 * 60_000;

/** Since when the node waits for unhealthy pods; undefined also when that was long ago, or by a clock that was wrong. */
export function podsWaitSince({ record }: ShadowView, now: Moment): number | undefined {
  const since = parseTime(record.podsWaitSince);
  return since === undefined || isFromFuture(since, now.ms) || now.ms > since + WAITED_MS ? undefined : since;
}

/** Returns what is wrong with the pods on a node before its update, or undefined. */
export function problemBefore(
  health: PodHealth,
  policy: Pick<UpdatePolicy, 'health'>,
  now: Moment,
): string | undefined {
  const { failing, unready } = unhealthyPods(health, policy, now);
  if (failing.length === 0 && unready.length === 0) return undefined;
  const grace = formatDuration(policy.health.podGracePeriodMs);
  return [
    ...named('pods of these controllers on the node cannot start', failing),
    ...named(`pods of these controllers on the node have not been Ready for ${grace}`, unready),
  ].join('; ');
}

/** Nothing without a name. */
function named(what: string, names: readonly string[]): string[] {
  return names.length === 0 ? [] : [`${what}: ${firstFew(names)}`];
}

/** Of `Type` or `Type=Status`. */
function typeOf(condition: string): string {
  return condition.split('=', 1)[0] ?? condition;
}

/** As {@link unhealthyNow} names a condition. */
function recordOf(condition: string): string {
  return `condition ${condition}`;
}

export interface BeforeDrain {
  /** What is not healthy on the node. */
  readonly unreadyBefore: readonly string[];
  /** The workloads that must be Ready again after the update, by precedence. */
  readonly evictedWorkloads: readonly string[];
  /** The workloads whose pods are Ready on the node, and how many seconds they took, by precedence. */
  readonly readyBefore: ReadonlyMap<string, number>;
  /** What these find on the node. */
  readonly needsBefore: ReadonlyMap<string, readonly string[]>;
}

/** Returns what is recorded of a node before its drain. */
export function beforeDrainOf(
  input: Pick<MonitoringInput, 'node' | 'policy' | 'drain'> & { readonly ownNamespace: string },
): BeforeDrain {
  const { node, policy, drain, ownNamespace } = input;
  const { evicted, ready, needs } = drain().podHealth();
  const rankOf = (workload: string): number => (isTrusted(workload, policy, ownNamespace) ? 0 : 1);
  return {
    unreadyBefore: unhealthyNow(input),
    evictedWorkloads: policy.health.workloads === 'Required' ? byPrecedence(evicted, (name) => name, rankOf) : [],
    readyBefore: new Map(isObserved(policy) ? byPrecedence([...ready], ([name]) => name, rankOf) : []),
    needsBefore: new Map([...needs].map(([name, all]) => [name, all.filter((need) => offers(node, need))])),
  };
}

/** Returns what does not count against the update that is about to drain the node. */
function unhealthyNow({ node, policy, drain }: Pick<MonitoringInput, 'node' | 'policy' | 'drain'>): string[] {
  const { unready, failing, crashing } = drain().podHealth();
  const conditions = node.conditions.filter((type) => policy.health.conditions.includes(type)).map(recordOf);
  return [...conditions, ...unready, ...new Set([...failing, ...crashing])];
}

/** Evaluates a node whose spec calls for MonitoringUpdate; of others it says nothing. While connectivity is lost, it has no end. */
export function monitoringOf(input: MonitoringInput): Monitoring {
  const { shadow, node, policy } = input;
  if (shadow.spec.state !== 'MonitoringUpdate') return {};
  const temporary = temporaryProblem(shadow, node);
  if (temporary !== undefined) return { problem: temporary };
  const lasting = lastingProblem(shadow, node);
  if (lasting !== undefined) return { problem: lasting, lasting: true };
  const problem = problemCondition(node, policy, unreadyBefore(shadow));
  if (problem !== undefined) return { problem };
  return policy.isSuspended === true ? {} : checksOf(input);
}

/** Pods are not listed while Jobs run. */
function checksOf(input: MonitoringInput): Monitoring {
  const jobs = progressOf(jobsAfter(input), input);
  if (jobs.failed !== undefined) return { problem: jobs.failed.message, jobs };
  if (jobs.isStarted && !jobs.isDone) return { problem: jobs.waitsFor, jobs };
  const end = endOf(input);
  if (end.healthyAt === undefined) return end;
  const away = workloadsOf(input) ?? membersAway(input);
  // Queries are asked meanwhile: the lists of a large cluster take longer than a query may be left out.
  const found = jobs.isDone ? queriesOf(input, end.healthyAt) : { problem: jobs.waitsFor };
  return away ?? { ...found, jobs };
}

/** By the latest list after the update, but for those that were not Ready before it. */
export function areDaemonSetsReady(input: MonitoringInput): boolean {
  const { shadow, node, policy, drain, now } = input;
  if (temporaryProblem(shadow, node) !== undefined) return false;
  if (policy.health.daemonSets === 'Ignored') return true;
  const { seenAt, podHealth } = drain();
  const before = unreadyBefore(shadow);
  const isCurrent = seenAt !== undefined && seenAt >= (stateSince(shadow, now) ?? now.ms);
  return isCurrent && podHealth().unready.every((name) => before.includes(name));
}

/** Undefined: those whose pods the drain evicted are Ready, but for pods that wait to be scheduled. */
function workloadsOf({ shadow, policy, workloads, now }: MonitoringInput): Monitoring | undefined {
  const evicted = policy.health.workloads === 'Required' ? (shadow.record.evictedWorkloads ?? []) : [];
  if (evicted.length === 0) return undefined;
  const found = workloads.notReadyOf(evicted);
  const isCurrent = found !== undefined && workloads.asOf >= (stateSince(shadow, now) ?? now.ms) + 1_000;
  if (!isCurrent) {
    const { problem } = workloads;
    return { isUnknown: true, problem: problem && `the pods of the cluster cannot be listed: ${problem}` };
  }
  if (found.length === 0) return workloads.counts ? undefined : { isUnknown: true };
  return { problem: `these workloads, whose pods its drain evicted, are not Ready again: ${firstFew(found)}` };
}

/** Undefined: the members of quorums that were on the node are Ready again. */
function membersAway({ shadow, quorums, now }: MonitoringInput): Monitoring | undefined {
  return quorums.whyNotBack(shadow, (stateSince(shadow, now) ?? now.ms) + 1_000);
}

/**
 * Answers from before the update do not count. The time in the spec has no fraction of a second. What has not passed for long
 * enough because nothing is known of the time before, as after a change of the leader, is no reason for a failure.
 */
function queriesOf({ shadow, policy, checks, now }: MonitoringInput, healthyAt: number): Monitoring {
  const { healthyForMs } = policy.monitoring;
  const since = stateSince(shadow, now) ?? now.ms;
  const found = checks.all(probesOf(policy, 'After'));
  const problem = problemIn(found);
  if (problem !== undefined) return { problem };
  const passed = found.flatMap(({ latest }) => (latest === undefined || latest.at < since + 1_000 ? [] : [latest]));
  const isHealthy = now.reached(healthyAt);
  if (passed.length < found.length) return { isUnknown: isHealthy };
  const passedAt = Math.max(healthyAt, ...passed.map((one) => one.since + healthyForMs));
  return { healthyAt: passedAt, isUnknown: isHealthy && passed.some(({ isCut }) => isCut === true) };
}

function endOf(input: MonitoringInput): Monitoring {
  const { shadow, node, policy, now } = input;
  const { deadlinesFrom = 0, health, monitoring } = policy;
  const start = Math.max(stateSince(shadow, now) ?? now.ms, deadlinesFrom);
  const cleared = health.conditions.map((condition) => node.clearedAt[typeOf(condition)] ?? 0);
  const since = Math.max(start, node.readySince ?? start, ...cleared);
  const isWithoutPods = health.daemonSets === 'Ignored' && health.pods !== 'Required';
  return isWithoutPods ? { healthyAt: since + monitoring.healthyForMs } : podsOf(input, start, since);
}

/** `since`: when everything but its pods became healthy. */
function podsOf({ shadow, policy, drain, now }: MonitoringInput, start: number, since: number): Monitoring {
  const { seenAt, problem, podHealth, recheckAt: laterAt } = drain();
  // What was found before the lists failed may have passed since.
  const from = problem === undefined ? start : Infinity;
  const isListed = seenAt !== undefined && (seenAt >= from || isRecent(seenAt, now));
  if (!isListed) return notListed(problem);
  const health = podHealth();
  const readySince = policy.health.daemonSets === 'Required' ? health.readySince : 0;
  const broken = problemOfPods(health, { shadow, policy, now });
  // A node past its deadline may stay as it is for days.
  const recheckAt = isOverdue(shadow, policy, now) ? laterAt : seenAt + RECHECK_MS;
  if (broken !== undefined) return { problem: broken, lookUp: now.reached(recheckAt), recheckAt };
  const healthyAt = Math.max(since, readySince) + policy.monitoring.healthyForMs;
  return now.reached(healthyAt) && !isRecent(seenAt, now) ? { lookUp: true, isUnknown: true } : { healthyAt };
}

function notListed(problem: string | undefined): Monitoring {
  return { lookUp: true, isUnknown: true, problem: problem && `the pods on the node cannot be listed: ${problem}` };
}

function problemOfPods(
  { unready, failing, restarts }: PodHealth,
  { shadow, policy: { health, monitoring }, now }: Pick<MonitoringInput, 'shadow' | 'policy' | 'now'>,
): string | undefined {
  const before = unreadyBefore(shadow);
  const isNew = (name: string): boolean => !before.includes(name);
  const daemonSets = health.daemonSets === 'Required' ? unready.filter(isNew) : [];
  const controllers = health.pods === 'Required' ? failing.filter(isNew) : [];
  const isRecentlyRestarted = (at: number): boolean => !now.reached(at + Math.max(monitoring.healthyForMs, RECHECK_MS));
  const restarted = health.pods !== 'Required' ? [] : [...restarts].filter(([, at]) => isRecentlyRestarted(at));
  const crashing = restarted.map(([name]) => name).filter((name) => isNew(name) && !controllers.includes(name));
  const found = [
    ...named('the pods of these DaemonSets are not Ready', daemonSets),
    ...named('pods of these controllers cannot start', controllers),
    ...named('pods of these controllers were restarted just now', crashing),
  ];
  return found.length === 0 ? undefined : `on it, ${found.join('; ')}`;
}

function unreadyBefore({ record }: ShadowView): readonly string[] {
  return record.unreadyBefore ?? [];
}

function isRecent(seenAt: number, now: Moment): boolean {
  return !now.reached(seenAt + RECHECK_MS);
}

function temporaryProblem({ status }: ShadowView, node: NodeView): string | undefined {
  if (!node.ready) return 'the Node is not Ready';
  if (status === undefined || (node.bootID !== '' && status.bootID !== '' && status.bootID !== node.bootID)) {
    return 'the agent has not reported since the latest boot';
  }
  return undefined;
}

/** Only another attempt, or Idle, repairs it. */
function lastingProblem({ spec, status }: ShadowView, node: NodeView): string | undefined {
  if (cordonedByUs(node)) return `the Node still has the annotation ${CORDONED_ANNOTATION}`;
  const running = status?.current_version ?? '';
  if (sameVersion(running, spec.version ?? '')) return undefined;
  return `the node runs ${running} instead of ${spec.version ?? 'the new version'}`;
}
