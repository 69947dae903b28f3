/**
 * Which nodes failed with a version. A failure is one that the version may have caused: the node booted another version, its
 * host does not answer since, or it was not back and healthy in time after its reboot. One between the drain and the reboot
 * counts too, since each node would be drained in vain. Failures before the drain concern the network, a disk or a
 * disruption budget.
 *
 *     the agent or a check reports it, or the deadline passes   the node counts, in this plan already
 *     its attempt ends                                          `failed` in the record of the node has it
 *     it succeeds                                               it no longer counts
 *     its Node or shadow is deleted, or unmanaged               the status of the BrupopConfig keeps it, until all run the
 *                                                               version
 *
 * An agent's word is not enough: the API server has recorded that the node was drained, and its Node shows another boot ID,
 * where the code says that it booted. While the health of a node after its update is not known, it does not count.
 */
import { CLOCK_TOLERANCE_MS } from '@brupop/shared/api/deadlines';
import { type ErrorCode, isErrorCode } from '@brupop/shared/api/error-codes';
import { isLater, sameVersion } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import { groupAtStart, type ShadowView } from '../../cluster/shadow.ts';
import type { NodeView } from '../../cluster/node.ts';
import { isPair, type ManagedNode, type NodePair, type Snapshot } from '../../cluster/snapshot.ts';
import { isAtOrBeyond, type UpdatePolicy, wantedVersion } from '../../policy/policy.ts';
import type { ChecksView } from '../../cluster/checks.ts';
import { deadlineOf, DRAINED, isAccepted, isOverdue } from './deadlines.ts';
import { jobsAfter, progressOf } from './jobs.ts';
import { isTrusted, type SuspectNode, suspectsOf } from './suspects.ts';
import type { VersionCount } from './versions.ts';
import { answers } from '../../cluster/state.ts';
import type { Moment } from '../../kept/moment.ts';
import { ofKey, ofParts, type Parts } from '../../kept/parts.ts';

/**
 * `NotReturned`: no result of the reboot in time. `NotHealthy`: booted the version, and not healthy in time.
 * `CheckFailed`: the Job of a check failed on the version. `WorkloadsFailed`: a workload of a trusted namespace fails on it.
 */
type FailureCode = ErrorCode | (typeof OWN_CODES)[number];
const OWN_CODES = ['NotReturned', 'NotHealthy', 'CheckFailed', 'WorkloadsFailed'] as const;

/** True for a code of this release: a status may have one of another. */
export function isFailureCode(code: string): code is FailureCode {
  return isErrorCode(code) || OWN_CODES.some((one) => one === code);
}

export interface FailedNode {
  readonly name: string;
  readonly version: string;
  /** A {@link FailureCode}, perhaps of another release. */
  readonly code: string;
  /** Epoch milliseconds. */
  readonly since: number;
  /** Its Node does not exist any more, or is not managed. */
  readonly deleted?: boolean;
  /** Of a node of a group that has a budget of its own. */
  readonly group?: string;
}

const CODES: readonly (string | undefined)[] = [
  'RolledBack',
  'WrongVersionBooted',
  'RebootTimedOut',
  'ActivateFailed',
  'RebootRefused',
] satisfies ErrorCode[];
const AFTER_DRAIN: readonly (string | undefined)[] = ['Reboot', 'Restore'];

/** With these the host has not rebooted, or the agent has not reported since. */
const WITHOUT_BOOT: readonly (string | undefined)[] = [
  'NotReturned',
  'RebootTimedOut',
  'ActivateFailed',
  'RebootRefused',
  'StepTimedOut',
] satisfies FailureCode[];

/**
 * True when more than the agent's word says that the node was drained for this attempt: the API server has recorded the
 * end of its drain. The spec may have changed once since, to MonitoringUpdate, or been repaired.
 */
function isDrained({ spec, status, metadata: { generation = 0 } }: ShadowView): boolean {
  if (spec.state !== 'RebootedIntoUpdate' && spec.state !== 'MonitoringUpdate') return false;
  const { observedGeneration = -Infinity, result } = status?.drain ?? {};
  return DRAINED.includes(result) && generation - observedGeneration <= 2;
}

/** True while the Node shows no other boot than before the drain. Without a record any boot counts. */
function hasNotRebooted({ record: { bootBefore } }: ShadowView, { bootID }: NodeView): boolean {
  return bootBefore !== undefined && bootBefore === bootID;
}

/** True when the agent reports the result of a boot that the Node does not show yet; the watches differ for a moment. */
export function isBootUnconfirmed(shadow: ShadowView, node: NodeView): boolean {
  const code = codeOf(shadow);
  return code !== undefined && !WITHOUT_BOOT.includes(code) && isDrained(shadow) && hasNotRebooted(shadow, node);
}

/** What an agent alone claims is no failure of a version. */
function witnessed(code: FailureCode | undefined, shadow: ShadowView, node: NodeView): FailureCode | undefined {
  const hasBooted = WITHOUT_BOOT.includes(code) || !hasNotRebooted(shadow, node);
  return isDrained(shadow) && hasBooted ? code : undefined;
}

function codeOf(shadow: ShadowView): FailureCode | undefined {
  const { bootID, lastOperation } = shadow.status ?? {};
  const { errorCode, operation, bootID: bootBefore } = lastOperation ?? {};
  // Before the boot, the silence of a host has another cause.
  const isLate = errorCode === 'StepTimedOut' || (errorCode === 'HostUnreachable' && bootID !== bootBefore);
  return CODES.includes(errorCode) || (isLate && AFTER_DRAIN.includes(operation)) ? errorCode : undefined;
}

/** Returns the code that the agent reports, unless the version cannot be the cause. */
export function reportedFailure(shadow: ShadowView, node: NodeView): FailureCode | undefined {
  return witnessed(codeOf(shadow), shadow, node);
}

/** Returns what a missed deadline means; undefined before the reboot. */
function missedDeadline(shadow: ShadowView, node: NodeView): FailureCode | undefined {
  const state = shadow.state;
  if (state === 'Proving') return witnessed('NotHealthy', shadow, node);
  const isActivating = shadow.status?.lastOperation?.operation === 'Activate';
  return state === 'Away' && !isActivating ? witnessed('NotReturned', shadow, node) : undefined;
}

/** Returns why an update that ended without a report of its agent counts; undefined before the reboot. */
export function failureAtEnd(shadow: ShadowView, node: NodeView, reason: string | undefined): FailureCode | undefined {
  return reason === 'CheckFailed' ? witnessed(reason, shadow, node) : missedDeadline(shadow, node);
}

/** The nodes that the configuration or a group selects, and their versions. */
export interface SelectedNodes {
  readonly selected: Parts<ManagedNode>;
  readonly versions: readonly VersionCount[];
}

/** Returns the failed nodes, the latest first, without those that a user has accepted. */
export function failedNodes(
  { policy, config, checks: view, ownNamespace, groups }: Snapshot,
  {
    parts,
    selected,
    versions,
    isHealthUnknown,
    stillFails,
    now,
  }: SelectedNodes & AskedOfNode & { readonly parts: Parts<ManagedNode> },
): FailedNode[] {
  const known = recorded(config?.status?.failedNodes);
  const input = { view, isHealthUnknown, stillFails, ownNamespace, fleet: policy, now };
  const mayHaveFailed = concernedIn(parts).flat();
  const current = mayHaveFailed.flatMap((one) => {
    const failure = failureOf(one, known, input);
    if (failure === undefined) return [];
    const group = known.find((other) => isSame(other, failure))?.group ?? laneOf(one, groups);
    return group === undefined ? failure : { ...failure, group };
  });
  const everywhere = versionsIn(known).filter((version) => runsEverywhere(version, selected));
  const before = known.flatMap((one): FailedNode[] => {
    const { name, version, code, since, group } = one;
    const found = nodeOf(name, parts);
    const isCounted = current.some((other) => isSame(one, other));
    if (isCounted || hasRecovered(one, found) || isLeftBehind(one, versions, selected)) return [];
    const isDeleted = found === undefined || wasReplaced(one, found.node);
    if (isDeleted && everywhere.includes(version)) return [];
    const ofGroup = group !== undefined && { group };
    return [{ name, version, code, since, ...(isDeleted && { deleted: true }), ...ofGroup }];
  });
  const counted = [...current, ...before]
    .filter(({ since }) => !isAccepted(since, policy, now))
    .toSorted((a, b) => b.since - a.since || (a.name < b.name ? -1 : 1));
  return latestOfEach(counted);
}

/** A kubelet may let its node fail with one invented version after the other: it forgets them with its label. */
const MAX_OF_NODE = 10;

function latestOfEach(failed: readonly FailedNode[]): FailedNode[] {
  const counts = new Map<string, number>();
  return failed.filter(({ name }) => {
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    return count <= MAX_OF_NODE;
  });
}

/** Of the others nothing says that they failed. */
const concernedIn = ofParts((part: readonly ManagedNode[]) =>
  part.filter(({ shadow }) => {
    if (shadow === undefined) return false;
    return shadow.purpose === 'Update' || shadow.record.failed !== undefined || shadow.record.suspects !== undefined;
  }),
);

const nodeOf = ofKey(({ name }: ManagedNode) => name);

const pinsIn = ofParts((part: readonly ManagedNode[]) => [
  ...new Set(part.flatMap(({ policy: { versions } }) => versions.pin ?? [])),
]);

/** The group with a budget of its own with which the latest update began, whatever labels the Node has since. */
function laneOf({ group, shadow }: ManagedNode, groups: Snapshot['groups']): string | undefined {
  const hasEnded = shadow?.record.succeeded !== undefined || shadow?.record.startedAt === undefined;
  const name = hasEnded ? group?.name : groupAtStart(shadow);
  return groups.find((one) => one.name === name)?.lanes.has('budget') === true ? name : undefined;
}

function isSame(a: FailedNode, b: FailedNode): boolean {
  return a.name === b.name && sameVersion(a.version, b.version);
}

/**
 * It has succeeded since, or its workloads do not fail any more; what another Node of its name does says nothing. A success with
 * the version removes the failure from the record: the clock may have been ahead at the time of the failure.
 */
function hasRecovered(one: FailedNode, { node, shadow }: Partial<ManagedNode> = {}): boolean {
  const { code, version, since } = one;
  if (shadow === undefined || wasReplaced(one, node)) return false;
  if (code === 'WorkloadsFailed') return true;
  const { updated, record } = shadow;
  return (updated?.at ?? 0) >= since || (record.failed === undefined && sameVersion(updated?.version, version));
}

/** True when another Node has the name of the one that failed. Two clocks are compared, so it was created well after the failure. */
function wasReplaced({ since }: FailedNode, node: NodeView | undefined): boolean {
  const createdAt = node?.createdAt;
  return createdAt !== undefined && createdAt > since + CLOCK_TOLERANCE_MS;
}

function versionsIn(failed: readonly FailedNode[]): string[] {
  return [...new Set(failed.map(({ version }) => version))];
}

/** True when no node has to be updated to the version any more. */
function runsEverywhere(version: string, selected: Parts<ManagedNode>): boolean {
  const running = selected.flat().flatMap(({ shadow, policy: { versions } }) => {
    const { current_version: current = '' } = shadow?.status ?? {};
    return current === '' ? [] : [{ current, versions }];
  });
  return running.length > 0 && running.every(({ current, versions }) => isAtOrBeyond(current, version, versions));
}

/** True when all nodes run and are offered later versions, and none is pinned to the version. */
export function isLeftBehind(
  { version }: Pick<FailedNode, 'version'>,
  versions: readonly VersionCount[],
  selected: Parts<ManagedNode>,
): boolean {
  if (versions.length === 0 || !versions.every((one) => isLater(one.version, version))) return false;
  return !pinsIn(selected).some((pins) => pins.some((pin) => sameVersion(pin, version)));
}

/** A shadow without its Node counts until it is deleted. */
function failureOf(
  managedNode: ManagedNode,
  known: readonly FailedNode[],
  input: FailureInput,
): FailedNode | undefined {
  const { name, shadow } = managedNode;
  if (shadow === undefined) return undefined;
  const isCounted = shadow.purpose === 'Update';
  const current = isCounted && isPair(managedNode) ? currentFailure(managedNode, input) : undefined;
  if (current === undefined) return recordedFailure(name, shadow) ?? failureOfWorkloads(managedNode, known, input);
  const found = { name, version: shadow.spec.version ?? '', ...current };
  // A report whose answer cannot be written is not new each time.
  const since = known.find((one) => isSame(one, found) && one.code === found.code)?.since ?? found.since;
  return { ...found, since };
}

/** By then its pods are listed again: what passes within a minute is no failure. */
const LASTING_MS = 90_000;

/**
 * Of the version that the node was updated to. Those that users without trust may cause do not count, nor what was not seen
 * again, unless it was counted before.
 */
function failureOfWorkloads(
  managedNode: ManagedNode,
  known: readonly FailedNode[],
  { ownNamespace, fleet, stillFails, now }: FailureInput,
): FailedNode | undefined {
  if (!isPair(managedNode) || managedNode.shadow.record.suspects === undefined) return undefined;
  const { name, policy } = managedNode;
  return suspectsOf(managedNode, now, fleet)
    .filter(({ workload, at }) => isTrusted(workload, policy, ownNamespace) && now.reached(at + LASTING_MS))
    .map((one) => ({ one, failed: { name, version: one.version, code: 'WorkloadsFailed', since: one.at } }))
    .find(({ one, failed }) => stillFails(one) ?? known.some((other) => isSame(other, failed)))?.failed;
}

interface AskedOfNode {
  /** It is not known whether a node is healthy after its update, such as while its pods cannot be listed. */
  readonly isHealthUnknown: (pair: NodePair) => boolean;
  /** Whether a workload still fails; undefined: that is not known yet. */
  readonly stillFails: (suspect: SuspectNode) => boolean | undefined;
  readonly now: Moment;
}

interface FailureInput extends AskedOfNode {
  readonly ownNamespace: string;
  /** That of the configuration. */
  readonly fleet: UpdatePolicy;
  readonly view: ChecksView;
}

function currentFailure(pair: NodePair, input: FailureInput): Pick<FailedNode, 'code' | 'since'> | undefined {
  const { shadow, node, policy } = pair;
  const { view, now } = input;
  const isReported = answers(shadow) && shadow.status?.current_state === 'ErrorReset';
  const reported = isReported ? reportedFailure(shadow, node) : undefined;
  if (reported !== undefined) return { code: reported, since: now.ms };
  const isFailed = hasFailedCheck({ shadow, policy, checks: { view }, now });
  const checked = isFailed ? witnessed('CheckFailed', shadow, node) : undefined;
  if (checked !== undefined) return { code: checked, since: now.ms };
  return isReported ? undefined : lateFailure(pair, input);
}

function lateFailure(
  pair: NodePair,
  { isHealthUnknown, now }: FailureInput,
): Pick<FailedNode, 'code' | 'since'> | undefined {
  const { shadow, node, policy } = pair;
  if (policy.isZoneOff === true || !isOverdue(shadow, policy, now) || isHealthUnknown(pair)) return undefined;
  const code = missedDeadline(shadow, node);
  return code && { code, since: deadlineOf(shadow, policy, now) };
}

/** True when the Job of a check has failed after the update. */
export function hasFailedCheck(input: Parameters<typeof jobsAfter>[0]): boolean {
  const { shadow, policy } = input;
  if (shadow.spec.state !== 'MonitoringUpdate' || policy.isSuspended === true) return false;
  return progressOf(jobsAfter(input), input).failed !== undefined;
}

/** Returns the failure that is on record. */
export function recordedFailure(name: string, { record: { failed } }: ShadowView): FailedNode | undefined {
  if (failed === undefined) return undefined;
  const since = parseTime(failed.at);
  return since === undefined ? undefined : { name, version: failed.version, code: failed.code, since };
}

/**
 * Returns when the Job of a check failed on the version that the node runs, epoch milliseconds; undefined also when a
 * user has accepted that, or when the node is to run another version.
 */
export function failedCheckAt({
  name,
  shadow,
  policy,
  now,
}: Pick<NodePair, 'name' | 'shadow' | 'policy'> & { readonly now: Moment }): number | undefined {
  const { version, code, since } = recordedFailure(name, shadow) ?? {};
  const { current_version: running, target_version: offered = '' } = shadow.status ?? {};
  if (code !== 'CheckFailed' || since === undefined || !sameVersion(running, version)) return undefined;
  const isCurrent = sameVersion(wantedVersion(offered, policy.versions), running);
  return isCurrent && !isAccepted(since, policy, now) ? since : undefined;
}

/** Reads the times of a list in the status; an entry whose time is unreadable is left out. */
export function recorded<T extends { readonly since: string }>(
  entries: readonly T[] = [],
): (Omit<T, 'since'> & { readonly since: number })[] {
  return entries.flatMap(({ since, ...one }) => {
    const time = parseTime(since);
    return time === undefined ? [] : [{ ...one, since: time }];
  });
}
