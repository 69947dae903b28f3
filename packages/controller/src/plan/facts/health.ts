/**
 * Whether a node is healthy: before its update, as a gate, and after it, while it is monitored. It is
 * healthy after its update when
 *
 *     the Node is Ready, and its agent has reported since the boot that it runs the version
 *     no condition of spec.health.conditions is True
 *     the pods of DaemonSets on it are Ready, except those that were not before the drain
 *
 * all of that for spec.monitoring.healthyFor. Pods are not watched: those of a monitored node are
 * listed when it is otherwise healthy, every RECHECK_MS while some are not Ready, and once more at the
 * end. Of workloads, only DaemonSets tell about the node: other pods may have moved to any node.
 */
import { CORDONED_ANNOTATION, UNREADY_BEFORE_ANNOTATION } from '@brupop/shared/api/names';
import { sameVersion } from '@brupop/shared/api/version';
import { cordonedByUs } from '@brupop/shared/node/ownership';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { NodeView } from '../../cluster/node.ts';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { NodePair } from '../../cluster/snapshot.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import { isOverdue, stateSince } from './deadlines.ts';
import type { Drainable } from './drainability.ts';

interface MonitoringInput extends Pick<NodePair, 'node' | 'shadow'> {
  readonly policy: UpdatePolicy;
  readonly drain: () => Drainable;
  readonly now: number;
}

export interface Monitoring {
  /** Why the node is not healthy, if known. */
  readonly problem?: string | undefined;
  /** Only another attempt, or Idle, repairs it. */
  readonly lasting?: boolean;
  /** When it will have been healthy for long enough, epoch milliseconds; undefined: not known yet. */
  readonly healthyAt?: number;
  /** The pods on the node must be listed. */
  readonly lookUp?: boolean;
  /** When they must be listed, epoch milliseconds. */
  readonly recheckAt?: number;
}

const RECHECK_MS = 5_000;
const MAX_NAMED = 3;

/** Returns what is wrong with the Node, or undefined. */
export function problemCondition(
  { conditions }: NodeView,
  { health }: Pick<UpdatePolicy, 'health'>,
): string | undefined {
  const found = conditions.find((type) => health.conditions.includes(type));
  return found && `the Node has the condition ${found}`;
}

/** Judges a node whose spec calls for MonitoringUpdate; of others it says nothing. While connectivity is lost, it has no end. */
export function monitoringOf(input: MonitoringInput): Monitoring {
  const { shadow, node, policy } = input;
  if (shadow.spec.state !== 'MonitoringUpdate') return {};
  const temporary = temporaryProblem(shadow, node);
  if (temporary !== undefined) return { problem: temporary };
  const lasting = lastingProblem(shadow, node);
  if (lasting !== undefined) return { problem: lasting, lasting: true };
  const problem = problemCondition(node, policy);
  return problem === undefined ? endOf(input) : { problem };
}

function endOf(input: MonitoringInput): Monitoring {
  const { shadow, node, policy, now } = input;
  const { deadlinesFrom = 0, isSuspended = false, health, monitoring } = policy;
  if (isSuspended) return {};
  const start = Math.max(stateSince(shadow.spec, now) ?? now, deadlinesFrom);
  const since = Math.max(start, parseTime(node.readySince) ?? start);
  return health.daemonSets === 'Ignored' ? { healthyAt: since + monitoring.healthyForMs } : podsOf(input, start, since);
}

/** `since`: when everything but its pods became healthy. */
function podsOf({ shadow, policy, drain, now }: MonitoringInput, start: number, since: number): Monitoring {
  const { seenAt, problem, daemonPods, recheckAt: laterAt } = drain();
  const isListed = seenAt !== undefined && (seenAt >= start || isRecent(seenAt, now));
  if (!isListed) return { lookUp: true, problem: problem && `the pods on the node cannot be listed: ${problem}` };
  const { unready, readySince } = daemonPods();
  const broken = notBefore(unready, shadow);
  // A node past its deadline may stay as it is for days.
  const recheckAt = isOverdue(shadow, policy, now) ? laterAt : seenAt + RECHECK_MS;
  if (broken.length > 0) return { problem: describe(broken), lookUp: now >= recheckAt, recheckAt };
  const healthyAt = Math.max(since, readySince) + policy.monitoring.healthyForMs;
  return now >= healthyAt && !isRecent(seenAt, now) ? { lookUp: true } : { healthyAt };
}

function notBefore(unready: readonly string[], { metadata: { annotations = {} } }: ShadowView): string[] {
  const before = (annotations[UNREADY_BEFORE_ANNOTATION] ?? '').split(',');
  return unready.filter((name) => !before.includes(name));
}

function isRecent(seenAt: number, now: number): boolean {
  return now - seenAt < RECHECK_MS;
}

function describe(daemonSets: readonly string[]): string {
  const more = daemonSets.length > MAX_NAMED ? ` and ${daemonSets.length - MAX_NAMED} more` : '';
  return `on it, the pods of these DaemonSets are not Ready: ${daemonSets.slice(0, MAX_NAMED).join(', ')}${more}`;
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
