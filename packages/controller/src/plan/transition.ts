/**
 * Decides on the next spec of one node; `assess.ts` calls {@link transition} for each. An update goes
 * Idle -> StagedAndPerformedUpdate -> RebootedIntoUpdate -> MonitoringUpdate -> Idle; `plan.ts` starts
 * it, the agent's reports advance it, and these functions, tried in order, end it:
 *
 *     repair      a spec without a usable version or start time
 *     interrupt   the pause mode Interrupt, until the host may have been asked to reboot
 *     supersede   the configuration rules out the version, until the drain is over
 *     release     disruption budgets blocked evictions while the node was cordoned
 *     answer      the agent reports the step as reached or failed; a staged node may be deferred
 *     rollBack    the new version was not healthy in time, and the configuration wants the previous one then
 *     cancel      the deadline has passed, until the drain is over
 *     configure   an idle host gets other settings, or those from before a change that failed, or may change no more
 *
 * After its drain a node always continues: its pods are gone, and only finishing returns it to service.
 */
import type { Allowed, ShadowSpec, ShadowState } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import {
  answers,
  hasReached,
  isPastDrain,
  isReboot,
  isSettled,
  isUnderWay,
  type ShadowView,
  startedAt,
} from '../cluster/shadow.ts';
import type { NodePair } from '../cluster/snapshot.ts';
import { isWanted, type UpdatePolicy } from '../policy/policy.ts';
import { isOutdated, withdrawn } from './facts/attempts.ts';
import { deadlineOf, isAccepted, isMisdated, isOverdue, stateSince, timeoutSeconds } from './facts/deadlines.ts';
import { isTrying, mayBeDrained } from './facts/blocked-drains.ts';
import { type Drainable, isDrainBlocked } from './facts/drainability.ts';
import type { Checks } from './facts/evaluations.ts';
import { hasFailedCheck, isBootUnconfirmed } from './facts/failed-nodes.ts';
import { beforeDrainOf, monitoringOf } from './facts/health.ts';
import { failedJob, recordsAtEnd } from './facts/jobs.ts';
import { allowedAtReboot, isProved, type SettingsFacts } from './facts/settings.ts';
import { ownSettings, requestedOf, sameSettings, specOf } from './facts/requested-settings.ts';
import { restored } from './facts/proved-settings.ts';
import type { Quorums } from './facts/quorums.ts';
import type { Workloads } from './facts/workloads.ts';
import { isRollbackWanted, isRollingBack, previousVersion, rollbackPolicy } from './facts/rollback.ts';
import { beforeDrain } from './gates/checks.ts';
import type { Blocked, Reason } from './gates/reasons.ts';
import type { Outcome, Transition } from './outcomes.ts';

export interface TransitionInput extends NodePair {
  readonly policy: UpdatePolicy;
  readonly drain: () => Drainable;
  readonly blockedBy: Blocked | undefined;
  readonly checks: Checks;
  readonly workloads: Workloads;
  readonly quorums: Quorums;
  readonly settings: SettingsFacts | undefined;
  readonly now: number;
}

function idleSpec({ settings }: UpdatePolicy, now: number, allow: Allowed = 'None'): ShadowSpec {
  return {
    state: 'Idle',
    version: null,
    state_transition_timestamp: rfc3339(now),
    timeoutSeconds: null,
    settings: specOf(settings, allow),
  };
}

/** Returns the transition to Idle, which also ends an update. */
export function idle({ policy, now }: Pick<TransitionInput, 'policy' | 'now'>, outcome: Outcome): Transition {
  return { spec: idleSpec(policy, now), outcome };
}

/** Settings that need a reboot are set before the drain of an update, whose reboot brings them. */
export function startSpec(version: string, policy: UpdatePolicy, now: number, facts?: SettingsFacts): ShadowSpec {
  const allow = facts === undefined ? 'None' : allowedAtReboot(facts);
  return stepSpec({ ...idleSpec(policy, now, allow), version }, 'StagedAndPerformedUpdate', policy, now);
}

function stepSpec(spec: ShadowSpec, state: ShadowState, policy: UpdatePolicy, now: number): ShadowSpec {
  const state_transition_timestamp = rfc3339(now);
  return { ...spec, state, state_transition_timestamp, timeoutSeconds: timeoutSeconds(state, policy) };
}

export function transition(input: TransitionInput): Transition | undefined {
  const next =
    repair(input) ?? endBeforeReboot(input) ?? answer(input) ?? rollBack(input) ?? cancel(input) ?? configure(input);
  const isEnd = next?.spec.state === 'Idle' && isUnderWay(input.shadow);
  return isEnd ? { ...next, jobs: recordsAtEnd(input) } : next;
}

/** Before the host may have been asked to reboot. */
function endBeforeReboot(input: TransitionInput): Transition | undefined {
  return interrupt(input) ?? supersede(input) ?? release(input);
}

function interrupt(input: TransitionInput): Transition | undefined {
  const { shadow, policy } = input;
  const applies = policy.interrupt && isUnderWay(shadow) && !mayHaveRebooted(shadow);
  return applies ? idle(input, 'Interrupted') : undefined;
}

function supersede(input: TransitionInput): Transition | undefined {
  const { shadow, policy, now } = input;
  const isEnded = isRollingBack(shadow) && !isRollbackWanted(shadow, policy, now);
  const isOther = isReboot(shadow) && !sameSettings(requestedOf(shadow), policy.settings);
  const isAllowed = isWanted(shadow.spec.version ?? '', policy.versions) && !isEnded && !isOther;
  return isUnderWay(shadow) && !isPastDrain(shadow) && !isAllowed ? idle(input, 'Superseded') : undefined;
}

/** No other pod was evicted: it is no failure. */
function release(input: TransitionInput): Transition | undefined {
  const { spec, status, metadata } = input.shadow;
  const { observedGeneration, result } = status?.drain ?? {};
  const isOver = observedGeneration === metadata.generation && result === 'Blocked';
  if (spec.state !== 'RebootedIntoUpdate' || !isOver || isPastDrain(input.shadow)) return undefined;
  return { ...idle(input, 'Deferred'), because: NOT_LET_GO };
}

const NOT_LET_GO: Blocked = {
  reason: 'DrainBlocked',
  message:
    'The node was cordoned, and disruption budgets still blocked the eviction of their pods; no other pod was evicted',
};

function configure(input: TransitionInput): Transition | undefined {
  const { shadow } = input;
  const { state, state_transition_timestamp } = shadow.spec;
  if (state !== 'Idle') return undefined;
  if (input.settings?.failure !== undefined) return putBack(input, input.settings.failure);
  if (sameSettings(requestedOf(shadow), input.policy.settings))
    return isProved(input) ? { ...idle(input, 'Configured'), proves: true } : undefined;
  const configured = idle(input, 'Configured');
  if (isSettled(shadow)) return configured;
  // The deadline of the agent stays, because a kubelet may cause changes with the labels of its Node.
  return {
    ...configured,
    spec: { ...configured.spec, state_transition_timestamp: state_transition_timestamp ?? null },
  };
}

/** What was in force before the change is restored, once, by what the failed change was allowed to do. */
function putBack({ shadow, policy, now, settings }: TransitionInput, message: string): Transition {
  const spec = idleSpec(restored(policy, shadow), now, shadow.spec.settings?.allow);
  return {
    spec,
    outcome: 'SettingsFailed',
    because: { reason: 'HostSettingsNotApplied', message },
    failedSettings: settings?.hash,
  };
}

/** The reboot that follows restores what was before. */
function unsetSettings(input: TransitionInput, problem: string): Transition | undefined {
  const isTried = isReboot(input.shadow) && ownSettings(requestedOf(input.shadow)).length > 0;
  return isTried
    ? { ...putBack(input, problem), spec: idleSpec(restored(input.policy, input.shadow), input.now) }
    : undefined;
}

/** The transition that lets a host at rest set what disrupts as much as `allow`. */
export function grant({ policy, now }: Pick<TransitionInput, 'policy' | 'now'>, allow: Allowed): Transition {
  return { spec: idleSpec(policy, now, allow), outcome: 'Configured' };
}

function mayHaveRebooted({ spec, status }: ShadowView): boolean {
  if (spec.state === 'StagedAndPerformedUpdate') return false;
  if (spec.state !== 'RebootedIntoUpdate') return true;
  const { operation } = status?.lastOperation ?? {};
  return (
    operation === 'Reboot' || operation === 'Restore' || sameVersion(status?.current_version ?? '', spec.version ?? '')
  );
}

function repair(input: TransitionInput): Transition | undefined {
  const { shadow, now } = input;
  const { spec } = shadow;
  if (spec.state === 'Idle') return isSettled(shadow) || !isMisdated(spec, now) ? undefined : redated(spec, now);
  if (spec.state === 'ErrorReset' || (spec.version ?? '') === '') return idle(input, 'Repaired');
  return stateSince(spec, now) === undefined ? redated(spec, now) : undefined;
}

function redated(spec: ShadowSpec, now: number): Transition {
  return { spec: { ...spec, state_transition_timestamp: rfc3339(now) }, outcome: 'Repaired' };
}

function answer(input: TransitionInput): Transition | undefined {
  const { shadow, node, policy, now } = input;
  if (!isUnderWay(shadow) || !answers(shadow)) return undefined;
  const state = shadow.status?.current_state;
  if (state === 'ErrorReset' && isBootUnconfirmed(shadow, node) && !isOverdue(shadow, policy, now)) return undefined;
  if (state === 'ErrorReset') return idle(input, isFirstWithdrawal(shadow) ? 'Withdrawn' : 'Failed');
  return state === shadow.spec.state ? reached(input) : undefined;
}

/** Only the first one since the latest success is no failure, because an agent may report it each time. */
function isFirstWithdrawal(shadow: ShadowView): boolean {
  return shadow.spec.state === 'StagedAndPerformedUpdate' && isOutdated(shadow) && withdrawn(shadow) === 0;
}

function reached(input: TransitionInput): Transition | undefined {
  const { shadow, policy, now } = input;
  switch (shadow.spec.state) {
    case 'StagedAndPerformedUpdate': {
      const waits = staysStaged(input);
      if (waits !== undefined) return waits === 'stays' ? undefined : waits;
      const spec = stepSpec(shadow.spec, 'RebootedIntoUpdate', policy, now);
      // What is unhealthy on the version that failed must not excuse the previous one.
      return { spec, outcome: 'Advanced', ...(!isRollingBack(shadow) && beforeDrainOf(input)) };
    }
    case 'RebootedIntoUpdate':
      return { spec: stepSpec(shadow.spec, 'MonitoringUpdate', policy, now), outcome: 'Advanced' };
    default:
      return monitored(input);
  }
}

function monitored(input: TransitionInput): Transition | undefined {
  if (hasFailedCheck(input)) {
    const because = { reason: 'CheckFailed', message: failedJob(input)?.message ?? '' } as const;
    return (
      goBack(input, because) ?? unsetSettings(input, because.message) ?? { ...idle(input, 'CheckFailed'), because }
    );
  }
  const { healthyAt = Infinity } = monitoringOf(input);
  return input.now < healthyAt ? undefined : succeeded(input);
}

/** Undefined: the node is drained. */
function staysStaged(input: TransitionInput): Transition | 'stays' | undefined {
  const { blockedBy, drain } = input;
  if (blockedBy !== undefined) return defer(input) ?? 'stays';
  const { blocked, jobs } = beforeDrain(input);
  if (blocked !== undefined)
    return blocked.isUnknown === true ? 'stays' : { ...idle(input, 'Deferred'), because: blocked };
  const runs = jobs.isBegun && !jobs.isDone;
  if (!runs && !mayBeDrained(drain(), input.shadow)) return defer(input) ?? 'stays';
  return jobs.isDone ? undefined : 'stays';
}

function succeeded(input: TransitionInput): Transition {
  const { deadlinesFrom = 0 } = input.policy;
  const wasSuspended = deadlinesFrom > (startedAt(input.shadow) ?? 0);
  if (isRollingBack(input.shadow)) return idle(input, 'Reverted');
  return { ...idle(input, 'Succeeded'), ...(wasSuspended && { wasSuspended }) };
}

/** They pass by themselves; while the first two hold, other nodes cannot start either. */
const STAYS: readonly Reason[] = ['WatchStale', 'ClockSkew', 'ConnectivityLost', 'WorkloadsNotReady', 'PodListFailed'];

/** Waits while pods or watches are unknown; otherwise the node releases its slot. */
function defer(input: TransitionInput): Transition | undefined {
  const { shadow, policy, blockedBy, drain, now } = input;
  const stays =
    blockedBy === undefined
      ? !isDrainBlocked(drain(), now) || (drain().mayOpen && isTrying(shadow))
      : (blockedBy.isUnknown === true || STAYS.includes(blockedBy.reason)) && !isOverdue(shadow, policy, now);
  if (stays) return undefined;
  return { ...idle(input, 'Deferred'), ...(blockedBy !== undefined && { because: blockedBy }) };
}

/** Only while its agent responds: the same agent must stage the previous version. */
function rollBack(input: TransitionInput): Transition | undefined {
  const { shadow, policy, now } = input;
  const { problem, lasting, isUnknown } = monitoringOf(input);
  const isKnown = problem !== undefined && lasting !== true && isUnknown !== true;
  if (shadow.spec.state !== 'MonitoringUpdate' || !isKnown || hasGoneDown(input)) return undefined;
  const deadline = deadlineOf(shadow, policy, now);
  return now >= deadline && !isAccepted(deadline, policy, now)
    ? (goBack(input, { reason: 'DeadlineExceeded', message: problem }) ?? unsetSettings(input, problem))
    : undefined;
}

/** Its agent has reported before that, and may not run any more. */
function hasGoneDown({ node, shadow, now }: TransitionInput): boolean {
  return !node.ready && (parseTime(node.readySince) ?? 0) > (stateSince(shadow.spec, now) ?? now);
}

function goBack({ shadow, policy, now }: TransitionInput, because: Transition['because']): Transition | undefined {
  const previous = previousVersion(shadow, policy);
  if (previous === undefined || because === undefined) return undefined;
  return { ...idle({ policy: rollbackPolicy(policy, previous), now }, 'Reverting'), previous, because };
}

function cancel(input: TransitionInput): Transition | undefined {
  const { shadow, policy, now } = input;
  const cannotSucceed = monitoringOf(input).lasting === true;
  if ((isPastDrain(shadow) && !cannotSucceed) || !isOverdue(shadow, policy, now)) return undefined;
  return idle(input, 'Cancelled');
}

/** True when only the list of pods is missing, before the drain or after the update. */
export function needsPods(input: TransitionInput): boolean {
  const { shadow, drain, blockedBy } = input;
  if (monitoringOf(input).lookUp === true) return true;
  const staged = shadow.spec.state === 'StagedAndPerformedUpdate' && hasReached(shadow);
  if (!staged || blockedBy !== undefined || mayBeDrained(drain(), shadow)) return false;
  const { blocked, jobs } = beforeDrain(input);
  return blocked === undefined && (jobs.isDone || !jobs.isBegun);
}
