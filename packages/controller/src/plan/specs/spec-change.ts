/**
 * A change of a spec with all that goes with it: the record, the Event on the Node, and what it says about its update,
 * for the log and for metrics. `transition.ts` and `plan.ts` decide on a {@link Transition}; `plan.ts` completes it to
 * a {@link SpecChange}, which `apply/` only sends.
 *
 * An agent may report any version and any error code, so codes are only those of this release; `metrics.ts` bounds the
 * versions. Which version the node ran before its reboot is in the record since the start, since a new leader could not
 * know it and the agent reports the new one by then.
 */
import { ABORT_ANNOTATION, RETRY_ANNOTATION, UPDATE_NOW_ANNOTATION } from '@brupop/shared/api/names';
import { namesOf } from '@brupop/shared/runtime/errors';
import { type EventSource, shadowReference } from '@brupop/shared/kube/events';
import { isVersion, releaseOf, sameVersion } from '@brupop/shared/api/version';
import type { NodeRecord } from '@brupop/shared/api/record';
import type { PendingSetting, Setting, ShadowState } from '@brupop/shared/api/shadow';
import { isErrorCode } from '@brupop/shared/api/error-codes';
import { historyKey, type PastUpdate } from '@brupop/shared/api/history';
import { INT32 } from '@brupop/shared/api/schema';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import type { NodeView } from '../../cluster/node.ts';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { NodePair } from '../../cluster/snapshot.ts';
import { hasStarted, isUnderWay, type Purpose } from '../../cluster/state.ts';
import { recordAfter, secondsAfter } from './record-after.ts';
import { attempts } from '../facts/attempts.ts';
import { covers, ownSettings, requestedOf, sameSettings } from '../facts/settings.ts';
import { isEnd, type Outcome, type Transition } from './transition.ts';
import { failureAtEnd } from '../facts/failed-nodes.ts';

/** Reasons of the Events that this operator records on Nodes. `docs/runbook.md` explains each. */
export const EVENT_REASONS = [
  'UpdateStarted',
  'UpdateAdvanced',
  'UpdateSucceeded',
  'UpdateFailed',
  'UpdateDeferred',
  'UpdateInterrupted',
  'UpdateAborted',
  'AbortRefused',
  'UpdateNowRefused',
  'UpdateSuperseded',
  'Reverted',
  'SettingsFailed',
  'DeadlineExceeded',
  'HookFailed',
  'HostSettingsChanged',
  'HostSettingsKept',
  'SpecRepaired',
  'Released',
  'Restored',
  'NodeLost',
  'OutOfService',
  'OutOfServiceEnded',
  'Suspect',
  'SuspectEnded',
] as const;
type EventReason = (typeof EVENT_REASONS)[number];

const WARNINGS: ReadonlySet<EventReason> = new Set([
  'UpdateFailed',
  'SettingsFailed',
  'DeadlineExceeded',
  'HookFailed',
  'HostSettingsKept',
  'AbortRefused',
  'UpdateNowRefused',
  'NodeLost',
  'OutOfService',
  'Suspect',
]);

interface NodeEvent {
  readonly reason: EventReason;
  readonly message: string;
  /** Events of the same reason, Node and key are one. */
  readonly key: string;
  readonly isMinor?: boolean;
}

/** Returns an Event on the Node, which refers to its shadow. */
export function eventOn(
  { metadata: { name, uid } }: NodeView,
  shadow: ShadowView | undefined,
  event: NodeEvent,
): EventSource {
  const about = { apiVersion: 'v1', kind: 'Node', name, uid };
  return { ...event, warning: WARNINGS.has(event.reason), about, related: shadow && shadowReference(shadow) };
}

/** An update that ends, as it is kept for `kubectl brupop history`; see shared/api/history.ts. */
interface Past {
  /** Of the annotation. */
  readonly key: string;
  readonly update: PastUpdate;
}

export interface SpecChange extends Transition {
  readonly shadow: ShadowView;
  readonly node: NodeView;
  /** What is remembered of the node with it. */
  readonly record: NodeRecord;
  readonly event: EventSource | undefined;
  /** The update that ends with it. */
  readonly past: Past | undefined;
}

export function specChange(transition: Transition, { node, shadow }: Pick<NodePair, 'node' | 'shadow'>): SpecChange {
  const { uid, generation = 0 } = shadow.metadata;
  const text = EVENTS[transition.outcome](transition, shadow);
  const event = eventOn(node, shadow, { ...text, key: `${uid}/${generation}` });
  const past = isEnd(transition, shadow) ? pastOf({ ...transition, shadow, node }) : undefined;
  return { ...transition, shadow, node, record: recordAfter(transition, { shadow, node }), event, past };
}

const FOR_SETTINGS = 'for the settings of its group';

/** With the names of the settings that need the reboot. */
function forSettings(before: ShadowView): string {
  const keys = keysOf(pendingOf(before).filter((one) => one.class === 'NeedsReboot'));
  return keys.length === 0 ? FOR_SETTINGS : `${FOR_SETTINGS}: ${namesOf(keys)}`;
}

const SUPERSEDED: Readonly<Record<Purpose, (version: string) => string>> = {
  Update: (version) => `The configuration no longer allows ${version}: this update is undone`,
  Rollback: (version) => `The configuration no longer asks for the return to ${version}: it is undone`,
  Settings: () => `The configuration no longer needs this reboot ${FOR_SETTINGS}: it is cancelled`,
};

type EventText = (transition: Transition, before: ShadowView) => Omit<NodeEvent, 'key'>;

const EVENTS: Readonly<Record<Outcome, EventText>> = {
  Started: ({ spec, unhealthyPods, isRequested = false }, before) => {
    const asked = isRequested ? `, as the annotation ${UPDATE_NOW_ANNOTATION} asks` : '';
    const even = unhealthyPods === undefined ? '' : `, although ${unhealthyPods}: it has waited for them long enough`;
    return {
      reason: 'UpdateStarted',
      message: sameVersion(spec.version, before.status?.current_version)
        ? `Rebooting ${spec.version ?? '?'} ${forSettings(before)}${even}`
        : `Updating from ${before.status?.current_version ?? '?'} to ${spec.version ?? '?'}${asked}${even}`,
    };
  },
  Advanced: ({ spec }, before) => ({
    reason: 'UpdateAdvanced',
    message: `${before.spec.state} is complete; the next step to ${spec.version ?? '?'} is ${spec.state}`,
  }),
  Configured: (transition, before) => ({
    reason: 'HostSettingsChanged',
    message: describeSettings(transition, before),
    isMinor: true,
  }),
  Repaired: ({ spec: { state } }, { spec }) => ({
    reason: 'SpecRepaired',
    message:
      state === spec.state
        ? `The spec of the shadow (${state}) had no time, or one that is unreadable or still to come: it has the present one`
        : `The spec of the shadow (${spec.state}) was not written by this operator, and is Idle again`,
  }),
  Released: (_, { state }) => ({
    reason: 'Released',
    message:
      state === 'Away' || state === 'Proving'
        ? 'The node is no longer managed: the update ends, and its host may have rebooted'
        : 'The node is no longer managed: the update ends before its reboot',
  }),
  Cancelled: ({ because }) => ({
    reason: 'DeadlineExceeded',
    message: because?.message ?? 'A step of the update had no result within its limit',
  }),
  CheckFailed: ({ because }, { spec }) => ({
    reason: 'UpdateFailed',
    message: `The update to ${spec.version ?? '?'} failed. ${because?.message ?? ''}`,
  }),
  Deferred: ({ because }) => {
    const why = because?.message ?? 'The node cannot be drained now; its condition Progressing says why';
    return { reason: 'UpdateDeferred', message: `The staged update is deferred and starts again later. ${why}` };
  },
  Interrupted: ({ because }) => ({
    reason: 'UpdateInterrupted',
    message: `A pause interrupts this update, which is undone and starts again afterwards. ${because?.message ?? ''}`,
  }),
  Aborted: (_, { spec }) => ({
    reason: 'UpdateAborted',
    message:
      `A user ended the update to ${spec.version ?? '?'} with the annotation ${ABORT_ANNOTATION}: it is undone, and ` +
      `starts again when a user asks for it with the annotation ${RETRY_ANNOTATION}`,
  }),
  Superseded: (_, { purpose, spec: { version } }) => ({
    reason: 'UpdateSuperseded',
    message: SUPERSEDED[purpose ?? 'Update'](version ?? '?'),
  }),
  Withdrawn: (_, { spec, status }) => ({
    reason: 'UpdateSuperseded',
    message: `The host no longer offers ${spec.version ?? '?'}, and offers ${otherVersion(status)}: the update is cancelled, which is not a failure`,
  }),
  SettingsFailed: ({ because }, before) => ({
    reason: 'SettingsFailed',
    message:
      `The settings of its group failed, and the former ones are set again: ${because?.message ?? '?'} ` +
      `(${namesOf(keysOf(ownSettings(requestedOf(before))))})`,
  }),
  Reverting: ({ previous = '?', because }, { spec }) => ({
    reason: 'UpdateFailed',
    message: `Not healthy on ${spec.version ?? '?'}: ${because?.message ?? '?'}. The node goes back to ${previous}`,
  }),
  Reverted: (_, { spec }) => ({
    reason: 'Reverted',
    message: `The node runs ${spec.version ?? '?'} again, and is healthy`,
  }),
  Succeeded: (_, before) => ({
    reason: 'UpdateSucceeded',
    message:
      before.purpose === 'Settings'
        ? `Rebooted ${FOR_SETTINGS}`
        : `Updated to ${before.status?.current_version ?? '?'}`,
  }),
  Failed: (_, before) => {
    const { errorCode = 'no error code', message = 'no message' } = before.status?.lastOperation ?? {};
    const what =
      before.purpose === 'Settings' ? `The reboot ${FOR_SETTINGS}` : `The update to ${before.spec.version ?? '?'}`;
    return { reason: 'UpdateFailed', message: `${what} failed: ${errorCode}: ${message}` };
  },
};

/** Names the settings, never their values. */
function describeSettings({ spec, endsRollback }: Transition, before: ShadowView): string {
  const [old, next] = [requestedOf(before), requestedOf({ spec })];
  const other = [
    ...next.filter((one) => !sameSettings([one], same(old, one))),
    ...old.filter((one) => same(next, one).length === 0),
  ];
  if (other.length > 0) return `The host gets other settings: ${namesOf(keysOf(other))}`;
  if (endsRollback === true) return `The node no longer goes back to ${before.record.rollback?.previous ?? '?'}`;
  const allow = spec.settings?.allow ?? 'None';
  if (allow === 'None') return 'The settings of its group are proved, and the host may change nothing more';
  const granted = pendingOf(before).filter((one) => covers(allow, one.class));
  return `The host may now set the settings of class ${allow}: ${namesOf(keysOf(granted))}`;
}

function same(all: readonly Setting[], { key }: Setting): Setting[] {
  return all.filter((one) => one.key === key);
}

function keysOf(all: readonly { readonly key: string }[]): string[] {
  return all.map(({ key }) => key).toSorted();
}

function pendingOf({ status }: ShadowView): readonly PendingSetting[] {
  return status?.settings?.pending ?? [];
}

function otherVersion(status: ShadowView['status']): string {
  const { target_version: offered = '', current_version: running } = status ?? {};
  return offered === '' || sameVersion(offered, running) ? 'no other version' : offered;
}

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

function pastOf(change: Change): Past {
  const { spec, outcome, shadow } = change;
  const { from, to, code } = transitionOf(change);
  const { record, times } = shadow;
  const end = parseTime(spec.state_transition_timestamp) ?? 0;
  const start = times.startedAt ?? times.stateSince ?? end;
  const update = {
    start: rfc3339(start),
    end: rfc3339(end),
    from,
    to,
    outcome,
    ...(code !== '' && { code }),
    attempt: Math.min(attempts(shadow, shadow.spec.version ?? '') + 1, INT32),
    ...(record.group !== undefined && { group: record.group }),
    seconds: secondsAfter(spec, shadow),
  };
  return { key: historyKey(record.history?.count ?? 0), update };
}
