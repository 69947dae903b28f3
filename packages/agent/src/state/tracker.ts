/**
 * What this process has observed and done. It paces calls and avoids repeating them; nothing in it
 * has to survive a restart. Times are monotonic milliseconds.
 *
 *     new spec ─> fresh attempt ─> refreshed | excluded ─> drained | restored
 *
 * Invariants: an attempt belongs to one generation of one shadow, and another one discards its
 * counts and pauses. A drain or an exclusion makes `restored` false. A recorded reboot discards
 * `drainedAt`, so that the node is drained again before another activation. Any other command than
 * a refresh, or a failure, discards `refreshed`.
 *
 * The agent's loop calls `observe` before each decision, and `succeeded` or `failed` after each
 * action. Decisions only read it, as `TrackerView`.
 */
import type { AgentShadow, DrainResult, ExclusionResult } from '@brupop/shared/api/agent-protocol';
import { type ErrorCode, OperationError } from '@brupop/shared/api/error-codes';
import { UPDATER_SETTINGS, type Classified } from '@brupop/shared/api/settings';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { LastOperation } from '@brupop/shared/api/shadow';
import { isRebootInProgress, type RemoteAction, rowOf } from '../actions.ts';
import { ApiError } from '../apiserver/messages.ts';
import { HostError } from '../host/host.ts';
import { LIMITS, lockLimit, PAUSES, Retry, type UpdateCommand } from '../limits.ts';
import type { Observation } from './observe.ts';
import { Reboots } from './reboots.ts';
import { SettingsTracker, type SettingsTrackerView } from './settings-tracker.ts';

/** What this process has done for one generation of the spec; a new process does it again. */
export interface Attempt {
  readonly key: string;
  /** The host's latest command in this attempt was a refresh that offers the version. */
  readonly refreshed: boolean;
  /** The Node was restored, and nothing was set on it since. */
  readonly restored: boolean;
  /** When load balancers have removed the node. */
  readonly excludedUntil?: number;
  /** When a drain pass last found the node empty. */
  readonly drainedAt?: number;
  readonly drain?: DrainResult;
  /** When the drain must be over, as the latest pass reported. */
  readonly drainEndsAt?: number;
  readonly drainNotBefore: number;
  /** How many times each error was met, and the latest that was not followed by a success. */
  readonly counts: Readonly<Partial<Record<ErrorCode, number>>>;
  readonly error?: OperationError;
  readonly notBefore: number;
  /** The host has rejected the deactivation. */
  readonly deactivationFailed?: boolean;
  /** Why no drain pass could run. */
  readonly drainError: CallError | undefined;
  /** Why the Node could not be restored. */
  readonly restoreError?: CallError | undefined;
  /** When a report was last sent, or failed. */
  readonly reportedMs?: number;
}

/** The latest error of a call, and since when it fails. */
export interface CallError {
  readonly message: string;
  readonly sinceMs: number;
}

const CUT_OFF = `the apiserver was not heard from for ${LIMITS.settingsContact / 1000} s after the change`;

type Methods = 'observe' | 'succeeded' | 'failed';

export interface TrackerView extends Readonly<Omit<Tracker, Methods | 'host' | 'api' | 'reboots' | 'settings'>> {
  readonly host: Pick<Retry, 'notBefore'>;
  readonly api: Pick<Retry, 'notBefore'>;
  readonly reboots: Pick<Reboots, 'asked' | 'pending'>;
  readonly settings: SettingsTrackerView;
}

function attemptKey({ uid, generation }: Pick<AgentShadow, 'uid' | 'generation'>): string {
  return `${uid}/${generation}`;
}

export function freshAttempt(key: string): Attempt {
  return { key, refreshed: false, restored: false, drainNotBefore: 0, counts: {}, notBefore: 0, drainError: undefined };
}

export class Tracker {
  attempt = freshAttempt('');
  hostUnreachableSince: number | undefined;
  hostRefusedSince: number | undefined;
  hostHasAnswered = false;
  hostLockedSince: number | undefined;
  /** How long the lock may be held, milliseconds: a command that was run for an earlier spec may not have ended yet. */
  lockLimit: number = LIMITS.lockHeld;
  hostUnusableSince: number | undefined;
  checkDueMs: number;
  checkError: OperationError | undefined;
  /** When a check for updates has last failed, of those since `checkFailingSince`. */
  checkFailedMs: number | undefined;
  /** Since when no check for updates has succeeded, after one that has failed. */
  checkFailingSince: number | undefined;
  /** The spec that the apiserver rejected as outdated. */
  rejected: { readonly key: string; readonly notBefore: number; readonly times: number } | undefined;
  readonly reboots = new Reboots();
  readonly settings: SettingsTracker;
  readonly host: Retry;
  readonly api: Retry;
  /** When the settings that decide the offer were last stored. */
  #offerChangedMs = -Infinity;
  readonly #check: Retry;
  readonly #commands: Retry;
  readonly #refusedReboots: Retry;
  readonly #drains: Retry;
  readonly #specs: Retry;
  /** The interval ±10 %, so that the checks of a fleet spread. */
  readonly #nextCheck: (nowMs: number) => number;

  constructor(nowMs: number, checkIntervalMs: number, random: () => number) {
    this.#nextCheck = (fromMs) => fromMs + checkIntervalMs * (0.9 + 0.2 * random());
    this.settings = new SettingsTracker(random);
    this.host = new Retry(PAUSES.host, random);
    this.api = new Retry(PAUSES.api, random);
    this.#check = new Retry({ ...PAUSES.check, capMs: Math.min(PAUSES.check.capMs, checkIntervalMs) }, random);
    this.#commands = new Retry(PAUSES.command, random);
    this.#refusedReboots = new Retry(PAUSES.rebootRefused, random);
    this.#drains = new Retry(PAUSES.drain, random);
    this.#specs = new Retry(PAUSES.specChanged, random);
    // The first check is spread, since all agents of a fleet may start together.
    this.checkDueMs = nowMs + (random() * checkIntervalMs) / 60;
  }

  observe(seen: Observation): void {
    const { host, nowMs, shadow } = seen;
    if (shadow !== undefined && this.attempt.key !== attemptKey(shadow)) {
      this.attempt = freshAttempt(attemptKey(shadow));
      for (const retry of [this.#commands, this.#refusedReboots, this.#drains]) retry.succeed();
      this.settings.begin(nowMs, shadow);
    }
    this.settings.observe(seen);
    this.reboots.observe(seen);
    const since = (known: number | undefined, holds: boolean): number | undefined =>
      holds ? (known ?? nowMs) : undefined;
    if (this.hostUnreachableSince !== undefined && host.kind === 'answered') this.host.succeed();
    const update = host.kind === 'answered' ? host.update.kind : undefined;
    this.hostHasAnswered ||= host.kind === 'answered';
    this.hostUnreachableSince = since(this.hostUnreachableSince, host.kind === 'unreachable');
    this.hostRefusedSince = since(this.hostRefusedSince, host.kind === 'unreachable' && host.refused);
    this.hostLockedSince = since(this.hostLockedSince, update === 'locked');
    this.#limitLock(seen);
    this.hostUnusableSince = since(this.hostUnusableSince, update === 'failed');
    if (host.kind === 'unreachable') this.host.fail(nowMs);
  }

  #limitLock({ host, shadow }: Observation): void {
    const update = host.kind === 'answered' ? host.update.kind : undefined;
    const isFree = update === 'status' || update === 'uninitialized';
    const limitMs = shadow === undefined ? LIMITS.lockHeld : lockLimit(shadow.spec);
    this.lockLimit = isFree ? limitMs : Math.max(this.lockLimit, limitMs);
  }

  /** @param startedMs - when the action was decided */
  succeeded(action: RemoteAction, result: unknown, seen: Observation, startedMs = seen.nowMs): void {
    const { nowMs, bootID } = seen;
    if (rowOf(action).target === 'apiserver') return this.#callSucceeded(action, result, seen, startedMs);
    this.host.succeed();
    if (action.do === 'classify') this.settings.classified(result as ReadonlyMap<string, Classified>);
    if (action.do === 'configure') this.#configured(action, nowMs);
    if (action.do === 'command') this.#commandSucceeded(action.command, bootID, nowMs, startedMs);
    if (action.do === 'reboot') this.reboots.accepted(nowMs, bootID);
  }

  #callSucceeded(action: RemoteAction, result: unknown, { nowMs, shadow }: Observation, startedMs: number): void {
    this.api.succeed();
    this.#specs.succeed();
    this.rejected = undefined;
    if (action.do === 'report') this.#updateAttempt({ reportedMs: nowMs });
    if (action.do === 'report') this.#reported(action.status.lastOperation, shadow?.status?.lastOperation);
    if (action.do === 'restore') this.#updateAttempt({ restored: true, restoreError: undefined });
    if (action.do === 'exclude') this.#excluded(result as ExclusionResult, nowMs);
    if (action.do === 'drain') this.#drained(result as DrainResult, nowMs, startedMs);
  }

  /** @param startedMs - when the action was decided */
  failed(action: RemoteAction, error: unknown, seen: Observation, startedMs = seen.nowMs): void {
    if (action.do === 'configure') this.settings.changeFailed(seen.nowMs, messageOf(error));
    else if (action.do === 'classify') this.settings.classifyFailed(seen.nowMs, messageOf(error));
    else if (error instanceof ApiError) this.#callFailed(action, error, seen);
    else if (!(error instanceof HostError))
      this.#operationFailed(action, asOperationError(error), seen.nowMs, startedMs);
    else this.#hostFailed(action, error, seen.nowMs);
  }

  /** A command that saw the host go has waited for it already. */
  #hostFailed(action: RemoteAction, error: HostError, nowMs: number): void {
    const { kind, sinceMs } = error;
    if (isCheck(action)) this.#checkNotStarted(error, nowMs);
    if (kind === 'locked') this.hostLockedSince ??= nowMs;
    if (sinceMs !== undefined) this.hostUnreachableSince ??= sinceMs;
    if (sinceMs !== undefined && kind === 'refused') this.hostRefusedSince ??= sinceMs;
    this.host.fail(nowMs);
  }

  /** The host's status, which may be readable, does not show that no check can be started. */
  #checkNotStarted({ sinceMs, message }: HostError, nowMs: number): void {
    if (sinceMs !== undefined) return;
    this.checkError ??= new OperationError('RefreshFailed', message);
    this.checkFailingSince ??= nowMs;
  }

  #updateAttempt(changes: Partial<Attempt>): void {
    this.attempt = { ...this.attempt, ...changes };
  }

  #reported(step: LastOperation | undefined, before: LastOperation | undefined): void {
    if (!isRebootInProgress(step)) return;
    this.reboots.recorded(step, before);
    const { drainedAt: _before, ...attempt } = this.attempt;
    this.attempt = attempt;
  }

  /** Earlier offers of the host do not count any more. */
  #configured({ changes, undo }: RemoteAction & { readonly do: 'configure' }, nowMs: number): void {
    if (undo === undefined) this.settings.revert(nowMs, CUT_OFF);
    else this.settings.changed(nowMs, changes, undo);
    if (![...changes.keys()].some((key) => UPDATER_SETTINGS.includes(key))) return;
    this.#updateAttempt({ refreshed: false });
    this.#offerChangedMs = nowMs;
    this.checkDueMs = Math.min(this.checkDueMs, this.settings.effectiveFrom);
  }

  #commandSucceeded(command: UpdateCommand, bootID: string, nowMs: number, startedMs: number): void {
    if (command === 'activate') this.reboots.activated(bootID);
    const { error: _error, ...attempt } = this.attempt;
    this.attempt = { ...attempt, refreshed: command === 'refresh', notBefore: 0 };
    this.#commands.succeed();
    if (command !== 'refresh') return;
    this.settings.refreshSucceeded(startedMs);
    this.#check.succeed();
    this.checkError = undefined;
    this.checkFailingSince = undefined;
    this.checkFailedMs = undefined;
    const againMs = this.#offerChangedMs + LIMITS.settingsLate;
    this.checkDueMs = Math.min(this.#nextCheck(nowMs), startedMs < againMs ? againMs : Infinity);
  }

  #excluded({ remainingMs }: ExclusionResult, nowMs: number): void {
    this.#updateAttempt({ restored: false, drainError: undefined, excludedUntil: nowMs + remainingMs });
  }

  #drained(drain: DrainResult, nowMs: number, startedMs: number): void {
    const progress = drain.evicted > 0 || drain.remaining < (this.attempt.drain?.remaining ?? Infinity);
    if (progress) this.#drains.succeed();
    const done = drain.done ? { drainedAt: nowMs } : {};
    // The pause counts from the start of a pass, since a pass may wait itself.
    const drainNotBefore = drain.done ? 0 : this.#drains.fail(startedMs);
    const { limitRemainingMs: leftMs } = drain;
    // The image may have to be written again after the drain.
    const leastMs = drain.done ? LIMITS.drained : 0;
    const limit = leftMs === undefined ? {} : { drainEndsAt: nowMs + Math.max(leftMs, leastMs) };
    this.#updateAttempt({ restored: false, drainError: undefined, drain, drainNotBefore, ...done, ...limit });
  }

  #callFailed(action: RemoteAction, error: ApiError, { nowMs, shadow }: Observation): void {
    const { drainError, restoreError } = this.attempt;
    const after = (before: CallError | undefined): CallError => ({
      sinceMs: nowMs,
      ...before,
      message: messageOf(error),
    });
    if (action.do === 'exclude' || action.do === 'drain') this.#updateAttempt({ drainError: after(drainError) });
    if (action.do === 'restore') this.#updateAttempt({ restoreError: after(restoreError) });
    if (action.do === 'report') this.#updateAttempt({ reportedMs: nowMs });
    if ((error.code === 'SpecChanged' || error.code === 'SpecForbids') && shadow !== undefined) {
      const notBefore = this.#specs.fail(nowMs);
      this.rejected = { key: attemptKey(shadow), notBefore, times: (this.rejected?.times ?? 0) + 1 };
    } else {
      this.api.fail(nowMs);
    }
  }

  #operationFailed(action: RemoteAction, error: OperationError, nowMs: number, startedMs: number): void {
    if (isCheck(action)) {
      this.#checkFailed(error, nowMs);
      this.settings.refreshFailed(nowMs, error.message, error.code === 'VersionNotOffered');
      return;
    }
    // The host has refreshed, and offers another version.
    if (error.code === 'VersionNotOffered') this.settings.refreshSucceeded(startedMs);
    if (action.do === 'reboot' && error.code !== 'RebootRefused') this.reboots.requested();
    this.#attemptFailed(action, error, nowMs);
  }

  #attemptFailed(action: RemoteAction, error: OperationError, nowMs: number): void {
    const { counts } = this.attempt;
    const deactivationFailed = action.do === 'command' && action.command === 'deactivate';
    const retry = error.code === 'RebootRefused' ? this.#refusedReboots : this.#commands;
    this.#updateAttempt({
      refreshed: false,
      ...(deactivationFailed && { deactivationFailed }),
      error,
      counts: { ...counts, [error.code]: (counts[error.code] ?? 0) + 1 },
      notBefore: retry.fail(nowMs),
    });
  }

  /** A host that is unsupported is checked again at the usual interval: no retry changes that. */
  #checkFailed(error: OperationError, nowMs: number): void {
    this.checkError = error;
    this.checkFailingSince ??= nowMs;
    this.checkFailedMs = nowMs;
    this.checkDueMs = error.code === 'HostUnsupported' ? this.#nextCheck(nowMs) : this.#check.fail(nowMs);
  }
}

/** True for a refresh of a host at rest. */
function isCheck(action: RemoteAction): boolean {
  return action.do === 'command' && action.command === 'refresh' && action.version === undefined;
}

/** True for an error that no retry solves, but a repair of the host. */
export function isHostProblem(code: ErrorCode | undefined): boolean {
  return code === 'HostUnsupported' || code === 'HostStatusUnreadable';
}

function asOperationError(error: unknown): OperationError {
  return error instanceof OperationError
    ? error
    : new OperationError('StepTimedOut', messageOf(error), { cause: error });
}
