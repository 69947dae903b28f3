/**
 * What this process did about the host's settings. Times are monotonic milliseconds.
 *
 *     new spec ─> stored and applied ─> effective, after `settingsApply` ─> refreshed
 *
 * Invariants: only a refresh that started at `effectiveFrom` or later makes `refreshed` true, so a
 * new process trusts no offer before its own refresh. A change makes it false. A change that may
 * have failed, and an offer that contradicts the lock, make `applied` false until all recorded
 * settings are stored again. Failures count from the spec or the success before.
 *
 * The tracker calls it with each observation, change and refresh; decisions only read it.
 */
import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import { LIMITS, PAUSES, Retry } from '../limits.ts';
import type { Observation } from './observe.ts';

export type SettingsTrackerView = Readonly<
  Pick<SettingsTracker, 'applied' | 'refreshed' | 'effectiveFrom' | 'since' | 'tries' | 'error' | 'notBefore'>
>;

export class SettingsTracker {
  /** False while a setting may be stored on the host but not applied to its updater. */
  applied = true;
  /** A refresh with the latest settings has succeeded for this generation of the spec. */
  refreshed = false;
  /** From when on a refresh uses the latest settings. */
  effectiveFrom = -Infinity;
  /** Since when this process has known the current generation of the spec. */
  since = -Infinity;
  /** Consecutive failures. */
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

  observe({ shadow, host, bootID, nowMs }: Observation): void {
    if (shadow !== undefined && !this.#known) this.applied = wasApplied(shadow, bootID);
    this.#known ||= shadow !== undefined;
    const view = host.kind === 'answered' ? host.settings : undefined;
    if (view?.kind === 'failed' && this.notBefore <= nowMs) this.#fail(nowMs, view.message);
  }

  /** Starts over for another generation of the spec: only later answers of the host count. */
  begin(nowMs: number): void {
    this.since = nowMs;
    this.refreshed = false;
    this.#reset();
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

  refreshSucceeded(startedMs: number): void {
    if (startedMs < this.effectiveFrom) return;
    this.refreshed = true;
    this.#reset();
  }

  /** @param contradicts - the refresh has offered another version than the host is locked to */
  refreshFailed(nowMs: number, message: string, contradicts: boolean): void {
    if (contradicts) {
      this.applied = false;
      this.refreshed = false;
    }
    this.#fail(nowMs, message);
  }

  #changedAt(nowMs: number): void {
    this.refreshed = false;
    this.effectiveFrom = nowMs + LIMITS.settingsApply;
  }

  #fail(nowMs: number, message: string): void {
    this.tries += 1;
    this.error = message;
    this.#retry.fail(nowMs);
  }

  #reset(): void {
    this.tries = 0;
    this.error = undefined;
    this.#retry.succeed();
  }
}

/**
 * An earlier process may have died between storing and applying settings. A boot applies everything
 * that is stored, and a spec is only confirmed after a refresh with its settings.
 */
function wasApplied({ spec, status, generation }: AgentShadow, bootID: string): boolean {
  const { versionLock, ignoreWaves, message } = status?.hostSettings ?? {};
  if (status === undefined || (versionLock === undefined && ignoreWaves === undefined)) return true;
  const isIdle = spec.state === 'Idle' || spec.state === 'ErrorReset';
  const isConfirmed = isIdle && status.observedGeneration === generation && message === undefined;
  return isConfirmed || status.bootID !== bootID;
}
