/**
 * Whether a node is lost: it was drained and asked to reboot for its update, and has not returned.
 *
 *     staging, draining, activating                     not away
 *     drained, reboot requested, Node not Ready         away
 *     away, the kubelet silent for spec.lostNode.after  lost
 *     Ready, another boot ID, or a result of the agent  returned: not away
 *
 * That the drain is over is what the apiserver recorded, since an agent may report anything. A kubelet counts as silent
 * when Ready is Unknown, which kube-controller-manager writes, and its Lease has expired, if it has one. Whatever cannot
 * be read speaks against a loss.
 */
import type { LastOperation, ShadowStatus } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { NodePair } from '../../cluster/snapshot.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import { latestTime } from './deadlines.ts';

/** A Lease that is renewed again causes no plan, so a node that only waits for it is judged again after this time. */
const LEASE_PERIOD_MS = 10_000;

/** True from the reboot of a drained node until it is Ready, has booted, or its agent has a result. */
export function isAway({ node, shadow }: NodePair): boolean {
  const reboot = rebootOf(shadow);
  if (reboot === undefined || drainEnd(shadow) === undefined) return false;
  return !node.ready && node.bootID === reboot.bootID && shadow.status?.bootID === reboot.bootID;
}

/** The reboot that the agent has announced for this very update, and has not reported the result of. */
function rebootOf({ spec, status }: ShadowView): LastOperation | undefined {
  const last = status?.lastOperation;
  if (spec.state !== 'RebootedIntoUpdate' || !sameVersion(last?.version, spec.version)) return undefined;
  return last?.operation === 'Reboot' && last.state === 'Processing' ? last : undefined;
}

const EMPTY: readonly (string | undefined)[] = ['Drained', 'Forced'] satisfies NonNullable<
  ShadowStatus['drain']
>['result'][];

/** When the drain for the spec was complete, epoch milliseconds. */
function drainEnd({ metadata: { generation }, status }: ShadowView): number | undefined {
  const { observedGeneration, result, endTime } = status?.drain ?? {};
  return observedGeneration === generation && EMPTY.includes(result) ? parseTime(endTime) : undefined;
}

/** Returns when the node counts as lost, epoch milliseconds; undefined: not as it is now. */
export function lostAt(pair: NodePair, policy: UpdatePolicy, now: number): number | undefined {
  const { node, shadow, leaseExpired } = pair;
  const silentSince = node.isUnreachable ? parseTime(node.readySince) : undefined;
  const drainedAt = drainEnd(shadow);
  if (silentSince === undefined || drainedAt === undefined || !isAway(pair)) return undefined;
  const { startTime, lastUpdateTime } = rebootOf(shadow) ?? {};
  const requestedAt = latestTime([startTime, lastUpdateTime], now) ?? 0;
  const since = Math.max(silentSince, drainedAt, requestedAt, policy.deadlinesFrom ?? 0);
  return Math.max(since + policy.lostNode.afterMs, leaseExpired === false ? now + LEASE_PERIOD_MS : 0);
}
