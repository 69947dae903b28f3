/**
 * The words of the condition Progressing of a shadow: what its node does, or why it waits or has failed; among these,
 * why a host does not have the settings that its group requests, or still has those of an earlier group. A message
 * stays the same as long as what it says holds, since each other one is a write.
 */
import { type LastOperation, RESTORE_ERROR } from '@brupop/shared/api/shadow';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { listOf, namesOf, printable } from '@brupop/shared/runtime/errors';
import type { NodeView } from '../cluster/node.ts';
import { hasReached } from '../cluster/state.ts';
import { limitMs, rebootOf, returnLimitMs } from './facts/deadlines.ts';
import { type MonitoringInput, monitoringOf } from './facts/health.ts';
import { type Blocked, MAX_MESSAGE, type Reason, traitsOf } from './facts/reasons.ts';
import { allowedAtReboot, CHANGE_LIMIT, isChanging, isComplete, type SettingsFacts } from './facts/settings.ts';

export interface ProgressingCondition {
  readonly status: 'True' | 'False';
  readonly reason: Reason;
  readonly message: string;
  /** For a column of kubectl: the reason and, if known, until when; during an update, what it waits for. Empty: it does not wait. */
  readonly waitingFor: string;
}

const MINUTE_MS = 60_000;

/** @param kept - settings of a group that stay on the host although no group requests them any more */
export function upToDate(version: string, isPinned: boolean, kept: readonly string[] = []): ProgressingCondition {
  const which = isPinned ? 'the pinned version' : 'the version that its host is offered';
  const what = `Its host keeps settings that are no longer requested, since their former value is unset or unknown: ${namesOf(kept)}`;
  const next = 'Set them on the host; status.settings.cannotUnset lists all';
  return progressing('False', 'UpToDate', `Runs ${version}, ${which}${kept.length === 0 ? '' : `. ${what}. ${next}`}`);
}

/** The host runs the version that it is locked to, and no pin or record explains the lock. */
export function hostLocked(lock: string): ProgressingCondition {
  const what = `settings.updates.version-lock of its host is ${lock}, which no pin has set, so the node does not follow the fleet`;
  const next =
    'Set it to latest on the host (apiclient set updates.version-lock=latest), or pin the node to any version and end the pin. ' +
    'To leave the node on this version, pin it with spec.versions.pin of a BottlerocketNodeGroup';
  return progressing('False', 'HostLocked', `${what}. ${next}`);
}

/** Whether the host is offered another version is not known. */
export function unchecked(version: string, { errorCode, message = '' }: LastOperation): ProgressingCondition {
  const what = `Runs ${version}; its host cannot check for updates (${errorCode ?? 'no error code'})`;
  return progressing('False', 'UpdateCheckFailed', `${what}: ${message.slice(0, MAX_MESSAGE)}`);
}

/**
 * The message stays the same for the whole update, to save writes.
 * @param podsProblem - why the pods on a staged node cannot be listed
 */
export function updating(version: string, podsProblem?: string): ProgressingCondition {
  if (podsProblem !== undefined) {
    return stopped(`${version} is staged; the pods on the node cannot be listed: ${podsProblem}`, 'PodListFailed');
  }
  return progressing('True', 'Updating', `Updating to ${version}; status.lastOperation names the step`);
}

/** @param block - the first pod that blocks the drain; undefined: none has blocked it for long */
export function blockedDrain(
  found: ProgressingCondition,
  block: { readonly pod?: string | undefined; readonly reason?: string | undefined } | undefined,
  { ready }: Pick<NodeView, 'ready'>,
): ProgressingCondition {
  if (block === undefined) return found;
  const { pod = '?', reason = '?' } = block;
  const last = `the pod ${pod} (${reason}); status.drain lists all`;
  if (ready) return stopped(`${found.message}. Its drain waits for ${last}`, reason);
  // The agent, which repeats the drain, runs only while its kubelet does.
  return stopped(`${found.message}. The Node is not Ready; its drain last waited for ${last}`, 'NodeNotReady');
}

/** @param waitsFor - one word */
function stopped(message: string, waitsFor: string): ProgressingCondition {
  return { ...progressing('True', 'Updating', message), waitingFor: printable(waitsFor) };
}

/** Of a staged node that is not drained now. */
export function notDrained({ reason, message }: Blocked): ProgressingCondition {
  return stopped(`The node is staged, and not drained yet: ${message}`, reason);
}

export function goingBack(previous: string, failed = '?'): ProgressingCondition {
  return progressing('True', 'Updating', `Going back to ${previous}: the node was not healthy on ${failed}`);
}

/** @param podsProblem - why the pods on a node that is to be drained cannot be listed */
export function rebooting(podsProblem?: string): ProgressingCondition {
  const detail =
    podsProblem === undefined ? 'status.lastOperation names the step' : `its pods cannot be listed: ${podsProblem}`;
  const message = `Rebooting for the settings of its group; ${detail}`;
  return podsProblem === undefined ? progressing('True', 'Updating', message) : stopped(message, 'PodListFailed');
}

/** @param waitsFor - the Job that has to end before the drain */
export function staged(version: string, waitsFor: string): ProgressingCondition {
  return stopped(`${version} is staged; before the drain, ${waitsFor}`, 'Job');
}

/** @param waitsFor - the hook after the update that has to end */
export function runsHooks(waitsFor: string): ProgressingCondition {
  return stopped(`The update has ended; after it, ${waitsFor}`, 'Job');
}

/** @param problem - why the node is not healthy after its update, if known */
export function monitored(version: string, problem: string | undefined): ProgressingCondition {
  if (problem === undefined) return updating(version);
  return stopped(`Runs ${version}, and is not healthy yet: ${problem}`, 'NodeUnhealthy');
}

/** @param waitsFor - the Job of a check after the update that has to end */
export function checked(version: string, waitsFor: string): ProgressingCondition {
  return stopped(`Runs ${version}; ${waitsFor}`, 'Job');
}

export function checkFailed(version: string): ProgressingCondition {
  const what = `The Job of a check failed on ${version}, which the node runs; the Event UpdateFailed on the Node names it`;
  const how =
    'The node holds its update slot until it is offered another version, or until spec.rollout.resume of BrupopConfig "cluster" accepts it';
  return progressing('False', 'CheckFailed', `${what}. ${how}`);
}

/** The settings of the host are wrong, so its available version does not count. */
export function notConfigured(message: string): ProgressingCondition {
  return progressing(
    'False',
    'HostSettingsNotApplied',
    `The host does not have the settings that are requested: ${message}`,
  );
}

export function waiting({ reason, message, retryAt }: Blocked): ProgressingCondition {
  const isTimed = retryAt !== undefined && traitsOf(reason).passes === 'time';
  const until = isTimed ? ` until ${rfc3339(retryAt)}` : '';
  return { ...progressing('False', reason, message), waitingFor: `${reason}${until}` };
}

export function overdue(input: MonitoringInput, isCancelled: boolean): ProgressingCondition {
  const { shadow, policy } = input;
  const { state, version } = shadow.spec;
  const said = quoted(shadow.status?.lastOperation);
  if (state === 'MonitoringUpdate') return progressing('False', 'DeadlineExceeded', notHealthyInTime(input));
  const isReboot = rebootOf(shadow) !== undefined;
  const limit = isReboot ? returnLimitMs(shadow.spec, policy) : limitMs(shadow.spec, policy);
  const minutes = Math.round(limit / MINUTE_MS);
  if (isCancelled) {
    const step = state === 'StagedAndPerformedUpdate' ? 'Staging' : 'The drain for';
    const message = `${step} ${version} had no result within ${minutes} minutes and was cancelled; look at the agent's log${said}`;
    return progressing('False', 'DeadlineExceeded', message);
  }
  const message =
    `The ${isReboot ? 'reboot' : 'drain and reboot'} into ${version} had no result within ${minutes} minutes; look at the host and the agent's log. ` +
    `The node holds its update slot, and continues when it comes back${said}`;
  return progressing('False', 'DeadlineExceeded', message);
}

function notHealthyInTime(input: MonitoringInput): string {
  const { shadow } = input;
  const version = shadow.spec.version ?? '';
  const { problem, isUnknown } = monitoringOf(input);
  if (problem !== undefined && isUnknown === true)
    return `It is not known whether the node is healthy after its update to ${version}: ${problem}. It holds its update slot until that is known`;
  if (problem !== undefined) return `The node is not healthy after its update to ${version}: ${problem}`;
  const late = `The node was not healthy in time after its update to ${version}`;
  return hasReached(shadow)
    ? `${late}. It is healthy now, and the update succeeds after spec.monitoring.healthyFor`
    : `${late}, and its agent has not confirmed the step`;
}

/** The API server of the operator records an Event when it sees such a token. */
const OUTDATED_TOKEN =
  'If the Node was deleted and created again while the pod ran, its token is for the former Node: delete the pod';

/** The message is the same for all nodes and at all times, to save writes. */
export function agentNotConnected(namespace: string): ProgressingCondition {
  const problem = 'No agent has reported for this node yet';
  const command = `kubectl get pods -n ${namespace} -o wide`;
  return progressing(
    'False',
    'AgentNotConnected',
    `${problem}; check the agent's pod on the node (${command}). ${OUTDATED_TOKEN}`,
  );
}

export function agentNotResponding(last: LastOperation | undefined): ProgressingCondition {
  const problem = `The agent does not confirm the spec; check whether its pod runs on the node. ${OUTDATED_TOKEN}`;
  return progressing('False', 'AgentNotResponding', `${problem}${quoted(last)}`);
}

/** What follows it in a message is what the agent has reported. */
export const AGENT_SAYS = ". The agent's latest message: ";

/** What the agent waits for, or cannot do; not why its step has failed. */
function quoted(last: LastOperation | undefined): string {
  const { state, message = '' } = last ?? {};
  const isCurrent = state === 'Processing' || message.startsWith(RESTORE_ERROR);
  return message === '' || !isCurrent ? '' : `${AGENT_SAYS}${message.slice(0, MAX_MESSAGE)}`;
}

function progressing(status: ProgressingCondition['status'], reason: Reason, message: string): ProgressingCondition {
  return {
    status,
    reason,
    message: printable(message),
    waitingFor: reason === 'UpToDate' || reason === 'Updating' ? '' : reason,
  };
}

export const CHANGING: Blocked = {
  reason: 'ChangingSettings',
  message: 'Other settings of its host are being proved; see status.settings of its BottlerocketShadow',
};

/** Undefined: the host has the settings, or they were requested just now. */
export function whyNotInForce(facts: SettingsFacts | undefined): Blocked | undefined {
  if (facts === undefined || isComplete(facts) || facts.state === 'requested') return undefined;
  if (isChanging(facts)) return CHANGING;
  const [reason, message] = problemOf(facts);
  return { reason, message };
}

function problemOf(facts: SettingsFacts): readonly [reason: Reason, message: string] {
  const { state, isLate, conflicts } = facts;
  const pending = named(facts.pending.map(({ key }) => key));
  const refused = facts.pending.find((one) => one.class === 'Refused');
  if (state === 'failed') return ['HostSettingsNotApplied', FAILED];
  if (isLate === true) return ['HostSettingsNotApplied', state === 'changing' ? NOT_RESTORED : NOT_READY];
  if (refused !== undefined)
    return [
      'HostSettingsNotApplied',
      `${refused.key} cannot be set, so no setting of its group is set: ${refused.reason}`,
    ];
  if (conflicts.length > 0)
    return ['SettingsConflict', `A user has set other values on its host: ${named(conflicts)}; ${RESOLVE}`];
  if (facts.isRebooted && allowedAtReboot(facts) === 'NeedsReboot')
    return [
      'HostSettingsNotApplied',
      `The node was rebooted for settings that its host still reports as pending: ${pending}`,
    ];
  return ['ChangingSettings', `Its host has not set ${pending === '' ? 'its settings' : pending} yet; ${WAITS}`];
}

const FAILED =
  'The settings of its group failed, and the former ones are requested of its host again; status.settings of its ' +
  'BottlerocketShadow has what is still pending, and an Event SettingsFailed on the Node has the cause. ' +
  'Change spec.settings of the group, or set spec.rollout.resume of the BrupopConfig to the current time to try again';
const NOT_RESTORED =
  `Its host has not restored the former values within ${CHANGE_LIMIT}, and its agent keeps retrying; ` +
  'see status.settings of its BottlerocketShadow, and the log of the agent';
const NOT_READY = `Its settings have changed, and the Node is not Ready ${CHANGE_LIMIT} later`;
const RESOLVE = 'remove them there, or set spec.settingsConflicts of the group to Force';
const WAITS = 'the condition SettingsApplied of its BottlerocketNodeGroup says what they wait for';

const MAX_KEYS = 5;

function named(keys: readonly string[]): string {
  return listOf(keys, MAX_KEYS, ', ');
}
