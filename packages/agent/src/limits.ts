/** How long the agent waits for what: time limits, pauses, and how many times it tries again. */
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
import { type Backoff, backoff } from '@brupop/shared/runtime/backoff';

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** Time limits and pauses of the agent, in milliseconds. */
export const LIMITS = {
  /** Limits that another program depends on: `deadlines.ts` says how. */
  rebootCall: REBOOT_CALL_LIMIT_MS,
  rebootRequest: REBOOT_REQUEST_LIMIT_MS,
  rebootPending: REBOOT_PENDING_LIMIT_MS,
  drainOverLimit: DRAIN_OVER_LIMIT_MS,
  clockAhead: CLOCK_TOLERANCE_MS,
  settings: HOST_SETTINGS_LIMIT_MS,
  /** One call of the host API. */
  hostCall: 10 * SECOND,
  /** The call that deletes a transaction which has failed; the process may be about to end. */
  transactionDeleted: 5 * SECOND,
  /** Shortest and longest pause between two polls of a running host command. */
  pollFirst: 10,
  pollLongest: SECOND,
  /** A host that does not answer for this time fails the step that needs it. */
  hostUnreachable: 5 * MINUTE,
  /** A socket that refuses connections for this time is a stale mount: the agent exits. */
  staleSocket: 30 * SECOND,
  /** The same for one that never answered, after `hostUnreachable`: the step fails first. */
  neverAnswered: 6 * MINUTE,
  /** An update lock that another process holds for this time fails the step that needs it. */
  lockHeld: 20 * MINUTE,
  /** How much longer than the agent's longest command the lock may be held. */
  lockMargin: 5 * MINUTE,
  /** After this time without the apiserver the agent exits, which renews its environment. */
  apiserverUnreachable: 10 * MINUTE,
  /** A spec is current for this time after the last message of a connected stream. */
  specFresh: 60 * SECOND,
  /** A decision is sent to the host within this time or made again. */
  decisionFresh: 2 * SECOND,
  /** A finished drain is valid for observations that begin within this time; then another pass runs. */
  drainFresh: 5 * SECOND,
  /** A drained node has to go on within this time, which is less than the controller waits after a drain. */
  drained: 20 * MINUTE,
  /** The reboot call is repeated after this time: inhibitors delay a reboot for up to 5 min. */
  rebootAgain: 6 * MINUTE,
  /** After this time the shadow says why no drain pass could run, or why the Node cannot be restored. */
  callErrorReported: 10 * SECOND,
  /** After this time the shadow has another cause of the same, if it has changed. */
  callErrorAgain: MINUTE,
  /** After this time without a pass the drain has failed: only passes know its limit. */
  drainWithoutPass: 30 * MINUTE,
  /** An update status that is unusable for this time is a lasting problem of the host. */
  statusUnusable: 30 * SECOND,
  /** A host at rest that has not been able to check for updates for this time has a problem that is reported. */
  checkFailing: 60 * MINUTE,
  /** A refresh uses the settings that were stored this long before: the host applies them late. */
  settingsApply: 1.5 * SECOND,
  /** After this time a new lock is in force on a slow host, too: the check for updates is repeated. */
  settingsLate: MINUTE,
  /** Settings after which the apiserver is not heard from for this time are reverted. */
  settingsContact: 2 * MINUTE,
  /** Pause between two looks at an idle host. */
  lookAgain: 5 * MINUTE,
  /** The loop is stuck when it is late by this time, beyond the limit of its current action. */
  loopStuck: 5 * MINUTE,
} as const;

export const UPDATE_COMMANDS = ['refresh', 'prepare', 'activate', 'deactivate'] as const;
export type UpdateCommand = (typeof UPDATE_COMMANDS)[number];

/** How long a host command may run, in milliseconds. */
const COMMAND_LIMITS: Readonly<Record<UpdateCommand, number>> = {
  refresh: 3 * MINUTE,
  prepare: 15 * MINUTE,
  /** The updater loads its repository first, and one that is silent takes up to 150 s. */
  activate: 3 * MINUTE,
  deactivate: 3 * MINUTE,
};

export const TIMEOUT_CODES: Readonly<Partial<Record<Operation, ErrorCode>>> = {
  Drain: 'DrainTimedOut',
  Reboot: 'RebootTimedOut',
};

/** The state in which `timeoutSeconds` of the spec limits a step. */
const TIMED_BY_SPEC: Readonly<Partial<Record<Operation, ShadowState>>> = {
  Stage: 'StagedAndPerformedUpdate',
  Reboot: 'RebootedIntoUpdate',
};

/**
 * Returns the limit of a step for this spec, in milliseconds. The limit of a reboot is at least the
 * time in which a requested reboot comes, however long inhibitors delay it.
 */
export function stepLimit(operation: Operation, { state, timeoutSeconds }: ShadowSpec): number {
  if (timeoutSeconds == null || TIMED_BY_SPEC[operation] !== state) return STEP_LIMITS_MS[operation];
  const ms = timeoutSeconds * SECOND;
  return operation === 'Reboot' ? Math.max(ms, REBOOT_TIMEOUT_MIN_MS) : ms;
}

/** Returns the limit of a host command. A prepare gets a third of a long staging, for retries. */
export function commandLimit(command: UpdateCommand, spec: ShadowSpec | undefined): number {
  const third = spec === undefined ? 0 : stepLimit('Stage', spec) / 3;
  return command === 'prepare' ? Math.max(COMMAND_LIMITS.prepare, third) : COMMAND_LIMITS[command];
}

/** Returns how long the update lock may be held: longer than any command that is run for this spec. */
export function lockLimit(spec: ShadowSpec): number {
  return Math.max(LIMITS.lockHeld, commandLimit('prepare', spec) + LIMITS.lockMargin);
}

/** Longest message of a status, in characters. */
export const MAX_MESSAGE = 1000;

/** How many times one attempt meets an error before it fails; others fail it at once. */
export const TRIES: Readonly<Partial<Record<ErrorCode, number>>> = {
  RefreshFailed: 5,
  PrepareFailed: 3,
  WrongVersionStaged: 3,
  /** The pauses between them are longer than a minute: the repository may be away for a moment. */
  ActivateFailed: 7,
  RebootRefused: 5,
  /** The pauses between them take `statusUnusable` at least: a dispatcher that fails once is no lasting problem. */
  HostStatusUnreadable: 6,
};

/** The same for `VersionNotOffered` while the host's settings may not be in force. */
export const OFFER_TRIES = 5;

/** After this number of failures in a row a spec is confirmed without its host settings. */
export const SETTINGS_TRIES = 5;
/** After this number of failures in a row the reboot of an update does not wait for settings. */
export const UPDATE_SETTINGS_TRIES = 3;

/** A pause that doubles with each failure, from `baseMs` to `capMs`. */
interface Pause {
  readonly baseMs: number;
  readonly capMs: number;
}

export const PAUSES = {
  host: { baseMs: 100, capMs: 10 * SECOND },
  api: { baseMs: 200, capMs: 30 * SECOND },
  /** The apiserver knows a newer spec, which the stream is about to deliver. */
  specChanged: { baseMs: SECOND, capMs: 10 * SECOND },
  command: { baseMs: 2 * SECOND, capMs: MINUTE },
  /** A reboot that the host refused, for example because of an inhibitor. */
  rebootRefused: { baseMs: 5 * SECOND, capMs: MINUTE },
  /** A drain pass that evicted nothing. */
  drain: { baseMs: 500, capMs: 10 * SECOND },
  /** The check for updates; its cap is the check interval, if that is shorter. */
  check: { baseMs: MINUTE, capMs: 30 * MINUTE },
  settings: { baseMs: SECOND, capMs: 5 * MINUTE },
  /** Former values that no group replaces any more, after they had to be taken back. */
  restores: { baseMs: 15 * MINUTE, capMs: 60 * MINUTE },
  /** The stream, and the first read of the shadow. Reset by a stream that lasted 5 s. */
  stream: { baseMs: 200, capMs: 30 * SECOND },
} as const satisfies Record<string, Pause>;

/** When an action that may fail is due: at once, and after a failure when its pause is over. */
export class Retry {
  /** Monotonic milliseconds. */
  notBefore = 0;
  readonly #backoff: Backoff;

  constructor(pause: Pause, random: () => number) {
    this.#backoff = backoff({ ...pause, random });
  }

  fail(nowMs: number): number {
    this.notBefore = nowMs + this.#backoff.next();
    return this.notBefore;
  }

  succeed(): void {
    this.notBefore = 0;
    this.#backoff.reset();
  }
}
