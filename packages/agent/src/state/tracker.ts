import type { AgentShadow, DrainResult, ExclusionResult } from '@brupop/shared/api/agent-protocol';
import { type ErrorCode, OperationError } from '@brupop/shared/api/error-codes';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { LastOperation } from '@brupop/shared/api/shadow';
import type { Action } from '../action.ts';
import { ApiError } from '../apiserver/error.ts';
import { isRebootUnderWay } from '../decide/status.ts';
import { HostError } from '../host/host.ts';
import { PAUSES } from '../limits.ts';
import type { Observation } from './observe.ts';
import { Reboots } from './reboots.ts';
import { type Pacing, Retry } from './retry.ts';
import { SettingsTracker, type SettingsTrackerView } from './settings-tracker.ts';

/** What this process has done for one generation of the spec. Losing it only means doing it again. */
export interface Attempt {
  readonly key: string;
  /** The host's latest command of this attempt was a refresh that offers the version. */
  readonly refreshed: boolean;
  /** Our marks on the Node were taken back, and nothing was marked since. */
  readonly restored: boolean;
  /** When load balancers have taken the node out. */
  readonly excludedUntil?: number;
  /** When a drain pass last found the node empty. */
  readonly drainedAt?: number;
  readonly drain?: DrainResult;
  /** When the drain must be over, as the latest pass said. */
  readonly drainEndsAt?: number;
  readonly drainNotBefore: number;
  /** How often each error was met, and the one that stands. */
  readonly counts: Readonly<Partial<Record<ErrorCode, number>>>;
  readonly error?: OperationError;
  readonly notBefore: number;
  /** Why our apiserver has not emptied the node at the latest try, and since when it has not. */
  readonly trouble: { readonly message: string; readonly sinceMs: number } | undefined;
}

/** What a decision sees of the memory. Times are monotonic milliseconds. */
export interface TrackerView {
  readonly attempt: Attempt;
  readonly host: Pacing;
  readonly api: Pacing;
  readonly hostSilentSince: number | undefined;
  readonly hostRefusedSince: number | undefined;
  /** Whether the host has answered this process at all. */
  readonly hostHasAnswered: boolean;
  readonly hostLockedSince: number | undefined;
  readonly hostBrokenSince: number | undefined;
  readonly checkDueMs: number;
  readonly checkError: OperationError | undefined;
  readonly reboots: Pick<Reboots, 'asked' | 'pending'>;
  readonly settings: SettingsTrackerView;
  /** How many replicas in a row have refused because they run on this node. */
  readonly sameNodeRefusals: number;
  /** The spec that the apiserver said is not the current one. */
  readonly refused: { readonly key: string; readonly notBefore: number; readonly times: number } | undefined;
}

export interface TrackerOptions {
  readonly nowMs: number;
  /** Milliseconds between two checks for updates. */
  readonly checkIntervalMs: number;
  readonly random?: () => number;
}

/** Which attempt a shadow's spec asks for. */
export function attemptKey({ uid, generation }: Pick<AgentShadow, 'uid' | 'generation'>): string {
  return `${uid}/${generation}`;
}

/** An attempt that nothing was done for yet. */
export function freshAttempt(key: string): Attempt {
  return { key, refreshed: false, restored: false, drainNotBefore: 0, counts: {}, notBefore: 0, trouble: undefined };
}

/** What this process remembers, to pace itself and to know what it need not do again. Nothing in it is needed after a restart. */
export class Tracker implements TrackerView {
  attempt = freshAttempt('');
  hostSilentSince: number | undefined;
  hostRefusedSince: number | undefined;
  hostHasAnswered = false;
  hostLockedSince: number | undefined;
  hostBrokenSince: number | undefined;
  checkDueMs: number;
  checkError: OperationError | undefined;
  refused: { readonly key: string; readonly notBefore: number; readonly times: number } | undefined;
  sameNodeRefusals = 0;
  readonly reboots = new Reboots();
  readonly settings: SettingsTracker;
  readonly host: Retry;
  readonly api: Retry;
  readonly #check: Retry;
  readonly #otherReplica: Retry;
  readonly #commands: Retry;
  readonly #refusedReboots: Retry;
  readonly #drains: Retry;
  readonly #specs: Retry;
  readonly #options: Required<TrackerOptions>;

  constructor(options: TrackerOptions) {
    const random = options.random ?? Math.random;
    this.#options = { ...options, random };
    this.settings = new SettingsTracker(random);
    this.host = new Retry(PAUSES.host, random);
    this.api = new Retry(PAUSES.api, random);
    this.#check = new Retry({ ...PAUSES.check, capMs: options.checkIntervalMs }, random);
    this.#otherReplica = new Retry(PAUSES.otherReplica, random);
    this.#commands = new Retry(PAUSES.command, random);
    this.#refusedReboots = new Retry(PAUSES.rebootRefused, random);
    this.#drains = new Retry(PAUSES.drain, random);
    this.#specs = new Retry(PAUSES.specChanged, random);
    // The first check is spread over a sixtieth of the interval: all agents of a fleet may start together.
    this.checkDueMs = options.nowMs + (random() * options.checkIntervalMs) / 60;
  }

  /** Takes note of what was seen before a decision is made on it. */
  observe(seen: Observation): void {
    const { host, nowMs, shadow } = seen;
    if (shadow !== undefined && this.attempt.key !== attemptKey(shadow)) {
      this.attempt = freshAttempt(attemptKey(shadow));
      for (const retry of [this.#commands, this.#refusedReboots, this.#drains]) retry.succeed();
      this.settings.begin(nowMs);
    }
    this.settings.observe(seen);
    this.reboots.observe(seen);
    const since = (known: number | undefined, holds: boolean): number | undefined =>
      holds ? (known ?? nowMs) : undefined;
    if (this.hostSilentSince !== undefined && host.kind === 'answered') this.host.succeed();
    const update = host.kind === 'answered' ? host.update.kind : undefined;
    this.hostHasAnswered ||= host.kind === 'answered';
    this.hostSilentSince = since(this.hostSilentSince, host.kind === 'silent');
    this.hostRefusedSince = since(this.hostRefusedSince, host.kind === 'silent' && host.refused);
    this.hostLockedSince = since(this.hostLockedSince, update === 'locked');
    this.hostBrokenSince = since(this.hostBrokenSince, update === 'failed');
    if (host.kind === 'silent') this.host.fail(nowMs);
  }

  /**
   * Takes note of an action that worked.
   * @param beganMs - when it was decided
   */
  succeeded(action: Action, result: unknown, seen: Observation, beganMs = seen.nowMs): void {
    switch (action.do) {
      case 'command':
        this.host.succeed();
        if (action.command === 'activate') this.reboots.activated(seen.bootID);
        this.#commandSucceeded(action, seen.nowMs, beganMs);
        return;
      case 'configure':
        this.#configured(seen.nowMs);
        return;
      case 'reboot':
        this.reboots.asked = { atMs: seen.nowMs, bootID: seen.bootID };
        this.reboots.mayGoDown();
        return;
      case 'report':
        this.#rebootWritten(action.status.lastOperation, seen.shadow?.status?.lastOperation);
        this.#callSucceeded(action, result, seen.nowMs, beganMs);
        return;
      default:
        this.#callSucceeded(action, result, seen.nowMs, beganMs);
    }
  }

  /** Takes note of an action that failed. */
  failed(action: Action, error: unknown, seen: Observation): void {
    if (action.do === 'configure') this.settings.changeFailed(seen.nowMs, messageOf(error));
    else if (error instanceof ApiError) this.#callFailed(action, error, seen);
    else if (error instanceof HostError) this.#hostFailed(error, seen);
    else this.#operationFailed(action, asOperationError(error), seen.nowMs);
  }

  /** The reboot comes next, so what was seen on the node before the activation does not count any more. */
  #rebootWritten(step: LastOperation | undefined, before: LastOperation | undefined): void {
    if (!isRebootUnderWay(step)) return;
    this.reboots.written(step, before);
    const { drainedAt: _before, ...attempt } = this.attempt;
    this.attempt = attempt;
  }

  /** What was offered before counts for nothing. */
  #configured(nowMs: number): void {
    this.host.succeed();
    this.settings.changed(nowMs);
    this.attempt = { ...this.attempt, refreshed: false };
    this.checkDueMs = Math.min(this.checkDueMs, this.settings.seenFrom);
  }

  #commandSucceeded(action: Action & { do: 'command' }, nowMs: number, beganMs: number): void {
    const { error: _error, ...attempt } = this.attempt;
    this.attempt = { ...attempt, refreshed: action.command === 'refresh', notBefore: 0 };
    this.#commands.succeed();
    if (action.command !== 'refresh') return;
    this.settings.refreshSucceeded(beganMs);
    this.#check.succeed();
    this.checkError = undefined;
    this.checkDueMs = this.#nextCheck(nowMs);
  }

  #callSucceeded(action: Action, result: unknown, nowMs: number, beganMs: number): void {
    for (const retry of [this.api, this.#otherReplica, this.#specs]) retry.succeed();
    this.refused = undefined;
    if (action.do === 'restore') this.attempt = { ...this.attempt, restored: true };
    if (action.do === 'exclude') {
      const { remainingMs } = result as ExclusionResult;
      this.attempt = { ...this.attempt, restored: false, trouble: undefined, excludedUntil: nowMs + remainingMs };
    }
    if (action.do === 'drain') this.#drained(result as DrainResult, nowMs, beganMs);
  }

  #drained(drain: DrainResult, nowMs: number, beganMs: number): void {
    this.sameNodeRefusals = 0;
    const progress = drain.evicted > 0 || drain.remaining < (this.attempt.drain?.remaining ?? Infinity);
    if (progress) this.#drains.succeed();
    const done = drain.done ? { drainedAt: nowMs } : {};
    // A pass that has waited long itself is followed by the next one at once.
    const drainNotBefore = drain.done ? 0 : this.#drains.fail(beganMs);
    const { limitRemainingMs: leftMs } = drain;
    const limit = leftMs === undefined ? {} : { drainEndsAt: nowMs + leftMs };
    this.attempt = { ...this.attempt, restored: false, trouble: undefined, drain, drainNotBefore, ...done, ...limit };
  }

  #callFailed(action: Action, error: ApiError, { nowMs, shadow }: Observation): void {
    if (action.do === 'exclude' || action.do === 'drain') {
      const { sinceMs } = this.attempt.trouble ?? { sinceMs: nowMs };
      this.attempt = { ...this.attempt, trouble: { message: messageOf(error), sinceMs } };
    }
    if (error.code === 'ReplicaOnSameNode') {
      this.sameNodeRefusals += 1;
      this.api.notBefore = this.#otherReplica.fail(nowMs);
    } else if ((error.code === 'SpecChanged' || error.code === 'SpecForbids') && shadow !== undefined) {
      const notBefore = this.#specs.fail(nowMs);
      this.refused = { key: attemptKey(shadow), notBefore, times: (this.refused?.times ?? 0) + 1 };
    } else {
      this.api.fail(nowMs);
    }
  }

  #hostFailed(error: HostError, { nowMs }: Observation): void {
    if (error.kind === 'locked') this.hostLockedSince ??= nowMs;
    this.host.fail(nowMs);
  }

  #operationFailed(action: Action, error: OperationError, nowMs: number): void {
    if (action.do === 'command' && action.command === 'refresh' && action.version === undefined) {
      this.#checkFailed(error, nowMs);
      this.settings.refreshFailed(nowMs, error.message, error.code === 'VersionNotOffered');
      return;
    }
    if (action.do === 'reboot' && error.code !== 'RebootRefused') this.reboots.mayGoDown();
    const { counts } = this.attempt;
    const retry = error.code === 'RebootRefused' ? this.#refusedReboots : this.#commands;
    this.attempt = {
      ...this.attempt,
      refreshed: false,
      error,
      counts: { ...counts, [error.code]: (counts[error.code] ?? 0) + 1 },
      notBefore: retry.fail(nowMs),
    };
  }

  /** What no retry heals is looked at again at the usual time; other failures sooner. */
  #checkFailed(error: OperationError, nowMs: number): void {
    const passing = error.code !== 'HostUnsupported' && error.code !== 'HostStatusUnreadable';
    this.checkError = error;
    this.checkDueMs = passing ? this.#check.fail(nowMs) : this.#nextCheck(nowMs);
  }

  /** The interval ±10 %, so that a fleet's checks spread. */
  #nextCheck(nowMs: number): number {
    const { checkIntervalMs, random } = this.#options;
    return nowMs + checkIntervalMs * (0.9 + 0.2 * random());
  }
}

function asOperationError(error: unknown): OperationError {
  return error instanceof OperationError
    ? error
    : new OperationError('StepTimedOut', messageOf(error), { cause: error });
}
