/**
 * The nodes that did not return from their reboot, and the taint by which Kubernetes takes their volumes away.
 *
 *     staging, draining, activating                     not away
 *     drained, reboot requested, Node not Ready         away: a taint of the operator stays, also while connectivity is lost
 *     away, the kubelet silent for spec.lostNode.after  lost; with the action OutOfServiceTaint the taint is set, with an
 *                                                       annotation that records it
 *     Ready, another boot ID, or a result of the agent  returned: the taint is removed, as it is when the label is removed,
 *                                                       the update ended, or the action is Report
 *
 * That the drain is over is what the apiserver recorded, since an agent may report anything. A kubelet counts as silent
 * when Ready is Unknown, which kube-controller-manager writes, and its Lease has expired, if it has one. Whatever cannot
 * be read speaks against a loss.
 *
 * While connectivity is lost or a watch is stale, no node is lost: the silence has another cause. Only a node that was
 * drained for its reboot, and is still cordoned for it, is ever tainted. A taint of another actor is never touched, nor is
 * one of the operator set again that another actor removed.
 */
import { namesOf } from '@brupop/shared/runtime/errors';
import { OUT_OF_SERVICE_TAINT } from '@brupop/shared/api/names';
import type { EventSource } from '@brupop/shared/kube/events';
import { cordonedByUs } from '@brupop/shared/node/ownership';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { lossOf } from '../cluster/connectivity.ts';
import { isManaged, type NodeView, outOfServiceByUs } from '../cluster/node.ts';
import { isPair, type ManagedNode, type NodePair } from '../cluster/snapshot.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import { drainEnd, latestTime, rebootOf } from '../plan/facts/deadlines.ts';
import type { FleetState } from '../plan/fleet/fleet-state.ts';
import { eventOn } from '../plan/specs/spec-change.ts';
import type { Moment } from '../kept/moment.ts';
import { ofParts, type Parts } from '../kept/parts.ts';

export interface LostNode {
  readonly name: string;
  readonly message: string;
  readonly event: EventSource;
}

export interface OutOfServiceChange {
  readonly node: NodeView;
  readonly wanted: boolean;
  /** Undefined: there was no taint. */
  readonly event: EventSource | undefined;
}

export interface LostNodes {
  readonly lost: readonly LostNode[];
  readonly outOfService: readonly OutOfServiceChange[];
  /** When a node may become lost, epoch milliseconds. */
  readonly lostTimes: readonly (number | undefined)[];
}

export function lostNodesOf(
  managedNodes: Parts<ManagedNode>,
  { policy, stale, connectivity, moment: now }: Pick<FleetState, 'policy' | 'stale' | 'connectivity' | 'moment'>,
): LostNodes {
  const isKnown = (node: NodeView): boolean => stale.length === 0 && !lossOf(connectivity, node).lost;
  const concerned = concernedIn(managedNodes).flat();
  const away = concerned.filter((one) => one.shadow?.state === 'Away').filter(isPair);
  const counted = away.filter(({ node }) => isManaged(node) && isKnown(node));
  const times = new Map<ManagedNode, number | undefined>(counted.map((pair) => [pair, lostAt(pair, policy, now)]));
  const lost = counted.filter((one) => now.reached(times.get(one) ?? Infinity));
  const isLost = new Set<ManagedNode>(lost);
  return {
    lost: lost.map(lostNode),
    outOfService: concerned.flatMap((one) => outOfServiceChange(one, isLost.has(one), policy) ?? []),
    lostTimes: [...times.values()],
  };
}

/** The others are not lost, and have no taint of the operator. */
const concernedIn = ofParts((part: readonly ManagedNode[]) =>
  part.filter(({ node, shadow }) => shadow?.state === 'Away' || (node !== undefined && outOfServiceByUs(node))),
);

function lostNode({ name, node, shadow }: NodePair): LostNode {
  const { uid, generation = 0 } = shadow.metadata;
  const message =
    `The node is lost: it was drained, its host was asked to reboot into ${shadow.spec.version ?? '?'}, and its kubelet and agent have not ` +
    `reported since ${node.readySince === undefined ? '?' : rfc3339(node.readySince)}. Look at the host. The node holds its update slot, and continues when it comes ` +
    `back; if the host is gone: kubectl delete node ${name}`;
  return { name, message, event: eventOn(node, shadow, { reason: 'NodeLost', message, key: `${uid}/${generation}` }) };
}

/** For the condition Degraded. */
export function describeLost(lost: readonly LostNode[]): string[] {
  return lost.length === 0 ? [] : [`lost in the reboot of their update: ${namesOf(lost.map(({ name }) => name))}`];
}

function outOfServiceChange(
  managedNode: ManagedNode,
  isLost: boolean,
  { lostNode: { action } }: UpdatePolicy,
): OutOfServiceChange | undefined {
  const { node, shadow } = managedNode;
  if (node === undefined) return undefined;
  const isAsked = action === 'OutOfServiceTaint' && isManaged(node);
  const key = node.metadata.resourceVersion;
  if (outOfServiceByUs(node)) {
    const isKept = isAsked && isPair(managedNode) && isAway(managedNode);
    return isKept ? undefined : endOf(node, shadow);
  }
  if (!isAsked || !isLost || !mayTaint(node)) return undefined;
  const message = `Set the taint ${OUT_OF_SERVICE_TAINT}: the node is lost, and spec.lostNode.action is ${action}`;
  return { node, wanted: true, event: eventOn(node, shadow, { reason: 'OutOfService', message, key }) };
}

/** Without an Event if there is no taint: a kubelet may set the annotation alone. */
function endOf(node: NodeView, shadow: ManagedNode['shadow']): OutOfServiceChange {
  const message = `Removed the taint ${OUT_OF_SERVICE_TAINT} that the operator had set`;
  const key = node.metadata.resourceVersion;
  const event = eventOn(node, shadow, { reason: 'OutOfServiceEnded', message, key });
  return { node, wanted: false, event: node.hasOutOfServiceTaint ? event : undefined };
}

/** Also true of the Node as it is when it is tainted: nothing may have been scheduled to it since its drain. */
export function mayTaint(node: NodeView): boolean {
  const isDrained = node.unschedulable && cordonedByUs(node);
  return isDrained && node.isUnreachable && !node.hasOutOfServiceTaint && !outOfServiceByUs(node);
}

/** A Lease that is renewed again causes no plan, so a node that only waits for it is evaluated again after this time. */
const LEASE_PERIOD_MS = 10_000;

/** True from the reboot of a drained node until it is Ready, has booted, or its agent has a result. */
function isAway({ node, shadow }: NodePair): boolean {
  const reboot = rebootOf(shadow);
  if (reboot === undefined) return false;
  return !node.ready && node.bootID === reboot.bootID && shadow.status?.bootID === reboot.bootID;
}

/** Returns when the node counts as lost, epoch milliseconds; undefined: not as it is now. */
function lostAt(pair: NodePair, policy: UpdatePolicy, now: Moment): number | undefined {
  const { node, shadow, leaseExpired } = pair;
  const silentSince = node.isUnreachable ? node.readySince : undefined;
  const drainedAt = drainEnd(shadow);
  if (silentSince === undefined || drainedAt === undefined || !isAway(pair)) return undefined;
  const { startTime, lastUpdateTime } = rebootOf(shadow) ?? {};
  const requestedAt = latestTime([parseTime(startTime), parseTime(lastUpdateTime)], now) ?? 0;
  const since = Math.max(silentSince, drainedAt, requestedAt, policy.deadlinesFrom ?? 0);
  return Math.max(since + policy.lostNode.afterMs, leaseExpired === false ? now.ms + LEASE_PERIOD_MS : 0);
}
