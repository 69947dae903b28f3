import { CORDONED_ANNOTATION } from '@brupop/shared/api/names';
import type { HostSettings, ShadowSpec, ShadowState } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { cordonedByUs } from '@brupop/shared/node/ownership';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import type { NodeView } from '../cluster/node.ts';
import { answers, hasReached, isSettled, isUnderWay, type ShadowView } from '../cluster/shadow.ts';
import { isWanted, type UpdatePolicy } from '../policy/policy.ts';
import { isMisdated, isOverdue, stateSince, timeoutSeconds } from './deadlines.ts';
import { type Drainable, isDrainable, isHopeless } from './drainability.ts';
import type { Blocked } from './reasons.ts';
import type { Transition } from './spec-change.ts';

export interface TransitionInput {
  readonly shadow: ShadowView;
  readonly node: NodeView;
  readonly policy: UpdatePolicy;
  readonly drain: Drainable;
  /** Why a node that has staged its version must not be drained now. */
  readonly blockedBy: Blocked | undefined;
  readonly now: number;
}

/** The spec of a node at rest, and the end of an update, whatever its result. */
export function idleSpec({ hostSettings }: UpdatePolicy, now: number): ShadowSpec {
  const state_transition_timestamp = rfc3339(now);
  return {
    state: 'Idle',
    version: null,
    state_transition_timestamp,
    timeoutSeconds: null,
    hostSettings: hostSettings ?? null,
  };
}

/** The spec that starts an update to `version`. */
export function startSpec(version: string, policy: UpdatePolicy, now: number): ShadowSpec {
  return stepSpec({ ...idleSpec(policy, now), version }, 'StagedAndPerformedUpdate', policy, now);
}

function stepSpec(spec: ShadowSpec, state: ShadowState, policy: UpdatePolicy, now: number): ShadowSpec {
  const state_transition_timestamp = rfc3339(now);
  return { ...spec, state, state_transition_timestamp, timeoutSeconds: timeoutSeconds(state, policy) };
}

/** The next spec of a node under way, or undefined when it stays as it is. Unless a pause interrupts, what has begun is finished. */
export function advance(input: TransitionInput): Transition | undefined {
  return repair(input) ?? interrupt(input) ?? supersede(input) ?? answer(input) ?? cancel(input) ?? configure(input);
}

/** Undoes what has not yet rebooted. A host that may have been asked to reboot goes on: nobody can call that back. */
function interrupt({ shadow, policy, now }: TransitionInput): Transition | undefined {
  if (!policy.interrupt || !isUnderWay(shadow) || mayHaveRebooted(shadow)) return undefined;
  return { spec: idleSpec(policy, now), outcome: 'Interrupted' };
}

/** A version that the configuration has come to rule out is given up, but not by a node that is past its drain. */
function supersede({ shadow, policy, now }: TransitionInput): Transition | undefined {
  if (!isUnderWay(shadow) || isPastDrain(shadow) || isWanted(shadow.spec.version ?? '', policy.versions))
    return undefined;
  return { spec: idleSpec(policy, now), outcome: 'Superseded' };
}

function isPastDrain({ spec, status }: ShadowView): boolean {
  if (spec.state === 'StagedAndPerformedUpdate') return false;
  const { operation } = status?.lastOperation ?? {};
  return spec.state !== 'RebootedIntoUpdate' || (operation !== 'Stage' && operation !== 'Drain');
}

/** A node at rest whose host is to be set otherwise than its spec says. */
function configure({ shadow: { spec }, policy, now }: TransitionInput): Transition | undefined {
  if (spec.state !== 'Idle' || sameSettings(spec.hostSettings, policy.hostSettings)) return undefined;
  return { spec: idleSpec(policy, now), outcome: 'Configured' };
}

/** True when both ask the same of the host. */
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

function repair({ shadow, policy, now }: TransitionInput): Transition | undefined {
  const { spec } = shadow;
  if (spec.state === 'Idle') return isSettled(shadow) || !isMisdated(spec, now) ? undefined : redated(spec, now);
  if (spec.state === 'ErrorReset' || (spec.version ?? '') === '')
    return { spec: idleSpec(policy, now), outcome: 'Repaired' };
  return stateSince(spec, now) === undefined ? redated(spec, now) : undefined;
}

function redated(spec: ShadowSpec, now: number): Transition {
  return { spec: { ...spec, state_transition_timestamp: rfc3339(now) }, outcome: 'Repaired' };
}

function answer(input: TransitionInput): Transition | undefined {
  const { shadow, policy, now } = input;
  if (!isUnderWay(shadow) || !answers(shadow)) return undefined;
  const state = shadow.status?.current_state;
  if (state === 'ErrorReset') return { spec: idleSpec(policy, now), outcome: 'Failed' };
  return state === shadow.spec.state ? reached(input) : undefined;
}

const NEXT: Partial<Record<ShadowState, ShadowState>> = {
  StagedAndPerformedUpdate: 'RebootedIntoUpdate',
  RebootedIntoUpdate: 'MonitoringUpdate',
};

function reached(input: TransitionInput): Transition | undefined {
  const { shadow, policy, now } = input;
  if (shadow.spec.state === 'StagedAndPerformedUpdate' && !mayDrain(input)) return postpone(input);
  const next = NEXT[shadow.spec.state];
  if (next !== undefined) return { spec: stepSpec(shadow.spec, next, policy, now), outcome: 'Advanced' };
  const healthyAt = monitoredUntil(input);
  return healthyAt === undefined || now < healthyAt ? undefined : { spec: idleSpec(policy, now), outcome: 'Succeeded' };
}

function mayDrain({ drain, blockedBy }: TransitionInput): boolean {
  return blockedBy === undefined && isDrainable(drain);
}

/** What is not seen is waited for; with what is seen the node gives its place to others. */
function postpone({ policy, blockedBy, drain, now }: TransitionInput): Transition | undefined {
  const stays = blockedBy === undefined ? !isHopeless(drain, now) : blockedBy.reason === 'WatchStale';
  if (stays) return undefined;
  return { spec: idleSpec(policy, now), outcome: 'Deferred', ...(blockedBy !== undefined && { because: blockedBy }) };
}

/**
 * A silent attempt is called off while no host goes down for it: its place goes to others, and whoever wakes up late must not drain one node more. After
 * that the host may still come back as asked. A node under observation may still recover, but not from what only another attempt or Idle heals.
 */
function cancel({ shadow, node, policy, now }: TransitionInput): Transition | undefined {
  const hopeless =
    shadow.spec.state === 'MonitoringUpdate' &&
    unwell(shadow, node) === undefined &&
    astray(shadow, node) !== undefined;
  if ((isPastDrain(shadow) && !hopeless) || !isOverdue(shadow, policy, now)) return undefined;
  return { spec: idleSpec(policy, now), outcome: 'Cancelled' };
}

/** True when only the pods on the node are still to be looked up before it goes on. */
export function needsPods({ shadow, drain, blockedBy }: TransitionInput): boolean {
  const staged = shadow.spec.state === 'StagedAndPerformedUpdate' && hasReached(shadow);
  return staged && blockedBy === undefined && !isDrainable(drain);
}

/** When the node under observation will have been healthy for long enough, epoch milliseconds; undefined while it is not healthy. */
export function monitoredUntil(input: TransitionInput): number | undefined {
  const { shadow, node, policy, now } = input;
  if (shadow.spec.state !== 'MonitoringUpdate' || monitoringProblem(shadow, node) !== undefined) return undefined;
  const since = stateSince(shadow.spec, now) ?? now;
  return Math.max(since, parseTime(node.readySince) ?? since) + policy.monitoring.healthyForMs;
}

/** Why a node that has booted its new version is not healthy, or undefined. */
export function monitoringProblem(shadow: ShadowView, node: NodeView): string | undefined {
  return unwell(shadow, node) ?? astray(shadow, node);
}

/** What may pass by itself. */
function unwell({ status }: ShadowView, node: NodeView): string | undefined {
  if (!node.ready) return 'the Node is not Ready';
  if (status === undefined || (node.bootID !== '' && status.bootID !== '' && status.bootID !== node.bootID)) {
    return 'the agent has not reported since the latest boot';
  }
  return undefined;
}

/** What does not pass by itself. */
function astray({ spec, status }: ShadowView, node: NodeView): string | undefined {
  if (cordonedByUs(node)) return `the Node still has the annotation ${CORDONED_ANNOTATION}`;
  const running = status?.current_version ?? '';
  if (sameVersion(running, spec.version ?? '')) return undefined;
  return `the node runs ${running} instead of ${spec.version ?? 'the new version'}`;
}
