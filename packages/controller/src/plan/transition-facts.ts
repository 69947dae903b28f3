/**
 * What a change of a spec says about its update, for metrics. An agent may report any version and any error code, so
 * codes are only those of this release; `metrics.ts` bounds the versions. Which version the node ran before its reboot
 * is in an annotation that was written with the start, since a new leader could not know it and the agent reports the
 * new one by then.
 */
import { isErrorCode } from '@brupop/shared/api/error-codes';
import type { ShadowState } from '@brupop/shared/api/shadow';
import { isVersion, releaseOf } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { ShadowView } from '../cluster/shadow.ts';
import { hasStarted, isUnderWay } from '../cluster/state.ts';
import { failureAtEnd } from './facts/failed-nodes.ts';
import type { Outcome } from './transition.ts';
import type { SpecChange } from './spec-change.ts';

interface TransitionFacts {
  /** The version that the node ran when the update started; empty: unknown, or the change concerns no update. */
  readonly from: string;
  readonly to: string;
  /** The state that the spec goes to. */
  readonly state: ShadowState;
  readonly outcome: Outcome;
  /** Why an update ended without a success: an error code or a reason. */
  readonly code: string;
}

type Change = Pick<SpecChange, 'shadow' | 'node' | 'spec' | 'outcome' | 'because'>;

export function transitionOf(change: Change): TransitionFacts {
  const { shadow, spec, outcome } = change;
  const { version } = outcome === 'Started' ? spec : shadow.spec;
  const from = named(startedFrom(change));
  return { from, to: named(version ?? ''), state: spec.state, outcome, code: CODES[outcome]?.(change) ?? '' };
}

function startedFrom({ shadow, outcome }: Change): string {
  const { record, status } = shadow;
  if (outcome === 'Started') return status?.current_version ?? '';
  return isUnderWay(shadow) && hasStarted(shadow) ? (record.from ?? '') : '';
}

function named(version: string): string {
  return isVersion(version) ? releaseOf(version) : '';
}

const CODES: Partial<Record<Outcome, (change: Change) => string>> = {
  Failed: ({ shadow }) => reportedCode(shadow),
  Cancelled: missed,
  Reverting: missed,
  CheckFailed: missed,
  Deferred: ({ because }) => because?.reason ?? 'DrainBlocked',
  Withdrawn: () => 'VersionNotOffered',
};

function missed({ shadow, node, because }: Change): string {
  return failureAtEnd(shadow, node, because?.reason) ?? 'DeadlineExceeded';
}

function reportedCode({ status }: ShadowView): string {
  const { errorCode = '' } = status?.lastOperation ?? {};
  return errorCode === '' || isErrorCode(errorCode) ? errorCode : 'other';
}

/** How long the step took that this change completes, by the times that controllers wrote. */
export function stepSeconds({ shadow, spec, outcome }: Change): number | undefined {
  if (!isUnderWay(shadow) || (outcome !== 'Advanced' && outcome !== 'Succeeded')) return undefined;
  const since = shadow.times.stateSince;
  const end = parseTime(spec.state_transition_timestamp);
  return since === undefined || end === undefined || end < since ? undefined : (end - since) / 1000;
}
