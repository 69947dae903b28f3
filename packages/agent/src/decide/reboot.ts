/**
 * Spec RebootedIntoUpdate: exclude and drain the node, set what takes effect with a boot, activate the
 * staged image, reboot into it, restore the node. Nothing is evicted, activated or rebooted for an image
 * that is not known to be staged. If another actor hides its record during the drain, it is written again
 * after the drain.
 *
 * If the node runs the version already, it is rebooted only for settings, once, and not without them. In
 * an update, settings that fail hold it up for seconds only.
 */
import { UPDATER_SETTINGS } from '@brupop/shared/api/settings';
import type { LastOperation } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import type { Action } from '../actions.ts';
import { describeStatus, isActivated, isHidden, isOffered, isStaged, type UpdateStatus } from '../host/host.ts';
import type { SettingsPlan } from '../settings/plan.ts';
import { LIMITS, SETTINGS_TRIES, stepLimit, UPDATE_SETTINGS_TRIES } from '../limits.ts';
import { type AnsweredContext, type Context, report, runCommand, settle, wait } from './context.ts';
import { enforceSettings, revertSettings } from './stage.ts';
import {
  begin,
  cleanUp,
  describeDrain,
  DRAIN_ERROR,
  ended,
  fail,
  failStep,
  hasFailed,
  mayBeActive,
  NOT_ACTIVATED,
  reportCallError,
  restoreNode,
  stepGuard,
  stepInProgress,
  withoutHost,
} from './steps.ts';

/** The host has booted another version than the one that an update has activated, whatever the spec is now. */
export function wrongBoot(c: Context): Action | undefined {
  const { status } = c.shadow;
  const last = status?.lastOperation;
  if (c.host === 'unreachable' || status === undefined || !mayBeActive(last) || last.state === 'Failed')
    return undefined;
  const { running, seen } = c;
  if (last.bootID === seen.bootID || sameVersion(running, last.version)) return undefined;
  const before = status.current_version;
  const found = `expected ${last.version} after the reboot, found ${running} (before: ${before})`;
  return fail(c, last, sameVersion(running, before) ? codeOfOldVersion(last) : 'WrongVersionBooted', found);
}

/** An activation that has failed is no reason to boot another version. */
function codeOfOldVersion({ message = '' }: LastOperation): 'RolledBack' | 'StagedImageLost' {
  return message.startsWith(NOT_ACTIVATED) ? 'StagedImageLost' : 'RolledBack';
}

export function reboot(c: Context, version: string): Action {
  const isRunning = c.host === 'answered' && sameVersion(c.running, version);
  if (isRunning && !waitsForReboot(c, version)) return arrived(c, version);
  if (hasFailed(c)) return cleanUp(c);
  if (c.host === 'unreachable') return withoutHost(c, version);
  const step = stepInProgress(c, version);
  return isRunning ? rebootForSettings(c, version, step) : updateAndReboot(c, version, step);
}

function updateAndReboot(c: AnsweredContext, version: string, step: LastOperation | undefined): Action {
  return (
    rebootedEarly(c, version) ??
    (step && stepGuard(c, step)) ??
    requireImage(c, version, step) ??
    beginDrain(c, version, step) ??
    drain(c, version, step) ??
    setForUpdate(c) ??
    activate(c, version, step) ??
    requestReboot(c, version, step)
  );
}

function rebootForSettings(c: AnsweredContext, version: string, step: LastOperation | undefined): Action {
  return (
    (step && stepGuard(c, step)) ??
    beginDrain(c, version, step) ??
    withoutUpdate(c) ??
    drain(c, version, step) ??
    setForReboot(c) ??
    requireSettings(c, version) ??
    requestReboot(c, version, step)
  );
}

function allowsReboot({ shadow: { spec } }: Context): boolean {
  return spec.settings?.allow === 'NeedsReboot';
}

/** True until the host has booted in this attempt, while settings need that. */
function waitsForReboot(c: AnsweredContext, version: string): boolean {
  const { status, generation } = c.shadow;
  const isReached = status?.current_state === 'RebootedIntoUpdate' && status.observedGeneration === generation;
  if (!allowsReboot(c) || isReached || hasBooted(c, version) || c.settings.state === 'unmanaged') return false;
  const { plan } = c.settings;
  return hasFailed(c) || plan === undefined || isLeft(plan) || plan.waitsForBoot.length > 0;
}

/** The lock and the waves need no reboot. */
function isLeft({ changes, unclassified }: SettingsPlan): boolean {
  return unclassified.size > 0 || [...changes.keys()].some((key) => !UPDATER_SETTINGS.includes(key));
}

function hasBooted({ shadow: { status, generation }, seen }: Context, version: string): boolean {
  const last = status?.lastOperation;
  const isCurrent = status?.observedGeneration === generation && sameVersion(last?.version, version);
  return isCurrent && mayBeActive(last) && last.bootID !== seen.bootID;
}

/** What no reboot may bring: the host boots the version that it runs. The recorded step limits how often it is tried. */
function withoutUpdate(c: AnsweredContext): Action | undefined {
  if (c.status?.state === 'Ready') return runCommand(c, 'deactivate', 'the host is to boot the running version again');
  if (c.settings.plan !== undefined) return undefined;
  const againAt = Math.max(c.tracker.settings.notBefore, c.seen.nowMs + LIMITS.pollFirst);
  return wait(c.seen, 'the settings of the host cannot be read', againAt);
}

/** The pods are gone, whatever the settings disrupt. */
function setForReboot(c: AnsweredContext): Action | undefined {
  return revertSettings(c) ?? enforceSettings(c);
}

function setForUpdate(c: AnsweredContext): Action | undefined {
  return allowsReboot(c) ? (setForReboot(c) ?? waitForRetry(c)) : undefined;
}

/** One lost answer is no reason for another reboot: an update waits for the first tries, which takes a few seconds. */
function waitForRetry(c: AnsweredContext): Action | undefined {
  const { settings, seen } = c;
  const { tries, notBefore, isReverted, error = '' } = c.tracker.settings;
  const isLeftToSet = settings.state === 'unsettled' && (settings.plan === undefined || isLeft(settings.plan));
  const isRetried = tries < UPDATE_SETTINGS_TRIES && !isReverted && notBefore > seen.nowMs;
  return isLeftToSet && isRetried ? wait(seen, `settings are set again: ${error}`, notBefore) : undefined;
}

/** After what the host has taken. */
function requireSettings(c: AnsweredContext, version: string): Action | undefined {
  const { settings, seen, tracker } = c;
  const { plan } = settings;
  if (plan !== undefined && isAllSet(plan, tracker.settings.applied)) return undefined;
  const { tries, notBefore, isReverted, error = 'the host does not report them' } = tracker.settings;
  const againAt = Math.max(notBefore, seen.nowMs + LIMITS.pollFirst);
  if (tries < SETTINGS_TRIES && !isReverted) return wait(seen, `settings are set again: ${error}`, againAt);
  return failStep(c, version, 'SettingsFailed', error);
}

/** Nothing can be stored again when a user has changed all of it meanwhile. */
function isAllSet({ changes, unclassified, recorded }: SettingsPlan, isApplied: boolean): boolean {
  return changes.size + unclassified.size === 0 && (isApplied || recorded.size === 0);
}

function arrived(c: AnsweredContext, version: string): Action {
  const { status, generation } = c.shadow;
  const isReported = status?.current_state === 'RebootedIntoUpdate' && status.observedGeneration === generation;
  if (isReported) return settle(c, {}, `${version} is running`);
  const reason = `${version} is running, and the Node must be in service`;
  const restoring = c.tracker.attempt.restored ? undefined : restoreNode(c, reason);
  if (restoring !== undefined) return restoring;
  const lastOperation = ended(c, 'Restore', version);
  const success = { crash_count: 0, state_transition_failure_timestamp: null, lastOperation } as const;
  return settle(c, { current_state: 'RebootedIntoUpdate', ...success }, `${version} is running, the Node is restored`);
}

function rebootedEarly(c: AnsweredContext, version: string): Action | undefined {
  const last = c.shadow.status?.lastOperation;
  const isBefore = last?.operation === 'Stage' || last?.operation === 'Drain';
  if (!isBefore || last.state === 'Failed' || !sameVersion(last.version, version)) return undefined;
  if (last.bootID === c.seen.bootID) return undefined;
  return failStep(c, version, 'StagedImageLost', `the host rebooted before ${version} was activated`);
}

function requireImage(c: AnsweredContext, version: string, step: LastOperation | undefined): Action | undefined {
  const { status, update } = c;
  if (update.kind === 'locked' || update.kind === 'failed')
    return step === undefined ? startDrain(c, version) : undefined;
  if (status === undefined) return imageLost(c, version, 'no update status');
  if (isVerified(status, version, step)) return undefined;
  if (!mayBeWritten(c, status, version)) return imageLost(c, version, describeStatus(status));
  return step === undefined ? startDrain(c, version) : writeAgain(c, version);
}

function isVerified(status: UpdateStatus, version: string, step?: LastOperation): boolean {
  const isInUse = mayBeActive(step) && isActivated(status, version);
  return isInUse || isStaged(status, version) || mayBeActivatedAgain(status, version, step);
}

/**
 * True after an activation of a verified image has failed, which changed nothing and hides the record of the prepare.
 * The image is normally verified before the step is recorded, perhaps by an earlier process; the host refuses one that is not.
 */
function mayBeActivatedAgain({ state, staged, latestCommand }: UpdateStatus, version: string, step?: LastOperation) {
  const isThere = state === 'Staged' && sameVersion(staged?.version, version);
  return isThere && latestCommand?.type === 'activate' && step?.operation === 'Activate';
}

/** Not during the drain, whose time would go on meanwhile. */
function writeAgain(c: AnsweredContext, version: string): Action | undefined {
  if (c.tracker.attempt.drain?.done === false) return undefined;
  return runCommand(c, 'prepare', `another actor has checked for updates: ${version} is written again`, { version });
}

/** True for an image that another actor hides, and for one that could not be written again. */
function mayBeWritten({ tracker }: AnsweredContext, status: UpdateStatus, version: string): boolean {
  return isHidden(status, version) || (tracker.attempt.error?.code === 'PrepareFailed' && isOffered(status, version));
}

function imageLost(c: AnsweredContext, version: string, found: string): Action {
  return failStep(c, version, 'StagedImageLost', `expected ${version} to be staged by its prepare, found ${found}`);
}

function startDrain(c: AnsweredContext, version: string): Action {
  return begin(c, 'Drain', version, 'StagedAndPerformedUpdate');
}

function beginDrain(c: AnsweredContext, version: string, step: LastOperation | undefined): Action | undefined {
  return step === undefined || step.operation === 'Stage' || step.operation === 'Restore'
    ? startDrain(c, version)
    : undefined;
}

function drain(c: AnsweredContext, version: string, step: LastOperation | undefined): Action | undefined {
  const { seen, tracker } = c;
  const { excludedUntil, drainedAt, drainNotBefore } = tracker.attempt;
  const first = failedDrain(c, version) ?? (step && reportDrainError(c, step));
  if (first !== undefined) return first;
  if (excludedUntil === undefined) return { do: 'exclude', reason: 'load balancers remove the node first' };
  if (excludedUntil > seen.nowMs) return waitForLoadBalancers(c, step, excludedUntil);
  // However long the host takes to answer: another pass would not make it faster.
  if (drainedAt !== undefined && seen.startedMs - drainedAt <= LIMITS.drainFresh) return undefined;
  if (drainNotBefore > seen.nowMs) return wait(seen, 'pausing between two drain passes', drainNotBefore);
  return { do: 'drain', reason: 'the node must be empty before the update is activated' };
}

function waitForLoadBalancers(c: AnsweredContext, step: LastOperation | undefined, untilMs: number): Action {
  const { nowMs, wallMs } = c.seen;
  const action = wait(c.seen, 'load balancers are removing the node', untilMs);
  const waitMs = untilMs - nowMs;
  if (step?.operation !== 'Drain' || step.message !== undefined || waitMs < LIMITS.callErrorReported) return action;
  const message = `load balancers have until ${rfc3339(wallMs + waitMs)} to remove the node`;
  return report(c, { lastOperation: { ...step, message } }, action.reason);
}

function failedDrain(c: AnsweredContext, version: string): Action | undefined {
  const { drain: latest } = c.tracker.attempt;
  if (latest?.failure === undefined) return undefined;
  const { code, message } = latest.failure;
  return failStep(c, version, code, `${message}; ${describeDrain(latest)}`);
}

/** Reports why no drain pass could run. `status.drain` has the rest. */
function reportDrainError(c: AnsweredContext, step: LastOperation): Action | undefined {
  const { drainError, excludedUntil } = c.tracker.attempt;
  const isTried = drainError !== undefined || excludedUntil !== undefined;
  return step.operation === 'Drain' && isTried ? reportCallError(c, step, DRAIN_ERROR, drainError) : undefined;
}

function activate(c: AnsweredContext, version: string, step: LastOperation | undefined): Action | undefined {
  if (c.status?.state === 'Ready') return undefined;
  if (step?.operation !== 'Activate') return begin(c, 'Activate', version);
  const { error } = c.tracker.attempt;
  // A reboot for another reason brings the old version then, which is no rollback.
  if (error?.code === 'ActivateFailed' && step.message === undefined)
    return report(c, { lastOperation: { ...step, message: `${NOT_ACTIVATED}${error.message}` } }, error.message);
  return runCommand(c, 'activate', 'the node is drained', { version });
}

/**
 * Requests the reboot. `lastUpdateTime` of the step records when; writing it also brings the newest
 * spec. No reboot is requested that could come after the end of the step, when the Node is
 * restored.
 */
function requestReboot(c: AnsweredContext, version: string, step: LastOperation | undefined): Action {
  const { wallMs, nowMs } = c.seen;
  if (step?.operation !== 'Reboot') return begin(c, 'Reboot', version);
  if (c.seen.specAgeMs > LIMITS.specFresh)
    return wait(c.seen, 'no reboot before the apiserver confirms the spec', nowMs + LIMITS.pollLongest);
  const endsMs = (parseTime(step.startTime) ?? wallMs) + stepLimit('Reboot', c.shadow.spec);
  if (endsMs - LIMITS.rebootPending < wallMs)
    return wait(c.seen, 'too late in this step to request a reboot', nowMs + endsMs - wallMs + 1);
  if (wallMs - (parseTime(step.lastUpdateTime) ?? 0) > LIMITS.rebootRequest)
    return report(c, { lastOperation: { ...step, lastUpdateTime: rfc3339(wallMs) } }, 'requesting the reboot again');
  return { do: 'reboot', reason: `${step.version} boots next` };
}
