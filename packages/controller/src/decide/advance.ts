import type { ShadowView } from '../cluster/shadow-view.ts';
import { CORDONED_ANNOTATION } from '@brupop/shared/constants';
import { parseTime, rfc3339 } from '@brupop/shared/clock';
import type { ShadowSpec, ShadowState } from '@brupop/shared/shadow';
import type { NodeView } from '../cluster/node-view.ts';
import { hasOurCordon } from '@brupop/shared/node-marks';
import { answers, isSettled, isUnderWay } from '../cluster/shadow-view.ts';
import type { Drainable } from './drainable.ts';
import { isDrainable, isHopeless } from './drainable.ts';
import type { Rules } from './rules.ts';
import { isMisdated, isOverdue, stateSince } from './steps.ts';
import { sameVersion } from '../cluster/version.ts';

/** What a change of a spec means. */
export type Outcome =
  /** A waiting node begins its update. */
  | 'Started'
  /** A step is complete, the next one is called for. */
  | 'Advanced'
  /** The node runs the new version and is healthy. */
  | 'Succeeded'
  /** The agent has reported a failure; it cleans up on Idle. */
  | 'Failed'
  /** Past its deadline without a report of a failure: staging, which has disrupted nothing yet, or a monitoring that cannot succeed. */
  | 'Cancelled'
  /** Staged, but a drain cannot succeed now: another node goes first. */
  | 'Postponed'
  /** A person has interrupted updates. */
  | 'Interrupted'
  /** The spec was not one that this controller writes: an older operator's ErrorReset, no version, no readable time. */
  | 'Repaired'
  /** The node is no longer managed. */
  | 'Released';

export interface SpecChange {
  readonly spec: ShadowSpec;
  readonly outcome: Outcome;
}

export interface AdvanceInput {
  readonly shadow: ShadowView;
  readonly node: NodeView;
  readonly rules: Rules;
  readonly drain: Drainable;
  readonly now: number;
}

/** The spec that ends an update, whatever its result. */
export function idleSpec(now: number): ShadowSpec {
  return { state: 'Idle', version: null, state_transition_timestamp: rfc3339(now) };
}

/** The spec that starts an update to `version`. */
export function startSpec(version: string, now: number): ShadowSpec {
  return { state: 'StagedAndPerformedUpdate', version, state_transition_timestamp: rfc3339(now) };
}

/** The next spec of a node under way, or undefined when it stays as it is. Unless a pause interrupts, what has begun is finished. */
export function advance(input: AdvanceInput): SpecChange | undefined {
  return repair(input) ?? interrupt(input) ?? answer(input) ?? cancel(input);
}

/** Undoes what has not yet rebooted. A host that may have been asked to reboot goes on: nobody can call that back. */
function interrupt({ shadow, rules, now }: AdvanceInput): SpecChange | undefined {
  if (!rules.interrupt || !isUnderWay(shadow) || mayHaveRebooted(shadow)) return undefined;
  return { spec: idleSpec(now), outcome: 'Interrupted' };
}

function mayHaveRebooted({ spec, status }: ShadowView): boolean {
  if (spec.state === 'StagedAndPerformedUpdate') return false;
  if (spec.state !== 'RebootedIntoUpdate') return true;
  const { operation } = status?.lastOperation ?? {};
  return (
    operation === 'Reboot' || operation === 'Restore' || sameVersion(status?.current_version ?? '', spec.version ?? '')
  );
}

function repair({ shadow, now }: AdvanceInput): SpecChange | undefined {
  const { spec } = shadow;
  if (spec.state === 'Idle') return isSettled(shadow) || !isMisdated(spec, now) ? undefined : redated(spec, now);
  if (spec.state === 'ErrorReset' || (spec.version ?? '') === '') return { spec: idleSpec(now), outcome: 'Repaired' };
  return stateSince(spec, now) === undefined ? redated(spec, now) : undefined;
}

function redated(spec: ShadowSpec, now: number): SpecChange {
  return { spec: { ...spec, state_transition_timestamp: rfc3339(now) }, outcome: 'Repaired' };
}

function answer(input: AdvanceInput): SpecChange | undefined {
  const { shadow, now } = input;
  if (!isUnderWay(shadow) || !answers(shadow)) return undefined;
  const state = shadow.status?.current_state;
  if (state === 'ErrorReset') return { spec: idleSpec(now), outcome: 'Failed' };
  return state === shadow.spec.state ? reached(input) : undefined;
}

const NEXT: Partial<Record<ShadowState, ShadowState>> = {
  StagedAndPerformedUpdate: 'RebootedIntoUpdate',
  RebootedIntoUpdate: 'MonitoringUpdate',
};

function reached(input: AdvanceInput): SpecChange | undefined {
  const { shadow, now, drain } = input;
  if (shadow.spec.state === 'StagedAndPerformedUpdate' && !isDrainable(drain)) {
    return isHopeless(drain, now) ? { spec: idleSpec(now), outcome: 'Postponed' } : undefined;
  }
  const next = NEXT[shadow.spec.state];
  if (next !== undefined) {
    return { spec: { ...shadow.spec, state: next, state_transition_timestamp: rfc3339(now) }, outcome: 'Advanced' };
  }
  const healthyAt = monitoredUntil(input);
  return healthyAt === undefined || now < healthyAt ? undefined : { spec: idleSpec(now), outcome: 'Succeeded' };
}

/**
 * Before the drain nothing was disrupted, so a silent attempt is called off. After it the host may still come back as asked. A node under
 * observation may still recover, but not from what only another attempt or Idle heals.
 */
function cancel({ shadow, node, rules, now }: AdvanceInput): SpecChange | undefined {
  const { state } = shadow.spec;
  const hopeless =
    state === 'MonitoringUpdate' && unwell(shadow, node) === undefined && astray(shadow, node) !== undefined;
  if (state !== 'StagedAndPerformedUpdate' && !hopeless) return undefined;
  return isOverdue(shadow, rules, now) ? { spec: idleSpec(now), outcome: 'Cancelled' } : undefined;
}

/** True when only the pods on the node are still to be looked up before it goes on. */
export function needsPods({ shadow, drain }: AdvanceInput): boolean {
  const { state } = shadow.spec;
  const staged = state === 'StagedAndPerformedUpdate' && answers(shadow) && shadow.status?.current_state === state;
  return staged && !isDrainable(drain);
}

/** When the node under observation will have been healthy for long enough, epoch milliseconds; undefined while it is not healthy. */
export function monitoredUntil(input: AdvanceInput): number | undefined {
  const { shadow, node, rules, now } = input;
  if (shadow.spec.state !== 'MonitoringUpdate' || monitoringProblem(shadow, node) !== undefined) return undefined;
  const since = stateSince(shadow.spec, now) ?? now;
  return Math.max(since, parseTime(node.readySince) ?? since) + rules.monitoringMs;
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
  if (hasOurCordon(node)) return `the Node still has the annotation ${CORDONED_ANNOTATION}`;
  const running = status?.current_version ?? '';
  if (sameVersion(running, spec.version ?? '')) return undefined;
  return `the node runs ${running} instead of ${spec.version ?? 'the new version'}`;
}
