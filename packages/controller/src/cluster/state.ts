/**
 * The state of a node: where it is in an update, decided in one place and the same for all parts of the controller. The
 * spec and the record decide, which only this controller writes; the agent's report tells only how far a step is. A
 * report can therefore end no update and free no slot.
 *
 *     Staging       the agent downloads and writes the version
 *     Staged        it has confirmed that: gates, checks and hooks come before the drain
 *     Draining      the node is cordoned and its pods are evicted
 *     Away          the drain is over: the host may have been asked to reboot
 *     Proving       the host runs the version: the node must be healthy for a while
 *     Finishing     the update has ended after a drain, and the agent has not confirmed that
 *     Restoring     it has confirmed that: the Node returns to service
 *     Resting       no update, and the agent has confirmed that
 *     Unconfirmed   no update, and the agent has not confirmed that: it cleans up a staging, or gets settings
 *
 * From Staging to Proving an update is under way. What each state implies is in {@link STATES}.
 */
import type { NodeRecord } from '@brupop/shared/api/record';
import type { BottlerocketShadow } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';

export type NodeState =
  | 'Staging'
  | 'Staged'
  | 'Draining'
  | 'Away'
  | 'Proving'
  | 'Finishing'
  | 'Restoring'
  | 'Resting'
  | 'Unconfirmed';

interface Traits {
  /** The spec calls for a step of an update. */
  readonly isUnderWay: boolean;
  /** Pods may be evicted, or the host may go down, until the agent confirms the end. */
  readonly isDisrupted: boolean;
  /** Pods may be evicted now. */
  readonly evicts: boolean;
}

/** docs/architecture.md has the same table. */
export const STATES: Readonly<Record<NodeState, Traits>> = {
  Staging: { isUnderWay: true, isDisrupted: false, evicts: false },
  Staged: { isUnderWay: true, isDisrupted: false, evicts: false },
  Draining: { isUnderWay: true, isDisrupted: true, evicts: true },
  Away: { isUnderWay: true, isDisrupted: true, evicts: true },
  Proving: { isUnderWay: true, isDisrupted: true, evicts: false },
  Finishing: { isUnderWay: false, isDisrupted: true, evicts: true },
  Restoring: { isUnderWay: false, isDisrupted: true, evicts: false },
  Resting: { isUnderWay: false, isDisrupted: false, evicts: false },
  Unconfirmed: { isUnderWay: false, isDisrupted: false, evicts: false },
};

/** A shadow with the record that the controller keeps of its node. */
interface Recorded extends BottlerocketShadow {
  readonly record: NodeRecord;
}

/** A shadow as it is observed has its state: see `shadow.ts`. */
interface Observed extends Recorded {
  readonly state: NodeState;
}

export function stateOf(shadow: Recorded): NodeState {
  const { spec, record } = shadow;
  switch (spec.state) {
    case 'StagedAndPerformedUpdate':
      return hasReached(shadow) ? 'Staged' : 'Staging';
    case 'RebootedIntoUpdate':
      return precedesReboot(shadow) ? 'Draining' : 'Away';
    case 'MonitoringUpdate':
      return 'Proving';
    default:
  }
  const isConfirmed = spec.state === 'Idle' && hasReached(shadow);
  if (record.rebootRequestedAt !== undefined) return isConfirmed ? 'Restoring' : 'Finishing';
  return isConfirmed ? 'Resting' : 'Unconfirmed';
}

/** Agents report each operation before they start it. Without a report the host may be anywhere. */
function precedesReboot({ status }: BottlerocketShadow): boolean {
  const { operation } = status?.lastOperation ?? {};
  return operation === 'Stage' || operation === 'Drain';
}

export function answers({ metadata, status }: BottlerocketShadow): boolean {
  return status !== undefined && status.observedGeneration === metadata.generation;
}

export function hasReached(shadow: BottlerocketShadow): boolean {
  return answers(shadow) && shadow.status?.current_state === shadow.spec.state;
}

export function isUnderWay({ state }: Pick<Observed, 'state'>): boolean {
  return STATES[state].isUnderWay;
}

/** True until the node is to be drained: its update may end without a trace. */
export function isStaging(shadow: BottlerocketShadow): boolean {
  return shadow.spec.state === 'StagedAndPerformedUpdate';
}

/** True when the agent has confirmed that no update is under way. */
export function isSettled({ state }: Pick<Observed, 'state'>): boolean {
  return state === 'Resting' || state === 'Restoring';
}

/**
 * What an update under way is for. One for settings boots the version that the node ran at its start. A rollback goes
 * to the version that the node ran before one that failed.
 */
export type Purpose = 'Update' | 'Rollback' | 'Settings';

/** Undefined: none is under way. */
export function purposeOf(shadow: Observed): Purpose | undefined {
  const { spec, record } = shadow;
  if (!isUnderWay(shadow)) return undefined;
  if (hasStarted(shadow) && sameVersion(record.from, spec.version)) return 'Settings';
  const { rollback } = record;
  return rollback?.isDone === false && sameVersion(spec.version, rollback.previous) ? 'Rollback' : 'Update';
}

/** True when an update has started and none has succeeded since. */
export function hasStarted({ record }: Pick<Recorded, 'record'>): boolean {
  return record.startedAt !== undefined && record.succeeded === undefined;
}

/**
 * True until the agent has confirmed the end of the update, and while the node is to go back to its previous version: so
 * long the rules hold with which the update began.
 */
export function holdsGroup({ state, record }: Observed): boolean {
  return STATES[state].isUnderWay || state === 'Finishing' || record.rollback?.isDone === false;
}

/** True while the host may be drained or reboot: until a success, or until its agent confirms the end. */
export function mayBeInUpdate({ state }: Pick<Observed, 'state'>): boolean {
  const { isUnderWay: goesOn, isDisrupted } = STATES[state];
  return goesOn || isDisrupted;
}
