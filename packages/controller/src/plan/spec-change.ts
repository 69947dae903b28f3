/**
 * What a change of a spec means, and all that is written with it: the annotations that count
 * attempts and measure updates, and the Event on the Node. `transition.ts` and `plan.ts` decide on
 * a {@link Transition}; `plan.ts` completes it to a {@link SpecChange}, which `apply/` only sends.
 */
import { ERROR_CODES, isErrorCode } from '@brupop/shared/api/error-codes';
import {
  DEFERRED_AFTER_ANNOTATION,
  FAILED_ATTEMPTS_ANNOTATION,
  FAILED_VERSION_ANNOTATION,
  ENDED_BY_CONFIG_ANNOTATION,
  REBOOT_REQUESTED_ANNOTATION,
  RETRY_ANNOTATION,
  UNREADY_BEFORE_ANNOTATION,
  UNSUCCESSFUL_ATTEMPTS_ANNOTATION,
  UPDATE_SECONDS_ANNOTATION,
  UPDATE_STARTED_ANNOTATION,
  UPDATE_SUCCEEDED_ANNOTATION,
  WITHDRAWN_ATTEMPTS_ANNOTATION,
} from '@brupop/shared/api/names';
import type { ShadowSpec } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { type EventSource, shadowReference } from '@brupop/shared/kube/events';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { NodeView } from '../cluster/node.ts';
import { hasStarted, isSettled, isUnderWay, rebootRequested, type ShadowView, startedAt } from '../cluster/shadow.ts';
import type { NodePair } from '../cluster/snapshot.ts';
import { attempts, unsuccessful, withdrawn } from './facts/attempts.ts';
import { missedDeadline, reportedFailure } from './facts/failed-nodes.ts';
import { type Blocked, traitsOf } from './gates/reasons.ts';

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
  /** Staged, but the node cannot or must not be drained now: another node goes first. */
  | 'Deferred'
  /** A user has interrupted updates. */
  | 'Interrupted'
  /** The configuration no longer allows this version. */
  | 'Superseded'
  /** A node at rest whose host gets other settings. */
  | 'Configured'
  /** This controller does not write such a spec: ErrorReset, no version, or no readable time. */
  | 'Repaired'
  /** The node is no longer managed. */
  | 'Released';

export interface Transition {
  readonly spec: ShadowSpec;
  readonly outcome: Outcome;
  /** Why the update is cancelled; or deferred, unless the pods on the node are the reason. */
  readonly because?: Pick<Blocked, 'reason' | 'message'>;
  /** At the start of a drain: the DaemonSets whose pods on the node are not Ready. */
  readonly unreadyBefore?: readonly string[];
  /** Connectivity was lost during the update, so its duration says nothing. */
  readonly wasSuspended?: boolean;
}

/** Reasons of the Events that this operator records on Nodes. `docs/runbook.md` explains each. */
export const EVENT_REASONS = [
  'UpdateStarted',
  'UpdateSucceeded',
  'UpdateFailed',
  'UpdateDeferred',
  'UpdateInterrupted',
  'UpdateSuperseded',
  'DeadlineExceeded',
  'Restored',
] as const;
export type EventReason = (typeof EVENT_REASONS)[number];

const WARNINGS: ReadonlySet<EventReason> = new Set(['UpdateFailed', 'DeadlineExceeded']);

interface NodeEvent {
  readonly reason: EventReason;
  readonly message: string;
  /** Events of the same reason, Node and key are one. */
  readonly key: string;
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

type Annotations = Readonly<Record<string, string | null>>;

export interface SpecChange extends Transition {
  readonly shadow: ShadowView;
  readonly node: NodeView;
  /** null removes an annotation. */
  readonly annotations: Annotations;
  readonly event: EventSource | undefined;
}

export function specChange(transition: Transition, { node, shadow }: Pick<NodePair, 'node' | 'shadow'>): SpecChange {
  const { uid, generation = 0 } = shadow.metadata;
  const text = EVENTS[transition.outcome]?.(transition, shadow);
  const event = text && eventOn(node, shadow, { ...text, key: `${uid}/${generation}` });
  const annotations = {
    ...started(transition, shadow),
    ...endedByConfig(transition, shadow),
    ...reboot(transition, shadow),
    ...unreadyBefore(transition, shadow),
    ...annotationsOf(transition, shadow),
  };
  return { ...transition, shadow, node, annotations, event };
}

type EventText = (transition: Transition, before: ShadowView) => Omit<NodeEvent, 'key'>;

const EVENTS: Partial<Record<Outcome, EventText>> = {
  Started: ({ spec }, { status }) => ({
    reason: 'UpdateStarted',
    message: `Updating from ${status?.current_version ?? '?'} to ${spec.version ?? '?'}`,
  }),
  Cancelled: ({ because }) => ({
    reason: 'DeadlineExceeded',
    message: because?.message ?? 'A step of the update had no result within its limit',
  }),
  Deferred: ({ because }) => {
    const why = because?.message ?? 'The node cannot be drained now; its condition Progressing says why';
    return { reason: 'UpdateDeferred', message: `The staged update is deferred and starts again later. ${why}` };
  },
  Interrupted: () => ({
    reason: 'UpdateInterrupted',
    message: 'BrupopConfig "cluster" interrupts updates: this one is undone, and starts again after the pause',
  }),
  Superseded: (_, { spec }) => ({
    reason: 'UpdateSuperseded',
    message: `BrupopConfig "cluster" no longer allows ${spec.version ?? '?'}: this update is undone`,
  }),
  Withdrawn: (_, { spec, status }) => ({
    reason: 'UpdateSuperseded',
    message: `The host no longer offers ${spec.version ?? '?'}, and offers ${otherVersion(status)}: the update is cancelled, which is not a failure`,
  }),
  Succeeded: (_, { status }) => ({
    reason: 'UpdateSucceeded',
    message: `Updated to ${status?.current_version ?? '?'}`,
  }),
  Failed: (_, { spec, status }) => {
    const { errorCode = 'no error code', message = 'no message' } = status?.lastOperation ?? {};
    return { reason: 'UpdateFailed', message: `The update to ${spec.version ?? '?'} failed: ${errorCode}: ${message}` };
  },
};

function otherVersion(status: ShadowView['status']): string {
  const { target_version: offered = '', current_version: running } = status ?? {};
  return offered === '' || sameVersion(offered, running) ? 'no other version' : offered;
}

/** Recorded at the start, or at the end of an update that another actor started by writing the spec. */
function started({ outcome, spec }: Transition, shadow: ShadowView): Annotations {
  const isUnknown = isUnderWay(shadow) && spec.state === 'Idle' && !hasStarted(shadow);
  if (outcome !== 'Started' && !isUnknown) return {};
  return {
    [UPDATE_STARTED_ANNOTATION]: spec.state_transition_timestamp ?? null,
    ...without(shadow, UPDATE_SUCCEEDED_ANNOTATION),
  };
}

/** The configuration ended the attempt. A kubelet can cause other deferrals, such as by a cordon. */
function endedByConfig({ outcome, because, spec }: Transition, shadow: ShadowView): Annotations {
  if (outcome === 'Started') return without(shadow, ENDED_BY_CONFIG_ANNOTATION);
  const isFleetWide = outcome === 'Deferred' && because !== undefined && traitsOf(because.reason).fleetWide === true;
  if (!isFleetWide && outcome !== 'Interrupted' && outcome !== 'Superseded') return {};
  return { [ENDED_BY_CONFIG_ANNOTATION]: spec.state_transition_timestamp ?? null };
}

/** Recorded before an agent may drain; removed after a success or a confirmed Idle. */
function reboot({ outcome, spec }: Transition, shadow: ShadowView): Annotations {
  if (outcome === 'Succeeded' || isSettled(shadow)) return without(shadow, REBOOT_REQUESTED_ANNOTATION);
  const isRequested = [shadow.spec, spec].some(
    ({ state }) => state === 'RebootedIntoUpdate' || state === 'MonitoringUpdate',
  );
  if (!isRequested || rebootRequested(shadow)) return {};
  return { [REBOOT_REQUESTED_ANNOTATION]: spec.state_transition_timestamp ?? null };
}

const MAX_UNREADY = 50;

/** What was not Ready before does not count after the update. */
function unreadyBefore({ unreadyBefore: names }: Transition, shadow: ShadowView): Annotations {
  if (names === undefined) return {};
  if (names.length === 0) return without(shadow, UNREADY_BEFORE_ANNOTATION);
  return { [UNREADY_BEFORE_ANNOTATION]: names.slice(0, MAX_UNREADY).join(',') };
}

/** A start uses up a user's request for another attempt. */
function annotationsOf(transition: Transition, shadow: ShadowView): Annotations {
  const { outcome, spec } = transition;
  switch (outcome) {
    case 'Started':
      return without(shadow, RETRY_ANNOTATION);
    case 'Failed':
      return {
        ...oneMore(shadow),
        ...(usesAttempt(shadow) && oneMoreAttempt(shadow)),
        ...failedVersion(transition, shadow),
      };
    case 'Cancelled':
      return { ...oneMore(shadow), ...oneMoreAttempt(shadow), ...failedVersion(transition, shadow) };
    case 'Withdrawn':
      return { [WITHDRAWN_ATTEMPTS_ANNOTATION]: String(withdrawn(shadow) + 1) };
    case 'Deferred':
      return deferredAfter(transition, shadow);
    case 'Succeeded':
      return {
        [UPDATE_SUCCEEDED_ANNOTATION]: `${shadow.spec.version ?? ''}=${spec.state_transition_timestamp ?? ''}`,
        ...updateSeconds(transition, shadow),
        ...without(shadow, ...UNTIL_SUCCESS),
      };
    default:
      return {};
  }
}

const UNTIL_SUCCESS = [
  UNSUCCESSFUL_ATTEMPTS_ANNOTATION,
  WITHDRAWN_ATTEMPTS_ANNOTATION,
  FAILED_ATTEMPTS_ANNOTATION,
  FAILED_VERSION_ANNOTATION,
  DEFERRED_AFTER_ANNOTATION,
  UNREADY_BEFORE_ANNOTATION,
];

function oneMore(shadow: ShadowView): Annotations {
  return { [UNSUCCESSFUL_ATTEMPTS_ANNOTATION]: String(unsuccessful(shadow) + 1) };
}

function oneMoreAttempt(shadow: ShadowView): Annotations {
  const version = shadow.spec.version ?? '';
  return { [FAILED_ATTEMPTS_ANNOTATION]: `${version}=${attempts(shadow, version) + 1}` };
}

/** Of an attempt that ended after the host was asked to reboot into the version. */
function failedVersion({ outcome, spec }: Transition, shadow: ShadowView): Annotations {
  const code = outcome === 'Failed' ? reportedFailure(shadow) : missedDeadline(shadow);
  if (code === undefined) return {};
  const { version } = shadow.spec;
  return { [FAILED_VERSION_ANNOTATION]: `${version ?? ''}=${code}=${spec.state_transition_timestamp ?? ''}` };
}

/** A failure that soon passes does not use up an attempt with the version. */
function usesAttempt({ status }: ShadowView): boolean {
  const code = status?.lastOperation?.errorCode;
  return code === undefined || !isErrorCode(code) || ERROR_CODES[code] !== 'RetrySoon';
}

function without({ metadata: { annotations = {} } }: ShadowView, ...names: string[]): Annotations {
  return Object.fromEntries(names.filter((name) => annotations[name] !== undefined).map((name) => [name, null]));
}

/** An update that passed a deadline predicts nothing about the next one. */
function updateSeconds({ spec, wasSuspended = false }: Transition, shadow: ShadowView): Annotations {
  const isTypical = shadow.progressing?.reason !== 'DeadlineExceeded' && !wasSuspended;
  const seconds = isTypical ? secondsSoFar(shadow, spec) : undefined;
  return seconds === undefined ? {} : { [UPDATE_SECONDS_ANNOTATION]: String(seconds) };
}

/** Otherwise a node that did not fit into its window would be staged in vain in each one. */
function deferredAfter({ spec, because }: Transition, shadow: ShadowView): Annotations {
  const seconds = secondsSoFar(shadow, spec);
  const closed = because?.reason === 'OutsideMaintenanceWindow' || because?.reason === 'WindowTooShort';
  return closed && seconds !== undefined ? { [DEFERRED_AFTER_ANNOTATION]: String(seconds) } : {};
}

function secondsSoFar(shadow: ShadowView, spec: ShadowSpec): number | undefined {
  const start = startedAt(shadow);
  const end = parseTime(spec.state_transition_timestamp);
  return start === undefined || end === undefined || end < start ? undefined : Math.ceil((end - start) / 1000);
}
