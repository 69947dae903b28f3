/**
 * Gates about one node: whether users want it updated, whether its version may run, and whether it
 * can be disrupted now.
 */
import { isFromFuture } from '@brupop/shared/api/deadlines';
import { NODE_GROUP_KIND, SKIP_ANNOTATION } from '@brupop/shared/api/names';
import { isVersion, sameVersion } from '@brupop/shared/api/version';
import { ownedByUs } from '@brupop/shared/node/ownership';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { shorten } from '@brupop/shared/runtime/errors';
import { isBeingRemoved, isSelected, skippedBy } from '../../cluster/node.ts';
import { podsWaitSince, problemBefore, problemCondition, waitsForPodsUntil } from '../facts/health.ts';
import { type Drainable, isDrainBlocked, nextTryAt } from '../facts/drainability.ts';
import { type Blocked, specRejected } from '../facts/reasons.ts';
import { isRetryRequested } from '../facts/requests.ts';
import type { Gate, GateInput } from './gate.ts';

export const selected: Gate = ({ node, policy }) => (isSelected(node, policy) ? undefined : NOT_SELECTED);

const NOT_SELECTED: Blocked = {
  reason: 'NotSelected',
  message: 'spec.nodeSelector of BrupopConfig "cluster" does not select this node',
};

export const notSkipped = ({ node }: Pick<GateInput, 'node'>): Blocked | undefined => {
  const value = skippedBy(node);
  if (value === undefined) return undefined;
  return { reason: 'Skipped', message: `The Node has the annotation ${SKIP_ANNOTATION}=${shorten(value, 100)}` };
};

export const allowedVersion: Gate = (input) => denied(input) ?? tooYoung(input);

function denied({ version, policy: { versions }, group }: GateInput): Blocked | undefined {
  if (!versions.deny.some((one) => sameVersion(one, version))) return undefined;
  const orGroup = group === undefined ? '' : ` or of ${NODE_GROUP_KIND} "${group.name}"`;
  return {
    reason: 'VersionDenied',
    message: `spec.versions.deny of BrupopConfig "cluster"${orGroup} names ${version}`,
  };
}

function tooYoung({ version, policy: { versions }, isReboot, offeredSince, now }: GateInput): Blocked | undefined {
  const { pin, minimumAgeMs } = versions;
  if (isReboot || pin !== undefined || minimumAgeMs === 0) return undefined;
  const since = offeredSince(version);
  if (since === undefined) return notConfirmed(version);
  if (isFromFuture(since, now)) return fromTheFuture(version, since);
  const retryAt = since + minimumAgeMs;
  if (now >= retryAt) return undefined;
  const message = `${version} has not been available for as long as spec.versions.minimumAge requires; available long enough at ${rfc3339(retryAt)}`;
  return { reason: 'MinimumAgeNotReached', message, retryAt };
}

function notConfirmed(version: string): Blocked {
  const message = `Fewer than two selected nodes run ${version} or are offered it, so spec.versions.minimumAge does not start yet`;
  return { reason: 'MinimumAgeNotReached', message };
}

/** A clock was wrong when the version was first seen, or is wrong now, so its age is unknown. */
function fromTheFuture(version: string, since: number): Blocked {
  const message =
    `status.versions of BrupopConfig "cluster" says that ${version} was first available at ${rfc3339(since)}, which is in the future: ` +
    'check the clock of the controller; if that is right, correct the time with kubectl edit brc cluster --subresource status';
  return { reason: 'MinimumAgeNotReached', message };
}

/** Until a host offers the pinned version, its lock is not in force, or there is no such version. */
export const offeredVersion: Gate = (input) => {
  const { version, status, isReboot } = input;
  if (isReboot || sameVersion(status.target_version, version)) return undefined;
  return { reason: 'VersionNotOffered', message: whyNotOffered(input) };
};

function whyNotOffered({ version, status: { settings }, isRollback }: GateInput): string {
  const trouble = settings?.message;
  if (isRollback) return notOfferedForRollback(version, trouble);
  if (trouble !== undefined) return `The host does not offer the pinned version ${version}: ${trouble}`;
  return (
    `The host does not offer the pinned version ${version}: its repository does not have it, the wave of the host has not come ` +
    '(spec.versions.ignoreWaves), or its agent is of a release that does not set the lock'
  );
}

function notOfferedForRollback(version: string, trouble = 'its repository may no longer have it'): string {
  return (
    `The node is to go back to ${version} (spec.rollout.rollback), which its host does not offer: ${trouble}. ` +
    'Publish it, or set spec.rollout.resume to the current time to leave the node on the version that it runs'
  );
}

export const validVersion: Gate = ({ status, version }) => {
  const unreadable = [status.current_version, version].find((version) => !isVersion(version));
  if (unreadable === undefined) return undefined;
  const message = `The agent reports "${unreadable}" where a version such as 1.20.0 was expected`;
  return { reason: 'InvalidVersion', message };
};

export const nodeReady: Gate = (input) => {
  const { node, isRepair = false } = input;
  return agentCurrent(input) ?? (node.ready || isRepair ? undefined : notReady('The Node is not Ready'));
};

export const agentCurrent: Gate = ({ node, status }) => {
  if (isBeingRemoved(node))
    return notReady('The Node is being deleted, or has a taint that says that its machine is about to be removed');
  const isCurrent = node.bootID === '' || status.bootID === '' || node.bootID === status.bootID;
  return isCurrent ? undefined : notReady('The host has booted since its agent last reported');
};

function notReady(message: string): Blocked {
  return { reason: 'NodeNotReady', message };
}

/** An update would hide the problem, or make it worse. */
export const nodeHealthy: Gate = ({ node, policy }) => {
  const problem = policy.health.unhealthyNodes === 'Wait' ? problemCondition(node, policy) : undefined;
  return problem === undefined ? undefined : { reason: 'NodeUnhealthy', message: `No update starts while ${problem}` };
};

export const notCordonedExternally: Gate = ({ node }) => {
  if (!node.unschedulable || ownedByUs(node)) return undefined;
  const message = 'Another actor has cordoned the Node; it is updated after it is uncordoned';
  return { reason: 'CordonedExternally', message };
};

/** Otherwise the owner of the cordon would be unknown later. */
export const restored: Gate = ({ node }) => {
  if (!ownedByUs(node)) return undefined;
  const message = 'The cordon or load balancer exclusion of an earlier attempt has not been removed yet';
  return { reason: 'CleanupPending', message };
};

/** While the API server rejects the spec, other nodes go first. */
export const writable = ({ writeRejection }: Pick<GateInput, 'writeRejection'>): Blocked | undefined =>
  writeRejection === undefined ? undefined : specRejected(writeRejection);

/** Without capacity the pods are not listed again: the latest list suffices for the reason. */
export const drainNotBlocked: Gate = (input) => {
  const { drain, capacity, now } = input;
  const found = drain();
  const { block, recheckAt } = found;
  if (block === undefined || (capacity === undefined && !isDrainBlocked(found, now))) return undefined;
  const { tryAt, next } = triedAgain(input);
  if (capacity === undefined && tryAt <= now) return undefined;
  const message = `The node cannot be drained: ${block}${next}`;
  return { reason: 'DrainBlocked', message, ...(capacity === undefined && { retryAt: Math.min(recheckAt, tryAt) }) };
};

/** When the node is cordoned although budgets hold its pods, epoch milliseconds. */
function triedAgain({ drain, shadow, version, now }: GateInput): { readonly tryAt: number; readonly next: string } {
  if (!drain().mayOpen) return { tryAt: Infinity, next: '' };
  const tryAt = isRetryRequested(shadow, version) ? 0 : nextTryAt(shadow, now);
  if (tryAt <= now)
    return { tryAt, next: '. It is cordoned for these pods after the other nodes (spec.drain.blockedBudgets)' };
  const message = `. It was cordoned for these pods, and their budgets did not allow an eviction; cordoned again after ${rfc3339(tryAt)} (spec.drain.blockedBudgets)`;
  return { tryAt, next: message };
}

/** As {@link drainNotBlocked}, the pods are listed again only where the node could start. */
export const podsHealthy: Gate = (input) => {
  const { drain, policy, capacity, now, moment } = input;
  const { podsBefore, unhealthyNodes } = policy.health;
  if (podsBefore === 'Ignored' || unhealthyNodes !== 'Wait' || endsNotReady(input)) return undefined;
  const { podHealth, recheckAt } = drain();
  const problem = problemBefore(podHealth(), policy, moment);
  if (problem === undefined || (capacity === undefined && now >= recheckAt)) return undefined;
  const reason = 'NodeUnhealthy';
  const message = `No update starts while ${problem}`;
  const found = { reason, message, ...(capacity === undefined && { retryAt: recheckAt }) } as const;
  return podsBefore === 'Required' ? found : preferred(input, found);
};

/** True for a reboot that is to end that the Node is not Ready: until then no pod on it is Ready either. */
function endsNotReady({ node, isRepair = false }: GateInput): boolean {
  return isRepair && !node.ready;
}

/** Other nodes go first, for a while. */
function preferred(input: GateInput, found: Blocked): Blocked | undefined {
  const { shadow, ownNamespace, now, moment } = input;
  const until = waitsForPodsUntil(input, ownNamespace, moment);
  if (now >= until) return undefined;
  return {
    ...found,
    message: `${found.message}; it starts at ${rfc3339(until)} even so (spec.health.podsBefore)`,
    ...(found.retryAt !== undefined && { retryAt: Math.min(found.retryAt, until) }),
    startsWaiting: podsWaitSince(shadow, moment) === undefined,
  };
}

/**
 * True for a node that does not start by the latest list of its pods: other nodes go first while they are listed again.
 * @param again - why they are; as without a free slot, an old list counts
 */
export function isKeptByPods(input: GateInput, again: Blocked): boolean {
  const { block, mayOpen } = input.drain();
  if (block !== undefined && !mayOpen) return true;
  return !input.isRollback && podsHealthy({ ...input, capacity: again }) !== undefined;
}

/** Pods are not watched: they are listed right before a node starts. */
export const podsListed: Gate = ({ drain }) => {
  const found = drain();
  // One whose pods budgets hold has passed `drainNotBlocked`.
  if (found.fresh && (found.block === undefined || found.mayOpen)) return undefined;
  return podsUnknown(found);
};

export function podsUnknown({ problem }: Pick<Drainable, 'problem'>): Blocked {
  if (problem === undefined)
    return { reason: 'PodListFailed', message: 'The pods on the node are being listed', lookUp: true, isUnknown: true };
  return { reason: 'PodListFailed', message: `The pods on the node are not known: ${problem}`, lookUp: true };
}
