import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import { LIMITS, PAUSES } from '../limits.ts';
import type { Observation } from './observe.ts';
import { Retry } from './retry.ts';

/** What a decision sees of what this process has done about the host's settings. Times are monotonic milliseconds. */
export interface SettingsTrackerView {
  /** False while something may be stored on the host that its update programs were not told of. */
  readonly applied: boolean;
  /** A refresh has succeeded, for this generation of the spec, that has seen the settings of the latest change. */
  readonly refreshed: boolean;
  /** From when on a refresh sees them. */
  readonly seenFrom: number;
  /** Since when this process has known the current generation of the spec. */
  readonly since: number;
  /** Failures in a row. */
  readonly tries: number;
  readonly error: string | undefined;
  readonly notBefore: number;
}

/** What this process remembers of the host's settings. A new process believes no offer until it has looked for updates itself. */
export class SettingsTracker implements SettingsTrackerView {
  applied = true;
  refreshed = false;
  seenFrom = -Infinity;
  since = -Infinity;
  tries = 0;
  error: string | undefined;
  #known = false;
  readonly #retry: Retry;

  constructor(random: () => number) {
    this.#retry = new Retry(PAUSES.settings, random);
  }

  get notBefore(): number {
    return this.#retry.notBefore;
  }

  /** Takes note of what was seen. */
  observe({ shadow, host, bootID, nowMs }: Observation): void {
    if (shadow !== undefined && !this.#known) this.applied = wasApplied(shadow, bootID);
    this.#known ||= shadow !== undefined;
    const view = host.kind === 'answered' ? host.settings : undefined;
    if (view?.kind === 'failed' && this.notBefore <= nowMs) this.#fail(nowMs, view.message);
  }

  /** Another generation of the spec is another try, for which only what the host is asked from now on counts. */
  begin(nowMs: number): void {
    this.since = nowMs;
    this.refreshed = false;
    this.#forget();
  }

  /** Settings were stored and are being applied. */
  changed(nowMs: number): void {
    this.applied = true;
    this.#changedAt(nowMs);
  }

  /** Settings may have been stored, or not. */
  changeFailed(nowMs: number, message: string): void {
    this.applied = false;
    this.#changedAt(nowMs);
    this.#fail(nowMs, message);
  }

  /** A refresh has succeeded that began at `beganMs`. */
  refreshSucceeded(beganMs: number): void {
    if (beganMs < this.seenFrom) return;
    this.refreshed = true;
    this.#forget();
  }

  /**
   * A refresh has failed.
   * @param contradicts - it has offered another version than the host is locked to
   */
  refreshFailed(nowMs: number, message: string, contradicts: boolean): void {
    if (contradicts) {
      this.applied = false;
      this.refreshed = false;
    }
    this.#fail(nowMs, message);
  }

  #changedAt(nowMs: number): void {
    this.refreshed = false;
    this.seenFrom = nowMs + LIMITS.settingsApply;
  }

  #fail(nowMs: number, message: string): void {
    this.tries += 1;
    this.error = message;
    this.#retry.fail(nowMs);
  }

  #forget(): void {
    this.tries = 0;
    this.error = undefined;
    this.#retry.succeed();
  }
}

/**
 * Whether what an earlier process has stored for a record was applied: it may have died before it heard that it was not. A boot applies all that is
 * stored, and a spec is only confirmed after a refresh that saw it.
 */
function wasApplied({ spec, status, generation }: AgentShadow, bootID: string): boolean {
  const { versionLock, ignoreWaves, message } = status?.hostSettings ?? {};
  if (status === undefined || (versionLock === undefined && ignoreWaves === undefined)) return true;
  const isIdle = spec.state === 'Idle' || spec.state === 'ErrorReset';
  const isConfirmed = isIdle && status.observedGeneration === generation && message === undefined;
  return isConfirmed || status.bootID !== bootID;
}
