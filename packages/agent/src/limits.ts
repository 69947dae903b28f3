import {
  CLOCK_TOLERANCE_MS,
  DRAIN_OVER_LIMIT_MS,
  HOST_SETTINGS_LIMIT_MS,
  REBOOT_CALL_LIMIT_MS,
  REBOOT_PENDING_LIMIT_MS,
  REBOOT_REQUEST_LIMIT_MS,
  REBOOT_TIMEOUT_MIN_MS,
  STEP_LIMITS_MS,
} from '@brupop/shared/api/deadlines';
import type { ErrorCode } from '@brupop/shared/api/error-codes';
import type { Operation, ShadowSpec, ShadowState } from '@brupop/shared/api/shadow';

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** Every time limit and pause of the agent, in milliseconds. */
export const LIMITS = {
  /** One call of the host API. */
  hostCall: 10 * SECOND,
  /** The reboot call, which answers only when systemctl has returned. */
  rebootCall: REBOOT_CALL_LIMIT_MS,
  /** First and longest pause between two looks at a running host command. */
  pollFirst: 10,
  pollLongest: SECOND,
  /** A host that has not answered for so long fails the step that needs it. */
  hostSilent: 5 * MINUTE,
  /** A socket that nobody listens on any more for so long is a stale mount: the agent ends, so that the kubelet mounts it anew. */
  staleSocket: 30 * SECOND,
  /** The same for one on which this process has met nobody at all: its mount is as new as the process. First a silent host must have failed the step. */
  neverAnswered: 6 * MINUTE,
  /** An update lock that somebody else holds for so long fails the step that needs it. */
  locked: 20 * MINUTE,
  /** It is held for so long after the longest command of ours. */
  lockedLonger: 5 * MINUTE,
  /** An apiserver out of reach for so long: the agent ends, so that the kubelet configures it anew. */
  apiSilent: 10 * MINUTE,
  /** A spec counts as current for so long after the last message of a connected stream. */
  specFresh: 60 * SECOND,
  /** What was decided is sent to the host within so long, or decided anew: a process may be stopped in between, and then goes on with what it saw. */
  decisionFresh: 2 * SECOND,
  /** A finished drain counts for so long; then a pass is run again before anything depends on it. */
  drainFresh: 5 * SECOND,
  /** A host that is still up so long after the reboot call is asked again: systemd-logind lets inhibitors delay a reboot by 5 min. */
  rebootAgain: 6 * MINUTE,
  /** A reboot is asked for within so long after that was written down, */
  askWritten: REBOOT_REQUEST_LIMIT_MS,
  /** so that after so long no reboot that was asked for can still come: the call and the inhibitors take 5.5 min. */
  rebootPending: REBOOT_PENDING_LIMIT_MS,
  /** A time that is further ahead was written before the clock was set back. */
  clockAhead: CLOCK_TOLERANCE_MS,
  /** A drain that our apiserver has refused for so long says so in the shadow. */
  troubleTold: 10 * SECOND,
  /** After so long it has failed: only passes that are run know how much time the configuration gives it. */
  drainTrouble: 30 * MINUTE,
  /** A drain that goes on for so long after its limit, as the apiserver told it, has failed. */
  drainOverLimit: DRAIN_OVER_LIMIT_MS,
  /** An update status that is unusable for so long is no passing trouble. */
  broken: 30 * SECOND,
  /** A refresh sees settings that were committed so long before it began: the host applies them after its answer. */
  settingsApply: 1.5 * SECOND,
  /** Settings of the host that a spec asks for and that are not in force for so long: the spec is answered without them, before the controller calls the agent silent. */
  settings: HOST_SETTINGS_LIMIT_MS,
  /** A host that nothing is expected of is looked at so often. */
  lookAgain: 5 * MINUTE,
  /** How long a loop that does not turn is still alive, beyond the limit of what it is doing. */
  loopStuck: 5 * MINUTE,
} as const;

/** The commands of the host's updater. */
export const UPDATE_COMMANDS = ['refresh', 'prepare', 'activate', 'deactivate'] as const;
export type UpdateCommand = (typeof UPDATE_COMMANDS)[number];

/** How long a host command may run, in milliseconds. */
export const COMMAND_LIMITS: Readonly<Record<UpdateCommand, number>> = {
  refresh: 3 * MINUTE,
  prepare: 15 * MINUTE,
  activate: MINUTE,
  deactivate: MINUTE,
};

/**
 * How long each step may take in milliseconds, counted from `lastOperation.startTime`, and how it fails then. A drain ends earlier, by the
 * configuration's limit of at most a day, and 70 min more where it is forced; before it load balancers get up to an hour.
 */
export const STEP_LIMITS: Readonly<Record<Operation, { readonly ms: number; readonly code: ErrorCode }>> = {
  Stage: { ms: STEP_LIMITS_MS.Stage, code: 'StepTimedOut' },
  Drain: { ms: STEP_LIMITS_MS.Drain, code: 'DrainTimedOut' },
  Activate: { ms: STEP_LIMITS_MS.Activate, code: 'StepTimedOut' },
  Reboot: { ms: STEP_LIMITS_MS.Reboot, code: 'RebootTimedOut' },
  Restore: { ms: STEP_LIMITS_MS.Restore, code: 'StepTimedOut' },
};

/** The state in which a spec's `timeoutSeconds` is about each of these steps. */
const TIMED_BY_SPEC: Readonly<Partial<Record<Operation, ShadowState>>> = {
  Stage: 'StagedAndPerformedUpdate',
  Reboot: 'RebootedIntoUpdate',
};

/**
 * How long a step may take for this spec, in milliseconds. A reboot gets time in which it can be asked for at all: until the end of the step it must
 * have come, however long inhibitors delay it.
 */
export function stepLimit(operation: Operation, { state, timeoutSeconds }: ShadowSpec): number {
  if (timeoutSeconds == null || TIMED_BY_SPEC[operation] !== state) return STEP_LIMITS[operation].ms;
  const ms = timeoutSeconds * SECOND;
  return operation === 'Reboot' ? Math.max(ms, REBOOT_TIMEOUT_MIN_MS) : ms;
}

/** How long a host command may run for this spec, in milliseconds. Of a longer limit of the staging a prepare gets a third, so that it can be repeated. */
export function commandLimit(command: UpdateCommand, spec: ShadowSpec | undefined): number {
  const third = spec === undefined ? 0 : stepLimit('Stage', spec) / 3;
  return command === 'prepare' ? Math.max(COMMAND_LIMITS.prepare, third) : COMMAND_LIMITS[command];
}

/** How long somebody else may hold the update lock, in milliseconds: longer than any command of an earlier process of this agent runs. */
export function lockLimit(spec: ShadowSpec): number {
  return Math.max(LIMITS.locked, commandLimit('prepare', spec) + LIMITS.lockedLonger);
}

/** How often one attempt meets each error before it fails with it. Errors that are not listed fail it at once. */
export const TRIES: Readonly<Partial<Record<ErrorCode, number>>> = {
  RefreshFailed: 5,
  VersionNotOffered: 5,
  PrepareFailed: 3,
  WrongVersionStaged: 3,
  RebootRefused: 5,
};

/** After so many failures in a row to bring the host's settings into force the spec is answered without them. */
export const SETTINGS_TRIES = 5;

/** A pause that doubles with each failure, from `baseMs` to `capMs`. */
export interface Pause {
  readonly baseMs: number;
  readonly capMs: number;
}

export const PAUSES = {
  host: { baseMs: 100, capMs: 10 * SECOND },
  api: { baseMs: 200, capMs: 30 * SECOND },
  /** Another replica must be found, which a new connection does with luck. */
  otherReplica: { baseMs: 20, capMs: 5 * SECOND },
  /** The spec that the apiserver knows and ours differ: the stream is about to say so. */
  specChanged: { baseMs: SECOND, capMs: 10 * SECOND },
  /** A host command that failed. */
  command: { baseMs: 2 * SECOND, capMs: MINUTE },
  /** A reboot that the host refused, as an inhibitor does while it saves something. */
  rebootRefused: { baseMs: 5 * SECOND, capMs: MINUTE },
  /** A drain pass that got nothing evicted. */
  drain: { baseMs: 500, capMs: 10 * SECOND },
  /** The check for updates; its cap is the check interval. */
  check: { baseMs: MINUTE, capMs: 30 * MINUTE },
  /** The host's settings could not be brought into force. */
  settings: { baseMs: SECOND, capMs: 5 * MINUTE },
  /** The stream, and the creation of the shadow. It begins anew after a stream that lived for 5 s. */
  stream: { baseMs: 200, capMs: 30 * SECOND },
} as const satisfies Record<string, Pause>;
