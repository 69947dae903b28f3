/**
 * Decides on the next spec of one node; `assess.ts` calls {@link transition} for each. `plan.ts` starts an update,
 * which goes through the states of `cluster/state.ts`. Each decision is a {@link Transition}, whose {@link Outcome}
 * says how an attempt goes on or ends. For each state, {@link STEPS} has what may follow:
 *
 *     repair      a spec without a usable version or start time; in every state
 *     abort       a user ends the update, until the host may have been asked to reboot
 *     interrupt   the pause mode Interrupt, until the host may have been asked to reboot
 *     supersede   the configuration rules out the version
 *     release     disruption budgets blocked evictions while the node was cordoned
 *     fail        the agent reports a failure
 *     startDrain  a staged node is drained, stays staged, or is deferred
 *     prove       the agent has reported the boot
 *     succeed     the node was healthy for long enough, or a check has failed
 *     rollBack    the new version was not healthy in time, and the configuration wants the previous one then
 *     cancel      the deadline has passed
 *     configure   an idle host gets other settings, or those from before a change that failed, or may change no more
 *
 * After its drain a node always continues: its pods are gone, and only finishing returns it to service.
 */
import { ABORT_ANNOTATION, ABORT_VALUE } from '@brupop/shared/api/names';
import type { NodeRecord } from '@brupop/shared/api/record';
import type { Allowed, ShadowSpec, ShadowState } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { NodePair } from '../../cluster/snapshot.ts';
import { answers, hasReached, isSettled, isUnderWay, type NodeState } from '../../cluster/state.ts';
import { describePause } from '../../policy/node-groups.ts';
import { isWanted, type UpdatePolicy } from '../../policy/policy.ts';
import { failedJob, recordsAtEnd, type WrittenJobs } from '../facts/jobs.ts';
import { type Blocked, firstOf, type Reason } from '../facts/reasons.ts';
import {
  hasRollbackEnded,
  isRollbackWanted,
  isWithdrawal,
  previousVersion,
  rollbackPolicy,
} from '../facts/attempts.ts';
import { deadlineOf, isAccepted, isMisdated, isOverdue, stateSince, timeoutSeconds } from '../facts/deadlines.ts';
import { isDrainBlocked, isTrying, mayBeDrained } from '../facts/drainability.ts';
import { hasFailedCheck, isBootUnconfirmed } from '../facts/failed-nodes.ts';
import { type BeforeDrain, beforeDrainOf, type MonitoringInput, monitoringOf } from '../facts/health.ts';
import {
  isProved,
  ownSettings,
  requestedOf,
  restored,
  restoresSettings,
  sameSettings,
  type SettingsFacts,
  specOf,
} from '../facts/settings.ts';
import { beforeDrain } from '../facts/query-checks.ts';
import type { Moment } from '../../kept/moment.ts';

export type Outcome =
  /** A waiting node starts its update. */
  | 'Started'
  /** A step is complete, and the spec calls for the next one. */
  | 'Advanced'
  /** The node runs the new version and is healthy. */
  | 'Succeeded'
  /** The agent has reported a failure; it cleans up on Idle. */
  | 'Failed'
  /** The host no longer offers the version: no failure. The node starts again with the version that is offered. */
  | 'Withdrawn'
  /**
   * The step passed its deadline without a report of a failure: a staging or a drain, after which
   * no host goes down yet, or a monitoring that cannot succeed.
   */
  | 'Cancelled'
  /** The new version was not healthy in time: the node goes back to its previous one. */
  | 'Reverting'
  /** The node runs its previous version again, and is healthy. */
  | 'Reverted'
  /** The Job of a check failed after the update. */
  | 'CheckFailed'
  /** Staged, but the node cannot or must not be drained now: another node goes first. */
  | 'Deferred'
  /** A user has interrupted updates. */
  | 'Interrupted'
  /** A user has ended this update. */
  | 'Aborted'
  /** The configuration no longer allows this version. */
  | 'Superseded'
  /** The host did not get its settings, or the node was not Ready with them: the former ones are restored. */
  | 'SettingsFailed'
  /** A node at rest whose host gets other settings. */
  | 'Configured'
  /** This controller does not write such a spec: ErrorReset, no version, or no readable time. */
  | 'Repaired'
  /** The node is no longer managed. */
  | 'Released';

export interface Transition {
  readonly spec: ShadowSpec;
  readonly outcome: Outcome;
  /** At the start of a drain: what is recorded of the node. */
  readonly beforeDrain?: BeforeDrain;
  /** Why the update is cancelled or interrupted; or deferred, unless the pods on the node are the reason. */
  readonly because?: Pick<Blocked, 'reason' | 'message'>;
  /** At a start: pods on the node are unhealthy, and it has waited for them for long enough. */
  readonly unhealthyPods?: string | undefined;
  /** The host has proved the settings of its group. */
  readonly proves?: boolean;
  /** The hash of the settings that failed. */
  readonly failedSettings?: string | undefined;
  /** The version to go back to. */
  readonly previous?: string;
  /** The node is not to go back any more. */
  readonly endsRollback?: boolean;
  /** Connectivity was lost during the update, or it waited once staged, so its duration says nothing. */
  readonly wasSuspended?: boolean;
  /** A user asked for this start with the annotation `update-now`. */
  readonly isRequested?: boolean | undefined;
  /** Started although disruption budgets hold pods of the node. */
  readonly isBlocked?: boolean;
  /** At a start, a grant and an end: the node gets back what it had before settings that failed. */
  readonly restores?: boolean;
  /** At a start: the group that the node is in. */
  readonly group?: string | undefined;
  /** At a start: the members of quorums on the node. */
  readonly members?: NonNullable<NodeRecord['members']>;
  /** The Jobs on record; null: none. */
  readonly jobs?: WrittenJobs;
}

export interface TransitionInput extends NodePair, MonitoringInput {
  /** What users ask for: in `policy`, the pin of a node that goes back is its previous version. */
  readonly rules: UpdatePolicy;
  readonly ownNamespace: string;
  readonly blockedBy: Blocked | undefined;
  readonly settings: SettingsFacts | undefined;
}

function idleSpec({ settings }: UpdatePolicy, now: Moment, allow: Allowed = 'None'): ShadowSpec {
  return {
    state: 'Idle',
    version: null,
    state_transition_timestamp: rfc3339(now.ms),
    timeoutSeconds: null,
    settings: specOf(settings, allow),
  };
}

/** Returns the transition to Idle, which also ends an update. */
export function idle({ policy, now }: Pick<TransitionInput, 'policy' | 'now'>, outcome: Outcome): Transition {
  return { spec: idleSpec(policy, now), outcome };
}

/** Settings that need a reboot are set before the drain of an update, whose reboot brings them. */
export function startSpec(version: string, policy: UpdatePolicy, now: Moment, allow?: Allowed): ShadowSpec {
  return stepSpec({ ...idleSpec(policy, now, allow), version }, 'StagedAndPerformedUpdate', policy, now);
}

function stepSpec(spec: ShadowSpec, state: ShadowState, policy: UpdatePolicy, now: Moment): ShadowSpec {
  const state_transition_timestamp = rfc3339(now.ms);
  return { ...spec, state, state_transition_timestamp, timeoutSeconds: timeoutSeconds(state, policy) };
}

type Step = (input: TransitionInput) => Transition | undefined;

/** The first that has an answer decides. */
const STEPS: Readonly<Record<NodeState, readonly Step[]>> = {
  Staging: [abort, interrupt, supersede, fail, cancel],
  Staged: [abort, interrupt, supersede, startDrain, cancel],
  Draining: [abort, interrupt, supersede, release, fail, prove, cancel],
  Away: [abort, interrupt, fail, prove],
  Proving: [fail, succeed, rollBack, cancelHopeless],
  Finishing: [configure],
  Restoring: [configure],
  Resting: [configure],
  Unconfirmed: [configure],
};

export function transition(input: TransitionInput): Transition | undefined {
  const next = repair(input) ?? firstOf(STEPS[input.shadow.state], input);
  return next !== undefined && isEnd(next, input.shadow)
    ? { ...next, jobs: recordsAtEnd(input), restores: isRestored(input) }
    : next;
}

/** True for each end of an update or of a reboot for settings, however it ends. */
export function isEnd({ spec }: Pick<Transition, 'spec'>, shadow: ShadowView): boolean {
  return isUnderWay(shadow) && spec.state === 'Idle';
}

function abort(input: TransitionInput): Transition | undefined {
  const isAsked = input.shadow.metadata.annotations?.[ABORT_ANNOTATION] === ABORT_VALUE;
  return isAsked && !mayHaveRebooted(input.shadow) ? idle(input, 'Aborted') : undefined;
}

function interrupt(input: TransitionInput): Transition | undefined {
  const { shadow, policy, group } = input;
  if (!policy.interrupt || mayHaveRebooted(shadow)) return undefined;
  return { ...idle(input, 'Interrupted'), because: { reason: 'Paused', message: describePause(policy, group) } };
}

function supersede(input: TransitionInput): Transition | undefined {
  const { shadow, policy, rules, now } = input;
  const purpose = shadow.purpose;
  const isEnded = purpose === 'Rollback' && !isRollbackWanted(shadow, rules, now);
  // Those of spec.versions are set at rest, without a reboot.
  const isOther =
    purpose === 'Settings' && !sameSettings(ownSettings(requestedOf(shadow)), ownSettings(policy.settings));
  // A restore boots the version that the node runs, which no gate asks for at its start either.
  const isAllowed = restoresSettings(shadow, input.settings) || isWanted(shadow.spec.version ?? '', policy.versions);
  return isAllowed && !isEnded && !isOther ? undefined : idle(input, 'Superseded');
}

/** No other pod was evicted: it is no failure. */
function release(input: TransitionInput): Transition | undefined {
  const { status, metadata } = input.shadow;
  const { observedGeneration, result } = status?.drain ?? {};
  const isOver = observedGeneration === metadata.generation && result === 'Blocked';
  return isOver ? { ...idle(input, 'Deferred'), because: NOT_LET_GO } : undefined;
}

const NOT_LET_GO: Blocked = {
  reason: 'DrainBlocked',
  message:
    'The node was cordoned, and disruption budgets still blocked the eviction of their pods; no other pod was evicted',
};

function configure(input: TransitionInput): Transition | undefined {
  const { shadow } = input;
  const { state_transition_timestamp } = shadow.spec;
  if (input.settings?.failure !== undefined) return restoreSettings(input, input.settings.failure);
  const endsRollback = hasRollbackEnded(input, input.rules, input.now);
  if (sameSettings(requestedOf(shadow), input.policy.settings)) {
    if (isProved(input)) return { ...idle(input, 'Configured'), proves: true, endsRollback };
    return endsRollback ? { ...redated(shadow.spec, input.now), outcome: 'Configured', endsRollback } : undefined;
  }
  const configured = { ...idle(input, 'Configured'), endsRollback };
  if (isSettled(shadow)) return configured;
  // The deadline of the agent stays, because a kubelet may cause changes with the labels of its Node.
  return {
    ...configured,
    spec: { ...configured.spec, state_transition_timestamp: state_transition_timestamp ?? null },
  };
}

/** What was in force before the change is restored, once, by what the failed change was allowed to do. */
function restoreSettings({ shadow, policy, now, settings }: TransitionInput, message: string): Transition {
  const spec = idleSpec(restored(policy, shadow), now, shadow.spec.settings?.allow);
  return {
    spec,
    outcome: 'SettingsFailed',
    because: { reason: 'HostSettingsNotApplied', message },
    failedSettings: settings?.hash,
  };
}

/** True when the policy has what was in force before settings that have failed. */
function isRestored({ settings }: TransitionInput): boolean {
  return settings?.state === 'failed';
}

/** The reboot that follows restores what was before, once. */
function unsetSettings(input: TransitionInput, problem: string): Transition | undefined {
  const { shadow, policy, now } = input;
  const isTried = shadow.purpose === 'Settings' && ownSettings(requestedOf(shadow)).length > 0;
  const before = isRestored(input) ? policy : restored(policy, shadow);
  return isTried ? { ...restoreSettings(input, problem), spec: idleSpec(before, now) } : undefined;
}

/** The transition that lets a host at rest set what disrupts as much as `allow`. */
export function grant({ policy, now }: Pick<TransitionInput, 'policy' | 'now'>, allow: Allowed): Transition {
  return { spec: idleSpec(policy, now, allow), outcome: 'Configured' };
}

/** True once the host may have been asked to reboot: the update is not ended by a user or a pause any more. */
export function mayHaveRebooted({ spec, state, status, purpose }: ShadowView): boolean {
  if (state === 'Staging' || state === 'Staged') return false;
  const { operation } = status?.lastOperation ?? {};
  if (operation === 'Reboot' || operation === 'Restore') return true;
  const isOldVersion = state === 'Draining' && purpose === 'Settings';
  return !isOldVersion && sameVersion(status?.current_version, spec.version);
}

function repair(input: TransitionInput): Transition | undefined {
  const { shadow } = input;
  const { state, version } = shadow.spec;
  const isUsable = state === 'Idle' || (state !== 'ErrorReset' && (version ?? '') !== '');
  return isUsable ? redate(input) : idle(input, 'Repaired');
}

/** A time that is still to come by a wrong clock may be the right one. */
function redate({ shadow, policy, now }: TransitionInput): Transition | undefined {
  const isIdle = shadow.spec.state === 'Idle';
  const isDated = isIdle ? isSettled(shadow) || !isMisdated(shadow, now) : stateSince(shadow, now) !== undefined;
  return isDated || policy.isClockWrong === true ? undefined : redated(shadow.spec, now);
}

function redated(spec: ShadowSpec, now: Moment): Transition {
  return { spec: { ...spec, state_transition_timestamp: rfc3339(now.ms) }, outcome: 'Repaired' };
}

function fail(input: TransitionInput): Transition | undefined {
  const { shadow, node, policy, now } = input;
  if (!answers(shadow) || shadow.status?.current_state !== 'ErrorReset') return undefined;
  if (isBootUnconfirmed(shadow, node) && !isOverdue(shadow, policy, now)) return undefined;
  return idle(input, isWithdrawal(shadow) ? 'Withdrawn' : 'Failed');
}

function startDrain(input: TransitionInput): Transition | undefined {
  const { shadow, policy, blockedBy, drain, now } = input;
  if (blockedBy !== undefined) return defer(input);
  const { blocked, jobs } = beforeDrain(input);
  if (blocked !== undefined)
    return blocked.isUnknown === true ? undefined : { ...idle(input, 'Deferred'), because: blocked };
  const runs = jobs.isStarted && !jobs.isDone;
  if (!runs && !mayBeDrained(drain(), shadow)) return defer(input);
  if (!jobs.isDone) return undefined;
  const spec = stepSpec(shadow.spec, 'RebootedIntoUpdate', policy, now);
  // What is unhealthy on the version that failed must not excuse the previous one.
  return { spec, outcome: 'Advanced', ...(shadow.purpose !== 'Rollback' && { beforeDrain: beforeDrainOf(input) }) };
}

/** The node is in service already. By a wrong clock, the next leader would find that it is late, or was healthy for long. */
function prove({ shadow, policy, now }: TransitionInput): Transition | undefined {
  if (!hasReached(shadow) || policy.isClockWrong === true) return undefined;
  return { spec: stepSpec(shadow.spec, 'MonitoringUpdate', policy, now), outcome: 'Advanced' };
}

function succeed(input: TransitionInput): Transition | undefined {
  if (!hasReached(input.shadow)) return undefined;
  if (hasFailedCheck(input)) {
    const because = { reason: 'CheckFailed', message: failedJob(input)?.message ?? '' } as const;
    return (
      goBack(input, because) ?? unsetSettings(input, because.message) ?? { ...idle(input, 'CheckFailed'), because }
    );
  }
  const { healthyAt = Infinity } = monitoringOf(input);
  if (!input.now.reached(healthyAt)) return undefined;
  if (input.shadow.purpose === 'Rollback') return idle(input, 'Reverted');
  return { ...idle(input, 'Succeeded'), ...suspension(input) };
}

/** What connectivity that was lost meanwhile has added says nothing about the duration of an update. */
function suspension({ shadow, policy: { deadlinesFrom = 0 } }: TransitionInput): Pick<Transition, 'wasSuspended'> {
  return deadlinesFrom > (shadow.times.startedAt ?? 0) ? { wasSuspended: true } : {};
}

/** They pass by themselves; while the first two hold, other nodes cannot start either. */
const PASSING: readonly Reason[] = [
  'WatchStale',
  'ClockSkew',
  'ConnectivityLost',
  'WorkloadsNotReady',
  'PodListFailed',
];

/** Waits while pods or watches are unknown; otherwise the node releases its slot. */
function defer(input: TransitionInput): Transition | undefined {
  const { shadow, policy, blockedBy, drain, now } = input;
  const isKept =
    blockedBy === undefined
      ? !isDrainBlocked(drain(), now.ms) || (drain().mayOpen && isTrying(shadow))
      : (blockedBy.isUnknown === true || PASSING.includes(blockedBy.reason)) && !isOverdue(shadow, policy, now);
  if (isKept) return undefined;
  const hasWaited = PASSING.some((reason) => reason === shadow.progressing?.reason);
  const suspended = hasWaited ? { wasSuspended: true } : suspension(input);
  return { ...idle(input, 'Deferred'), ...suspended, ...(blockedBy !== undefined && { because: blockedBy }) };
}

/** Only while its agent responds: the same agent must stage the previous version. */
function rollBack(input: TransitionInput): Transition | undefined {
  const { shadow, policy, now } = input;
  const { problem, lasting, isUnknown } = monitoringOf(input);
  const isKnown = problem !== undefined && lasting !== true && isUnknown !== true;
  if (!isKnown || hasGoneDown(input)) return undefined;
  const deadline = deadlineOf(shadow, policy, now);
  return now.reached(deadline) && !isAccepted(deadline, policy, now)
    ? (goBack(input, { reason: 'DeadlineExceeded', message: problem }) ?? unsetSettings(input, problem))
    : undefined;
}

/** Its agent has reported before that, and may not run any more. */
function hasGoneDown({ node, shadow, now }: TransitionInput): boolean {
  return !node.ready && (node.readySince ?? 0) > (stateSince(shadow, now) ?? now.ms);
}

function goBack({ shadow, policy, now }: TransitionInput, because: Transition['because']): Transition | undefined {
  const previous = previousVersion(shadow, policy);
  if (previous === undefined || because === undefined) return undefined;
  return { ...idle({ policy: rollbackPolicy(policy, previous), now }, 'Reverting'), previous, because };
}

function cancel(input: TransitionInput): Transition | undefined {
  const { shadow, policy, now } = input;
  return isOverdue(shadow, policy, now) ? idle(input, 'Cancelled') : undefined;
}

/** A node that can still become healthy continues after the deadline. */
function cancelHopeless(input: TransitionInput): Transition | undefined {
  return monitoringOf(input).lasting === true ? cancel(input) : undefined;
}

/** True when only the list of pods is missing, before the drain or after the update. */
export function needsPods(input: TransitionInput): boolean {
  const { shadow, drain, blockedBy } = input;
  if (monitoringOf(input).lookUp === true) return true;
  if (shadow.state !== 'Staged' || blockedBy !== undefined || mayBeDrained(drain(), shadow)) return false;
  const { blocked, jobs } = beforeDrain(input);
  return blocked === undefined && (jobs.isDone || !jobs.isStarted);
}
