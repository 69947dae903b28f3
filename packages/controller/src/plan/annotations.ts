/**
 * What a change of a spec records on the shadow: when the attempt began and how it ended, how many
 * failed, and with which version. `facts/` reads these annotations. An agent cannot write them.
 */
import { ERROR_CODES, isErrorCode } from '@brupop/shared/api/error-codes';
import {
  BOOT_BEFORE_ANNOTATION,
  BLOCKED_DRAINS_ANNOTATION,
  DEFERRED_AFTER_ANNOTATION,
  EVICTED_WORKLOADS_ANNOTATION,
  FAILED_ATTEMPTS_ANNOTATION,
  FAILED_VERSION_ANNOTATION,
  ENDED_BY_CONFIG_ANNOTATION,
  JOBS_ANNOTATION,
  QUORUM_MEMBERS_ANNOTATION,
  NODE_GROUP_ANNOTATION,
  REBOOT_REQUESTED_ANNOTATION,
  RETRY_ANNOTATION,
  ROLLBACK_ANNOTATION,
  SETTINGS_BOOT_ANNOTATION,
  SETTINGS_FAILED_ANNOTATION,
  SETTINGS_PROVED_ANNOTATION,
  SETTINGS_REBOOTED_ANNOTATION,
  STARTED_FROM_ANNOTATION,
  UNREADY_BEFORE_ANNOTATION,
  UNSUCCESSFUL_ATTEMPTS_ANNOTATION,
  UPDATE_SECONDS_ANNOTATION,
  UPDATE_STARTED_ANNOTATION,
  UPDATE_SUCCEEDED_ANNOTATION,
  WITHDRAWN_ATTEMPTS_ANNOTATION,
} from '@brupop/shared/api/names';
import type { ShadowSpec } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import {
  hasStarted,
  isReboot,
  isSettled,
  isUnderWay,
  rebootRequested,
  type ShadowView,
  startedAt,
  rollbackOf,
} from '../cluster/shadow.ts';
import type { NodeView } from '../cluster/node.ts';
import type { NodePair } from '../cluster/snapshot.ts';
import { attempts, unsuccessful, withdrawn } from './facts/attempts.ts';
import { isTrying, oneMoreBlockedDrain } from './facts/blocked-drains.ts';
import { failureAtEnd, reportedFailure } from './facts/failed-nodes.ts';
import { provedRecord, recordAtChange, recordAtGrant } from './facts/proved-settings.ts';
import { hashOfSettings, lockOf, ownSettings, requestedOf } from './facts/requested-settings.ts';
import { isRollingBack } from './facts/rollback.ts';
import { traitsOf } from './gates/reasons.ts';
import type { Transition } from './outcomes.ts';

export type Annotations = Readonly<Record<string, string | null>>;

/** null removes an annotation. */
export function annotationsOf(
  transition: Transition,
  { shadow, node }: Pick<NodePair, 'shadow' | 'node'>,
): Annotations {
  return {
    ...started(transition, shadow),
    ...endedByConfig(transition, shadow),
    ...reboot(transition, shadow),
    ...bootBefore(transition, shadow, node),
    ...beforeDrain(transition, shadow),
    ...jobs(transition, shadow),
    ...members(transition, shadow),
    ...BY_OUTCOME[transition.outcome]?.(transition, shadow, node),
  };
}

/** Recorded at the start, or at the end of an update that another actor started by writing the spec. */
function started({ outcome, spec, group }: Transition, shadow: ShadowView): Annotations {
  const isUnknown = isUnderWay(shadow) && spec.state === 'Idle' && !hasStarted(shadow);
  if (outcome !== 'Started' && !isUnknown) return {};
  return {
    [UPDATE_STARTED_ANNOTATION]: spec.state_transition_timestamp ?? null,
    ...(outcome === 'Started' && { [STARTED_FROM_ANNOTATION]: shadow.status?.current_version ?? null }),
    ...(group === undefined ? without(shadow, NODE_GROUP_ANNOTATION) : { [NODE_GROUP_ANNOTATION]: group }),
    ...without(shadow, UPDATE_SUCCEEDED_ANNOTATION),
  };
}

/** The configuration ended the attempt. A kubelet can cause other deferrals, such as by a cordon. */
function endedByConfig({ outcome, because, spec }: Transition, shadow: ShadowView): Annotations {
  if (outcome === 'Started') return without(shadow, ENDED_BY_CONFIG_ANNOTATION);
  const isFleetWide = outcome === 'Deferred' && because !== undefined && traitsOf(because.reason).fleetWide === true;
  if (!isFleetWide && outcome !== 'Interrupted' && outcome !== 'Superseded') return {};
  return { [ENDED_BY_CONFIG_ANNOTATION]: spec.state_transition_timestamp ?? null };
}

/** Recorded before an agent may drain; removed after a success or a confirmed Idle. */
function reboot({ outcome, spec }: Transition, shadow: ShadowView): Annotations {
  if (outcome === 'Succeeded' || outcome === 'Reverted' || isSettled(shadow))
    return without(shadow, REBOOT_REQUESTED_ANNOTATION);
  const isRequested = [shadow.spec, spec].some(
    ({ state }) => state === 'RebootedIntoUpdate' || state === 'MonitoringUpdate',
  );
  if (!isRequested || rebootRequested(shadow)) return {};
  return { [REBOOT_REQUESTED_ANNOTATION]: spec.state_transition_timestamp ?? null };
}

/** Recorded with the request to drain. A result of the boot counts only after another one. */
function bootBefore({ spec }: Transition, shadow: ShadowView, { bootID }: NodeView): Annotations {
  if (spec.state === 'Idle') return without(shadow, BOOT_BEFORE_ANNOTATION);
  const isRequested = spec.state === 'RebootedIntoUpdate' && shadow.spec.state !== spec.state;
  return isRequested && bootID !== '' ? { [BOOT_BEFORE_ANNOTATION]: bootID } : {};
}

const MAX_NAMES = 50;

/** What was not Ready before does not count after the update, and the workloads of the evicted pods do. */
function beforeDrain({ unreadyBefore, evictedWorkloads }: Transition, shadow: ShadowView): Annotations {
  return {
    ...names(UNREADY_BEFORE_ANNOTATION, unreadyBefore, shadow),
    ...names(EVICTED_WORKLOADS_ANNOTATION, evictedWorkloads, shadow),
  };
}

function names(annotation: string, found: readonly string[] | undefined, shadow: ShadowView): Annotations {
  if (found === undefined) return {};
  return found.length === 0 ? without(shadow, annotation) : { [annotation]: found.slice(0, MAX_NAMES).join(',') };
}

function jobs({ jobs: value }: Transition, shadow: ShadowView): Annotations {
  return value == null ? without(shadow, ...(value === null ? [JOBS_ANNOTATION] : [])) : { [JOBS_ANNOTATION]: value };
}

function members({ members: value }: Transition, shadow: ShadowView): Annotations {
  if (value === undefined) return {};
  return value === null ? without(shadow, QUORUM_MEMBERS_ANNOTATION) : { [QUORUM_MEMBERS_ANNOTATION]: value };
}

type Recorder = (transition: Transition, shadow: ShadowView, node: NodeView) => Annotations;

const cancelled: Recorder = (transition, shadow, node) => ({
  ...oneMore(shadow),
  ...oneMoreAttempt(shadow),
  ...failedVersion(transition, shadow, node),
});

const BY_OUTCOME: Partial<Record<Transition['outcome'], Recorder>> = {
  /** It uses up a user's request for another attempt. */
  Started: (transition, shadow) => ({
    ...without(shadow, RETRY_ANNOTATION),
    ...lostSettings(transition, shadow),
    ...(transition.isBlocked === true && blockedDrain(shadow, transition.spec)),
    ...(!sameVersion(shadow.status?.current_version, transition.spec.version) && endRollback(transition, shadow)),
  }),
  Failed: (transition, shadow, node) => ({
    ...oneMore(shadow),
    ...(usesAttempt(shadow) && oneMoreAttempt(shadow)),
    ...failedVersion(transition, shadow, node),
  }),
  Configured: (transition, shadow) => ({
    ...endedRollback(transition, shadow),
    ...bootAtGrant(transition, shadow),
    ...(transition.proves === true ? proved(shadow) : lostSettings(transition, shadow)),
  }),
  SettingsFailed: (transition, shadow) => settingsFailed(transition, shadow, transition.failedSettings ?? ''),
  Cancelled: cancelled,
  CheckFailed: cancelled,
  /** The update that follows is not delayed by earlier failures. */
  Reverting: (transition, shadow, node) => ({
    ...without(shadow, UNSUCCESSFUL_ATTEMPTS_ANNOTATION),
    ...oneMoreAttempt(shadow),
    ...failedVersion(transition, shadow, node),
    ...startRollback(transition, shadow),
  }),
  Reverted: (transition, shadow) => ({
    ...succeededWith(transition, shadow),
    ...doneRollback(shadow),
    ...without(shadow, ...UNTIL_REVERTED),
  }),
  Withdrawn: (_, shadow) => ({ [WITHDRAWN_ATTEMPTS_ANNOTATION]: String(withdrawn(shadow) + 1) }),
  Deferred: (transition, shadow) => ({
    ...deferredAfter(transition, shadow),
    ...failedJob(transition, shadow),
    ...heldPods(transition, shadow),
  }),
  Succeeded: (transition, shadow) => ({
    ...succeededWith(transition, shadow),
    ...(isReboot(shadow) ? rebooted(transition, shadow) : updated(transition, shadow)),
    ...proved(shadow),
  }),
};

/** Its host has them, and the node was healthy with them. */
function proved(shadow: ShadowView): Annotations {
  const record = provedRecord(shadow);
  return record === null ? without(shadow, SETTINGS_PROVED_ANNOTATION) : { [SETTINGS_PROVED_ANNOTATION]: record };
}

/** A change is granted that sets again what was proved, or other settings are requested. */
function lostSettings({ spec }: Transition, shadow: ShadowView): Annotations {
  const isGrant = (spec.settings?.allow ?? 'None') !== 'None';
  const record = isGrant ? recordAtGrant(shadow, requestedOf({ spec })) : recordAtChange(shadow);
  return record === undefined ? {} : { [SETTINGS_PROVED_ANNOTATION]: record };
}

function updated(transition: Transition, shadow: ShadowView): Annotations {
  return {
    ...updateSeconds(transition, shadow),
    ...without(shadow, ...UNTIL_SUCCESS, SETTINGS_REBOOTED_ANNOTATION),
  };
}

/** It says nothing about attempts with another version. */
function rebooted({ spec }: Transition, shadow: ShadowView): Annotations {
  const isOther = attempts(shadow, shadow.spec.version ?? '') === 0;
  const ended = UNTIL_REVERTED.filter((name) => name !== FAILED_ATTEMPTS_ANNOTATION || !isOther);
  const hash = hashOfSettings(requestedOf(shadow));
  return {
    [SETTINGS_REBOOTED_ANNOTATION]: `${hash}=${spec.state_transition_timestamp ?? ''}`,
    ...without(shadow, ...ended),
  };
}

function settingsFailed({ spec }: Transition, shadow: ShadowView, hash: string): Annotations {
  const record = `${hash}=${spec.state_transition_timestamp ?? ''}`;
  return {
    [SETTINGS_FAILED_ANNOTATION]: record,
    ...(isReboot(shadow) && { [SETTINGS_REBOOTED_ANNOTATION]: record }),
  };
}

const UNTIL_SUCCESS = [
  BLOCKED_DRAINS_ANNOTATION,
  UNSUCCESSFUL_ATTEMPTS_ANNOTATION,
  WITHDRAWN_ATTEMPTS_ANNOTATION,
  FAILED_ATTEMPTS_ANNOTATION,
  FAILED_VERSION_ANNOTATION,
  DEFERRED_AFTER_ANNOTATION,
  UNREADY_BEFORE_ANNOTATION,
  EVICTED_WORKLOADS_ANNOTATION,
  QUORUM_MEMBERS_ANNOTATION,
  NODE_GROUP_ANNOTATION,
];

/** The failure with the other version remains on record. */
const UNTIL_REVERTED = UNTIL_SUCCESS.filter((name) => name !== FAILED_VERSION_ANNOTATION);

function succeededWith({ spec }: Transition, shadow: ShadowView): Annotations {
  return { [UPDATE_SUCCEEDED_ANNOTATION]: `${shadow.spec.version ?? ''}=${spec.state_transition_timestamp ?? ''}` };
}

function startRollback({ spec, previous = '' }: Transition, shadow: ShadowView): Annotations {
  return { [ROLLBACK_ANNOTATION]: `${shadow.spec.version ?? ''}=${previous}=${spec.state_transition_timestamp ?? ''}` };
}

/** Any other update than the one to the previous version. */
function endRollback({ spec }: Transition, shadow: ShadowView): Annotations {
  const { previous, isDone } = rollbackOf(shadow) ?? {};
  return isDone === false && sameVersion(previous, spec.version) ? {} : without(shadow, ROLLBACK_ANNOTATION);
}

function doneRollback({ metadata: { annotations = {} } }: ShadowView): Annotations {
  return { [ROLLBACK_ANNOTATION]: `${annotations[ROLLBACK_ANNOTATION] ?? ''}=done` };
}

/** A user has ended it before its drain; or it has ended without success, and the node runs the previous version. */
/** A host that reboots while it changes settings has failed. */
function bootAtGrant({ spec }: Transition, shadow: ShadowView): Annotations {
  const isGrant = (spec.settings?.allow ?? 'None') !== 'None';
  return isGrant
    ? { [SETTINGS_BOOT_ANNOTATION]: shadow.status?.bootID ?? null }
    : without(shadow, SETTINGS_BOOT_ANNOTATION);
}

function endedRollback({ spec }: Transition, shadow: ShadowView): Annotations {
  const { failed, previous, isDone = true } = rollbackOf(shadow) ?? {};
  if (isDone || lockOf({ spec }) === previous) return {};
  const runsFailed = sameVersion(shadow.status?.current_version, failed);
  return runsFailed ? without(shadow, ROLLBACK_ANNOTATION) : doneRollback(shadow);
}

/** It is retried with a backoff, and is no failure of the version. */
function failedJob({ because }: Transition, shadow: ShadowView): Annotations {
  return because?.reason === 'CheckFailed' || because?.reason === 'HookFailed' ? oneMore(shadow) : {};
}

/** The budgets were closed after the node was staged only. */
function heldPods({ because, spec }: Transition, shadow: ShadowView): Annotations {
  const isHeld = because?.reason === 'DrainBlocked' && shadow.spec.state === 'RebootedIntoUpdate';
  return isHeld && !isTrying(shadow) ? blockedDrain(shadow, spec) : {};
}

function blockedDrain(shadow: ShadowView, { state_transition_timestamp: time }: ShadowSpec): Annotations {
  return { [BLOCKED_DRAINS_ANNOTATION]: oneMoreBlockedDrain(shadow, time ?? '') };
}

function oneMore(shadow: ShadowView): Annotations {
  return { [UNSUCCESSFUL_ATTEMPTS_ANNOTATION]: String(unsuccessful(shadow) + 1) };
}

function oneMoreAttempt(shadow: ShadowView): Annotations {
  const version = shadow.spec.version ?? '';
  return { [FAILED_ATTEMPTS_ANNOTATION]: `${version}=${attempts(shadow, version) + 1}` };
}

/** Of an attempt that ended after the host was asked to reboot into the version. */
function failedVersion(transition: Transition, shadow: ShadowView, node: NodeView): Annotations {
  const { outcome, because, spec } = transition;
  const code = outcome === 'Failed' ? reportedFailure(shadow, node) : failureAtEnd(shadow, node, because?.reason);
  if (isReboot(shadow)) return code === undefined && !hasRefused(shadow) ? {} : failedReboot(transition, shadow);
  if (code === undefined || isRollingBack(shadow)) return {};
  const { version } = shadow.spec;
  return { [FAILED_VERSION_ANNOTATION]: `${version ?? ''}=${code}=${spec.state_transition_timestamp ?? ''}` };
}

function hasRefused({ status }: ShadowView): boolean {
  return status?.current_state === 'ErrorReset' && status.lastOperation?.errorCode === 'SettingsFailed';
}

/** The version is not the cause. What was before is good. */
function failedReboot(transition: Transition, shadow: ShadowView): Annotations {
  const settings = requestedOf(shadow);
  return ownSettings(settings).length === 0 ? {} : settingsFailed(transition, shadow, hashOfSettings(settings));
}

/** A failure that soon passes does not use up an attempt with the version. */
function usesAttempt({ status }: ShadowView): boolean {
  const code = status?.lastOperation?.errorCode;
  return code === undefined || !isErrorCode(code) || ERROR_CODES[code] !== 'RetrySoon';
}

function without({ metadata: { annotations = {} } }: ShadowView, ...names: string[]): Annotations {
  return Object.fromEntries(names.filter((name) => annotations[name] !== undefined).map((name) => [name, null]));
}

/** An update that passed a deadline predicts nothing about the next one. */
function updateSeconds({ spec, wasSuspended = false }: Transition, shadow: ShadowView): Annotations {
  const isTypical = shadow.progressing?.reason !== 'DeadlineExceeded' && !wasSuspended;
  const seconds = isTypical ? secondsSoFar(shadow, spec) : undefined;
  return seconds === undefined ? {} : { [UPDATE_SECONDS_ANNOTATION]: String(seconds) };
}

/** Otherwise a node that did not fit into its window would be staged in vain in each one. */
function deferredAfter({ spec, because }: Transition, shadow: ShadowView): Annotations {
  const seconds = secondsSoFar(shadow, spec);
  const closed = because?.reason === 'OutsideMaintenanceWindow' || because?.reason === 'WindowTooShort';
  return closed && seconds !== undefined ? { [DEFERRED_AFTER_ANNOTATION]: String(seconds) } : {};
}

function secondsSoFar(shadow: ShadowView, spec: ShadowSpec): number | undefined {
  const start = startedAt(shadow);
  const end = parseTime(spec.state_transition_timestamp);
  return start === undefined || end === undefined || end < start ? undefined : Math.ceil((end - start) / 1000);
}
