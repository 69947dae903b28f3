/**
 * Decides on the next spec of one node; `assess.ts` calls {@link transition} for each. An update goes
 * Idle -> StagedAndPerformedUpdate -> RebootedIntoUpdate -> MonitoringUpdate -> Idle; `plan.ts` starts
 * it, the agent's reports advance it, and these functions, tried in order, end it:
 *
 *     repair      a spec without a usable version or start time
 *     interrupt   the pause mode Interrupt, until the host may have been asked to reboot
 *     supersede   the configuration rules out the version, until the drain is over
 *     answer      the agent reports the step as reached or failed; a staged node may be deferred
 *     cancel      the deadline has passed, until the drain is over
 *     configure   an idle host gets other settings
 *
 * After its drain a node always continues: its pods are gone, and only finishing returns it to service.
 */
import type { HostSettings, ShadowSpec, ShadowState } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import {
  answers,
  hasReached,
  isPastDrain,
  isSettled,
  isUnderWay,
  type ShadowView,
  startedAt,
} from '../cluster/shadow.ts';
import type { NodePair } from '../cluster/snapshot.ts';
import { isWanted, type UpdatePolicy } from '../policy/policy.ts';
import { isOutdated, withdrawn } from './facts/attempts.ts';
import { isMisdated, isOverdue, stateSince, timeoutSeconds } from './facts/deadlines.ts';
import { type Drainable, isDrainable, isDrainBlocked } from './facts/drainability.ts';
import { monitoringOf } from './facts/health.ts';
import type { Blocked, Reason } from './gates/reasons.ts';
import type { Outcome, Transition } from './spec-change.ts';

export interface TransitionInput extends NodePair {
  readonly policy: UpdatePolicy;
  readonly drain: () => Drainable;
  readonly blockedBy: Blocked | undefined;
  readonly now: number;
}

function idleSpec({ hostSettings }: UpdatePolicy, now: number): ShadowSpec {
  return {
    state: 'Idle',
    version: null,
    state_transition_timestamp: rfc3339(now),
    timeoutSeconds: null,
    hostSettings: hostSettings ?? null,
  };
}

/** Returns the transition to Idle, which also ends an update. */
export function idle({ policy, now }: Pick<TransitionInput, 'policy' | 'now'>, outcome: Outcome): Transition {
  return { spec: idleSpec(policy, now), outcome };
}

export function startSpec(version: string, policy: UpdatePolicy, now: number): ShadowSpec {
  return stepSpec({ ...idleSpec(policy, now), version }, 'StagedAndPerformedUpdate', policy, now);
}

function stepSpec(spec: ShadowSpec, state: ShadowState, policy: UpdatePolicy, now: number): ShadowSpec {
  const state_transition_timestamp = rfc3339(now);
  return { ...spec, state, state_transition_timestamp, timeoutSeconds: timeoutSeconds(state, policy) };
}

export function transition(input: TransitionInput): Transition | undefined {
  return repair(input) ?? interrupt(input) ?? supersede(input) ?? answer(input) ?? cancel(input) ?? configure(input);
}

function interrupt(input: TransitionInput): Transition | undefined {
  const { shadow, policy } = input;
  const applies = policy.interrupt && isUnderWay(shadow) && !mayHaveRebooted(shadow);
  return applies ? idle(input, 'Interrupted') : undefined;
}

function supersede(input: TransitionInput): Transition | undefined {
  const { shadow, policy } = input;
  const isAllowed = isWanted(shadow.spec.version ?? '', policy.versions);
  return isUnderWay(shadow) && !isPastDrain(shadow) && !isAllowed ? idle(input, 'Superseded') : undefined;
}

function configure(input: TransitionInput): Transition | undefined {
  const { shadow } = input;
  const { state, hostSettings, state_transition_timestamp } = shadow.spec;
  if (state !== 'Idle' || sameSettings(hostSettings, input.policy.hostSettings)) return undefined;
  const configured = idle(input, 'Configured');
  if (isSettled(shadow)) return configured;
  // The deadline of the agent stays, because a kubelet may cause changes with the labels of its Node.
  return {
    ...configured,
    spec: { ...configured.spec, state_transition_timestamp: state_transition_timestamp ?? null },
  };
}

export function sameSettings(a: HostSettings | null | undefined, b: HostSettings | null | undefined): boolean {
  return (a?.versionLock ?? null) === (b?.versionLock ?? null) && (a?.ignoreWaves ?? null) === (b?.ignoreWaves ?? null);
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
  const { shadow } = input;
  if (!isUnderWay(shadow) || !answers(shadow)) return undefined;
  const state = shadow.status?.current_state;
  if (state === 'ErrorReset') return idle(input, isFirstWithdrawal(shadow) ? 'Withdrawn' : 'Failed');
  return state === shadow.spec.state ? reached(input) : undefined;
}

/** Only the first one since the latest success is no failure, because an agent may report it each time. */
function isFirstWithdrawal(shadow: ShadowView): boolean {
  return shadow.spec.state === 'StagedAndPerformedUpdate' && isOutdated(shadow) && withdrawn(shadow) === 0;
}

const NEXT: Partial<Record<ShadowState, ShadowState>> = {
  StagedAndPerformedUpdate: 'RebootedIntoUpdate',
  RebootedIntoUpdate: 'MonitoringUpdate',
};

function reached(input: TransitionInput): Transition | undefined {
  const { shadow, policy, drain, blockedBy, now } = input;
  if (shadow.spec.state === 'StagedAndPerformedUpdate' && (blockedBy !== undefined || !isDrainable(drain())))
    return defer(input);
  const next = NEXT[shadow.spec.state];
  if (next !== undefined) {
    const unreadyBefore = next === 'RebootedIntoUpdate' ? { unreadyBefore: drain().daemonPods().unready } : {};
    return { spec: stepSpec(shadow.spec, next, policy, now), outcome: 'Advanced', ...unreadyBefore };
  }
  const { healthyAt = Infinity } = monitoringOf(input);
  return now < healthyAt ? undefined : succeeded(input);
}

function succeeded(input: TransitionInput): Transition {
  const { deadlinesFrom = 0 } = input.policy;
  const wasSuspended = deadlinesFrom > (startedAt(input.shadow) ?? 0);
  return { ...idle(input, 'Succeeded'), ...(wasSuspended && { wasSuspended }) };
}

/** While one of these holds, other nodes cannot start either. */
const STAYS: readonly Reason[] = ['WatchStale', 'ConnectivityLost'];

/** Waits while pods or watches are unknown; otherwise the node releases its slot. */
function defer(input: TransitionInput): Transition | undefined {
  const { shadow, policy, blockedBy, drain, now } = input;
  const stays =
    blockedBy === undefined
      ? !isDrainBlocked(drain(), now)
      : STAYS.includes(blockedBy.reason) && !isOverdue(shadow, policy, now);
  if (stays) return undefined;
  return { ...idle(input, 'Deferred'), ...(blockedBy !== undefined && { because: blockedBy }) };
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
  return staged && blockedBy === undefined && !isDrainable(drain());
}
