/**
 * Events on shadows for reasons to wait. What all nodes wait for has one Event, on the BrupopConfig; nodes take turns at the update
 * slots; and Events on the Node report a deadline and settings. The others begin and end with an Event on the shadow of the node, one an
 * hour for each, since a node may change between two of them. In a large fleet some are left out: see `isMinor`.
 */
import { type EventSource, shadowReference } from '@brupop/shared/kube/events';
import { showsStalled } from '../cluster/shadow.ts';
import type { NodePair } from '../cluster/snapshot.ts';
import type { ProgressingCondition } from '../plan/condition.ts';
import type { Moment } from '../kept/moment.ts';
import { isReason, type Reason, traitsOf } from '../plan/facts/reasons.ts';

/** `docs/runbook.md` explains each. */
export const SHADOW_EVENT_REASONS = ['Waiting', 'WaitingEnded', 'SettingsKept'] as const;
const [WAITING, ENDED, KEPT] = SHADOW_EVENT_REASONS;
const HOUR_MS = 3_600_000;
const WITHOUT_EVENT: ReadonlySet<Reason> = new Set(['UpToDate', 'Updating', 'ChangingSettings', 'DeadlineExceeded']);

export function waitEvent(
  { shadow }: Pick<NodePair, 'shadow'>,
  { reason, message }: ProgressingCondition,
  { isStalled, now }: { readonly isStalled: boolean; readonly now: Moment },
): EventSource | undefined {
  const ended = reasonBefore(shadow);
  const begins = isReported(reason, isStalled);
  if (ended === (begins ? reason : '') || (ended === reason && !begins)) return undefined;
  return {
    reason: begins ? WAITING : ENDED,
    warning: begins && (traitsOf(reason).needsAttention === true || reason === 'AgentNotConnected'),
    about: shadowReference(shadow),
    message: `${ended === '' ? '' : `No longer ${ended}. `}${reason}: ${message}`,
    key: `${reason}/${ended}/${Math.floor(now.ms / HOUR_MS)}`,
    isMinor: true,
  };
}

/** True for an Event of {@link waitEvent}. */
export function isOfWait({ reason }: Pick<EventSource, 'reason'>): boolean {
  return reason === WAITING || reason === ENDED;
}

function reasonBefore(shadow: NodePair['shadow']): Reason | '' {
  const before = shadow.progressing?.reason;
  return isReason(before) && isReported(before, showsStalled(shadow)) ? before : '';
}

/** Of settings that stay on the host although they are no longer requested. The agent says which, so one Event an hour. */
export function keptEvent(
  { shadow }: NodePair,
  { reason, message }: ProgressingCondition,
  now: Moment,
): EventSource | undefined {
  const { cannotUnset = [] } = shadow.status?.settings ?? {};
  if (reason !== 'UpToDate' || cannotUnset.length === 0 || shadow.progressing?.message === message) return undefined;
  const key = `${Math.floor(now.ms / HOUR_MS)}`;
  return { reason: KEPT, warning: true, about: shadowReference(shadow), message, key, isMinor: true };
}

/** An agent has a fair time to connect after an installation. */
function isReported(reason: Reason, isStalled: boolean): boolean {
  const { fleetWide = false, passes } = traitsOf(reason);
  if (reason === 'AgentNotConnected') return isStalled;
  return !WITHOUT_EVENT.has(reason) && !fleetWide && passes !== 'capacity';
}
