/**
 * The record of a node after a change of its spec: when the attempt began and how it ended, how many failed, and with which
 * version. It is written in the same request as the spec, and nothing else writes it but `apply/jobs.ts`, which adds Jobs.
 */
import { ERROR_CODES, isErrorCode } from '@brupop/shared/api/error-codes';
import type { NodeRecord } from '@brupop/shared/api/record';
import { INT32 } from '@brupop/shared/api/schema';
import { hashOf } from '@brupop/shared/api/settings';
import type { ShadowSpec } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import { latestUpdate, type ShadowView } from '../../cluster/shadow.ts';
import { hasStarted, isSettled } from '../../cluster/state.ts';
import type { NodeView } from '../../cluster/node.ts';
import type { NodePair } from '../../cluster/snapshot.ts';
import { attempts } from '../facts/attempts.ts';
import { isTrying } from '../facts/drainability.ts';
import { failureAtEnd, reportedFailure } from '../facts/failed-nodes.ts';
import type { BeforeDrain } from '../facts/health.ts';
import {
  hashOfSettings,
  isGranted,
  ownSettings,
  provedAtChange,
  provedNow,
  recordAtGrant,
  requestedOf,
} from '../facts/settings.ts';
import { type Reason, traitsOf } from '../facts/reasons.ts';
import { isEnd, type Transition } from './transition.ts';

/** Fields with undefined are removed. */
type Changes = Partial<NodeRecord>;

export function recordAfter(transition: Transition, { shadow, node }: Pick<NodePair, 'shadow' | 'node'>): NodeRecord {
  const { jobs, members } = transition;
  return {
    ...shadow.record,
    isUnreadable: undefined,
    ...started(transition, shadow),
    ...endedByConfig(transition),
    ...reboot(transition, shadow),
    ...bootBefore(transition, shadow, node),
    ...beforeDrain(transition, shadow),
    ...(jobs !== undefined && { jobs: jobs ?? undefined }),
    ...(members !== undefined && { members: firstOf(members) }),
    ...otherReport(transition, shadow),
    ...historyAfter(transition, shadow),
    ...BY_OUTCOME[transition.outcome]?.(transition, shadow, node),
  };
}

const timeOf = ({ state_transition_timestamp: time }: ShadowSpec): string => time ?? '';

/** Recorded at the start, or at the end of an update that another actor started by writing the spec. */
function started(transition: Transition, shadow: ShadowView): Changes {
  const { outcome, spec, group, isRequested } = transition;
  const isUnknown = isEnd(transition, shadow) && !hasStarted(shadow);
  if (outcome !== 'Started' && !isUnknown) return {};
  return {
    startedAt: timeOf(spec),
    ...(outcome === 'Started' && { from: shadow.status?.current_version, asked: undefined }),
    group,
    succeeded: undefined,
    podsWaitSince: undefined,
    aborted: undefined,
    updateNow: isRequested === true ? true : undefined,
    ...(sameVersion(shadow.status?.current_version, spec.version) ? beforeReboot(shadow) : beforeUpdate(spec, shadow)),
  };
}

/** A reboot for settings neither succeeds nor fails with a version. */
function beforeReboot(shadow: ShadowView): Changes {
  return { updated: latestUpdate(shadow.record), ...hiddenFailure(shadow) };
}

/** From now on the agent reports something else. */
function hiddenFailure({ record: { failed } }: ShadowView): Changes {
  return failed === undefined ? {} : { failed: { ...failed, isHidden: true } };
}

/** The agent reports an attempt with another version, or one whose spec a user has written since the version failed. */
function otherReport(transition: Transition, shadow: ShadowView): Changes {
  const { failed } = shadow.record;
  if (!isEnd(transition, shadow) || failed === undefined) return {};
  const isLater = (shadow.times.startedAt ?? 0) > (parseTime(failed.at) ?? Infinity);
  return isLater && sameVersion(failed.version, shadow.spec.version) ? {} : hiddenFailure(shadow);
}

/** From here on the agent reports this attempt, perhaps with another version than the one that failed. */
function beforeUpdate({ version: wanted }: ShadowSpec, shadow: ShadowView): Changes {
  const { failed } = shadow.record;
  if (failed === undefined || !sameVersion(failed.version, wanted)) return { ...FORMER, ...hiddenFailure(shadow) };
  const { isHidden: _, ...shown } = failed;
  return { ...FORMER, failed: shown };
}

/** What is known of the former update. */
const FORMER = { updated: undefined, readyBefore: undefined, suspects: undefined } satisfies Changes;

/** The configuration ended the attempt. A kubelet can cause other deferrals, such as by a cordon. */
function endedByConfig({ outcome, because, spec }: Transition): Changes {
  if (outcome === 'Started') return { endedByConfigAt: undefined };
  const isByConfig = outcome === 'Deferred' && because !== undefined && isOfConfig(because.reason);
  return isByConfig || outcome === 'Interrupted' || outcome === 'Superseded' ? { endedByConfigAt: timeOf(spec) } : {};
}

/** What no node can cause, such as the end of a window. A node may make a check fail. */
function isOfConfig(reason: Reason): boolean {
  return traitsOf(reason).fleetWide === true && reason !== 'CheckNotPassed';
}

/** Recorded before an agent may drain; removed after a success or a confirmed Idle. */
function reboot({ outcome, spec }: Transition, shadow: ShadowView): Changes {
  if (outcome === 'Succeeded' || outcome === 'Reverted' || isSettled(shadow)) return { rebootRequestedAt: undefined };
  const isRequested = [shadow.spec, spec].some(
    ({ state }) => state === 'RebootedIntoUpdate' || state === 'MonitoringUpdate',
  );
  return isRequested && shadow.record.rebootRequestedAt === undefined ? { rebootRequestedAt: timeOf(spec) } : {};
}

/** Recorded with the request to drain. A result of the boot counts only after another one. */
function bootBefore({ spec }: Transition, shadow: ShadowView, { bootID }: NodeView): Changes {
  if (spec.state === 'Idle') return { bootBefore: undefined };
  const isRequested = spec.state === 'RebootedIntoUpdate' && shadow.spec.state !== spec.state;
  return isRequested && bootID !== '' ? { bootBefore: bootID } : {};
}

const MAX_NAMES = 50;

/** What was not Ready before does not count after the update, and the workloads of the evicted pods do. */
function beforeDrain({ beforeDrain: found, spec }: Transition, { purpose }: ShadowView): Changes {
  if (found === undefined) return {};
  return {
    unreadyBefore: firstOf(found.unreadyBefore),
    evictedWorkloads: firstOf(found.evictedWorkloads),
    ...(purpose === 'Update' && { readyBefore: readyAt(found, spec) }),
  };
}

function readyAt({ readyBefore, needsBefore }: BeforeDrain, spec: ShadowSpec): NodeRecord['readyBefore'] {
  const workloads = firstOf([...readyBefore]);
  if (workloads === undefined) return undefined;
  const needs = workloads
    .map(([name]) => [name, needsBefore.get(name) ?? []] as const)
    .filter(([, found]) => found.length > 0);
  return {
    at: timeOf(spec),
    workloads: Object.fromEntries(workloads),
    ...(needs.length > 0 && { needs: Object.fromEntries(needs) }),
  };
}

function firstOf<T>(found: readonly T[]): readonly T[] | undefined {
  return found.length === 0 ? undefined : found.slice(0, MAX_NAMES);
}

type Recorder = (transition: Transition, shadow: ShadowView, node: NodeView) => Changes;

const cancelled: Recorder = (transition, shadow, node) => ({
  ...oneMore(shadow),
  ...oneMoreAttempt(shadow),
  ...failedVersion(transition, shadow, node),
});

const BY_OUTCOME: Partial<Record<Transition['outcome'], Recorder>> = {
  Started: (transition, shadow) => ({
    ...(transition.restores !== true && lostSettings(transition, shadow)),
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
    // A host that reboots while it changes settings has failed.
    settingsBoot: isGranted(transition) ? shadow.status?.bootID : undefined,
    ...(transition.proves === true ? { settingsProved: provedNow(shadow) } : lostSettings(transition, shadow)),
  }),
  SettingsFailed: (transition, shadow) =>
    shadow.purpose === 'Settings'
      ? failedReboot(transition, shadow)
      : { settingsFailed: { hash: transition.failedSettings ?? '', at: timeOf(transition.spec) } },
  Cancelled: cancelled,
  CheckFailed: cancelled,
  /** The update that follows is not delayed by earlier failures. */
  Reverting: (transition, shadow, node) => ({
    unsuccessful: undefined,
    ...oneMoreAttempt(shadow),
    ...failedVersion(transition, shadow, node),
    rollback: {
      failed: shadow.spec.version ?? '',
      previous: transition.previous ?? '',
      since: timeOf(transition.spec),
      isDone: false,
    },
  }),
  Reverted: (transition, shadow) => ({
    ...UNTIL_REVERTED,
    ...succeededWith(transition, shadow),
    ...doneRollback(shadow),
  }),
  /** No failure: neither counted, nor delayed. */
  Aborted: ({ spec }, shadow) => ({ aborted: { version: shadow.spec.version ?? '', at: timeOf(spec) } }),
  Withdrawn: (_, { record }) => ({ withdrawn: (record.withdrawn ?? 0) + 1 }),
  Deferred: (transition, shadow) => ({
    ...deferredAfter(transition, shadow),
    ...failedJob(transition, shadow),
    ...heldPods(transition, shadow),
  }),
  Succeeded: (transition, shadow) => ({
    ...succeededWith(transition, shadow),
    ...(shadow.purpose === 'Settings' ? rebooted(transition, shadow) : updated(transition, shadow)),
    settingsProved: provedNow(shadow),
  }),
};

/** A change is granted that sets again what was proved, or other settings are requested. What a failure restores remains proved. */
function lostSettings({ spec, restores = false }: Transition, shadow: ShadowView): Changes {
  if (!isGranted({ spec })) return { settingsProved: provedAtChange(shadow) };
  const { settingsProved } = shadow.record;
  return { ...recordAtGrant(shadow, requestedOf({ spec })), ...(restores && { settingsProved }) };
}

/** The failure with the other version remains on record. */
const UNTIL_REVERTED = {
  blockedDrains: undefined,
  unsuccessful: undefined,
  withdrawn: undefined,
  attempts: undefined,
  deferredAfterSeconds: undefined,
  unreadyBefore: undefined,
  evictedWorkloads: undefined,
  members: undefined,
  group: undefined,
} satisfies Changes;

const UNTIL_SUCCESS = { ...UNTIL_REVERTED, failed: undefined } satisfies Changes;

function updated(transition: Transition, shadow: ShadowView): Changes {
  return { ...UNTIL_SUCCESS, settingsRebooted: undefined, ...updateSeconds(transition, shadow) };
}

/** It says nothing about attempts with another version. */
function rebooted({ spec }: Transition, shadow: ShadowView): Changes {
  const isOther = attempts(shadow, shadow.spec.version ?? '') === 0;
  const { attempts: counted, unsuccessful: all } = shadow.record;
  return {
    ...UNTIL_REVERTED,
    ...(isOther && counted !== undefined && { attempts: counted, unsuccessful: all }),
    settingsRebooted: { hash: hashOfSettings(requestedOf(shadow)), at: timeOf(spec) },
  };
}

function succeededWith({ spec }: Transition, shadow: ShadowView): Changes {
  const isReboot = shadow.purpose === 'Settings';
  return { succeeded: { version: shadow.spec.version ?? '', at: timeOf(spec), ...(isReboot && { isReboot }) } };
}

/** Any other update than the one to the previous version. */
function endRollback({ spec }: Transition, { record: { rollback } }: ShadowView): Changes {
  const isToPrevious = rollback?.isDone === false && sameVersion(rollback.previous, spec.version);
  return isToPrevious ? {} : { rollback: undefined };
}

function doneRollback({ record: { rollback } }: ShadowView): Changes {
  return { rollback: rollback && { ...rollback, isDone: true } };
}

/** A user has ended it before the node was drained; or its update had no success, and the node runs the previous version. */
function endedRollback({ endsRollback = false }: Transition, shadow: ShadowView): Changes {
  if (!endsRollback) return {};
  const runsFailed = sameVersion(shadow.status?.current_version, shadow.record.rollback?.failed);
  return runsFailed ? { rollback: undefined } : doneRollback(shadow);
}

/** It is retried with a backoff, and is no failure of the version. */
function failedJob({ because }: Transition, shadow: ShadowView): Changes {
  return because?.reason === 'CheckFailed' || because?.reason === 'HookFailed' ? oneMore(shadow) : {};
}

/** The budgets were closed after the node was staged only. */
function heldPods({ because, spec }: Transition, shadow: ShadowView): Changes {
  const isHeld = because?.reason === 'DrainBlocked' && shadow.spec.state === 'RebootedIntoUpdate';
  return isHeld && !isTrying(shadow) ? blockedDrain(shadow, spec) : {};
}

function blockedDrain(shadow: ShadowView, spec: ShadowSpec): Changes {
  return { blockedDrains: { count: (shadow.record.blockedDrains?.count ?? 0) + 1, at: timeOf(spec) } };
}

function oneMore({ record }: ShadowView): Changes {
  return { unsuccessful: (record.unsuccessful ?? 0) + 1 };
}

function oneMoreAttempt(shadow: ShadowView): Changes {
  const version = shadow.spec.version ?? '';
  return { attempts: { version, count: attempts(shadow, version) + 1 } };
}

/** Of an attempt that ended after the host was asked to reboot into the version. */
function failedVersion(transition: Transition, shadow: ShadowView, node: NodeView): Changes {
  const { outcome, because, spec } = transition;
  const code = outcome === 'Failed' ? reportedFailure(shadow, node) : failureAtEnd(shadow, node, because?.reason);
  const purpose = shadow.purpose;
  if (purpose === 'Settings') return code === undefined && !hasRefused(shadow) ? {} : failedReboot(transition, shadow);
  if (code === undefined || purpose === 'Rollback') return {};
  return { failed: { version: shadow.spec.version ?? '', code, at: timeOf(spec) } };
}

function hasRefused({ status }: ShadowView): boolean {
  return status?.current_state === 'ErrorReset' && status.lastOperation?.errorCode === 'SettingsFailed';
}

/** The version is not the cause. What was before is good: the record still names the settings that have failed. */
function failedReboot({ spec, restores = false }: Transition, shadow: ShadowView): Changes {
  const settings = requestedOf(shadow);
  if (ownSettings(settings).length === 0 && !restores) return {};
  const hash = hashOfSettings(settings);
  const isRestored = restores || hash === hashOf(shadow.record.settingsProved ?? []);
  const settingsRebooted = { hash, at: timeOf(spec) };
  return { settingsRebooted, ...(!isRestored && { settingsFailed: settingsRebooted }) };
}

/** A failure that soon passes does not use up an attempt with the version. */
function usesAttempt({ status }: ShadowView): boolean {
  const code = status?.lastOperation?.errorCode;
  return code === undefined || !isErrorCode(code) || ERROR_CODES[code] !== 'RetrySoon';
}

/** An update that passed a deadline predicts nothing about the next one. */
function updateSeconds({ spec, wasSuspended = false }: Transition, shadow: ShadowView): Changes {
  const isTypical = shadow.progressing?.reason !== 'DeadlineExceeded' && !wasSuspended;
  const seconds = isTypical ? secondsSoFar(shadow, spec) : undefined;
  return seconds === undefined ? {} : { updateSeconds: seconds };
}

/** Otherwise a node that did not fit into its window would be staged in vain in each one. */
function deferredAfter({ spec, because, wasSuspended = false }: Transition, shadow: ShadowView): Changes {
  const seconds = wasSuspended ? undefined : secondsSoFar(shadow, spec);
  const closed = because?.reason === 'OutsideMaintenanceWindow' || because?.reason === 'WindowTooShort';
  return closed && seconds !== undefined ? { deferredAfterSeconds: seconds } : {};
}

function secondsSoFar(shadow: ShadowView, spec: ShadowSpec): number | undefined {
  const start = shadow.times.startedAt;
  const end = parseTime(spec.state_transition_timestamp);
  return start === undefined || end === undefined || end < start ? undefined : Math.ceil((end - start) / 1000);
}

/** Counts the updates that have ended, and how long the current one was in each state; see shared/api/history.ts. */
function historyAfter(transition: Transition, shadow: ShadowView): Changes {
  const { count = 0 } = shadow.record.history ?? {};
  if (transition.outcome === 'Started') return count === 0 ? {} : { history: { count, seconds: {} } };
  if (isEnd(transition, shadow)) return { history: { count: (count + 1) % INT32, seconds: {} } };
  if (transition.outcome !== 'Advanced') return {};
  return { history: { count, seconds: secondsAfter(transition.spec, shadow) } };
}

/** How long the current update was in each state, with the one that ends. Times may be in the future when the clock was set. */
export function secondsAfter(
  { state_transition_timestamp: time }: ShadowSpec,
  shadow: ShadowView,
): Record<string, number> {
  const { stateSince } = shadow.times;
  const end = parseTime(time);
  const known = shadow.record.history?.seconds ?? {};
  if (stateSince === undefined || end === undefined || end < stateSince) return { ...known };
  const { state } = shadow.spec;
  const seconds = (known[state] ?? 0) + Math.floor((end - stateSince) / 1000);
  return { ...known, [state]: Math.min(seconds, INT32) };
}
