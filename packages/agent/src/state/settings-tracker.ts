/**
 * What this process did about the host's settings. Times are monotonic milliseconds.
 *
 *     new spec ─> classified ─> stored and applied ─> effective, after `settingsApply` ─> refreshed
 *
 * Invariants: only a refresh that started at `effectiveFrom` or later makes `refreshed` true, so a
 * new process trusts no offer before its own refresh. A change makes it false. A change that may
 * have failed, and an offer that contradicts the lock, make `applied` false until all recorded
 * settings are stored again; a contradicted lock, or without a grant, only those of the updater, since the others may
 * restart services, and with a grant of Live none that restarts one. Failures count from the spec or the success before.
 * After a change the host must answer with the value that was stored, and the agent must hear from the apiserver again;
 * otherwise the former values are set again, once, and kept until other settings are requested. What is reverted when a group
 * requests nothing any more are values of that group: nobody requests others then, so the host's own values are
 * restored again after a while, once the apiserver is heard from, but only a few times: they may be what cuts it off.
 *
 * The tracker calls it with each observation, change and refresh; decisions only read it.
 */
import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import { hashOf, sameValue, UPDATER_SETTINGS, type Classified, type Leaves } from '@brupop/shared/api/settings';
import { isRebootInProgress } from '../actions.ts';
import { LIMITS, PAUSES, Retry } from '../limits.ts';
import type { Observation, SettingsReading } from './observe.ts';

type Changing = 'observe' | 'begin' | 'classified' | 'changed' | 'revert' | 'refreshSucceeded';
type Failing = 'classifyFailed' | 'changeFailed' | 'refreshFailed';

export type SettingsTrackerView = Readonly<Omit<SettingsTracker, Changing | Failing>>;

/** What follows it in a message is the error. */
export const NOT_IN_FORCE = ': not in force: ';
/** What a message ends with when the former values were set again. */
const REVERTED = ', so the former values were set again';
/** How often the host's own values are restored again, in one process. */
const MAX_RESTORES = 2;

export class SettingsTracker {
  /** False while a setting may be stored on the host but not applied to its updater. */
  applied = true;
  /** A refresh with the latest settings has succeeded for this generation of the spec. */
  refreshed = false;
  /** From when on a refresh uses the latest settings. */
  effectiveFrom = -Infinity;
  /** When settings were last stored. */
  changedAt = -Infinity;
  /** Since when this process has known the current generation of the spec. */
  since = -Infinity;
  /** Consecutive failures. */
  tries = 0;
  error: string | undefined;
  /** The classes of changes of this spec, as the host reported them. */
  classes: ReadonlyMap<string, Classified> = new Map();
  /** The former values of what was changed since the apiserver was last heard from. */
  undo: Leaves = new Map();
  /** The host reports another value than was stored. */
  mustRevert = false;
  isReverted = false;
  /** The host has offered another version than it is locked to. */
  isOfferContradicted = false;
  /** What was stored and has not been read back yet. */
  #stored: Leaves = new Map();
  /** Stands for the requested settings. */
  #requested = '';
  #known = false;
  #isReadable = true;
  readonly #retry: Retry;
  readonly #restores: Retry;
  #restoresLeft = 0;
  #revertedUntil = Infinity;

  constructor(random: () => number) {
    this.#retry = new Retry(PAUSES.settings, random);
    this.#restores = new Retry(PAUSES.restores, random);
  }

  get notBefore(): number {
    return this.isReverted ? this.#revertedUntil : this.#retry.notBefore;
  }

  isApplied(nowMs: number): boolean {
    return this.applied && !this.isOfferContradicted && this.effectiveFrom <= nowMs;
  }

  observe({ shadow, host, bootID, nowMs, specAgeMs }: Observation): void {
    if (shadow !== undefined && !this.#known) this.#resume(shadow, bootID, nowMs);
    this.#known ||= shadow !== undefined;
    this.#hear(nowMs - specAgeMs >= this.effectiveFrom, nowMs);
    if (host.kind === 'answered' && host.settings !== undefined) this.#observeHost(host.settings, nowMs);
  }

  /** @param isHeard - the apiserver was heard from after the latest change */
  #hear(isHeard: boolean, nowMs: number): void {
    if (isHeard && !this.mustRevert) this.undo = new Map();
    if (!this.isReverted) return;
    this.#revertedUntil = isHeard && this.#restoresLeft > 0 ? this.#restores.notBefore : Infinity;
    if (nowMs < this.#revertedUntil) return;
    this.#restoresLeft -= 1;
    this.isReverted = false;
  }

  /** Learns from the status what an earlier process has left. */
  #resume(shadow: AgentShadow, bootID: string, nowMs: number): void {
    this.applied = wasApplied(shadow, bootID);
    const { inFlight, message } = shadow.status?.settings ?? {};
    if (inFlight?.hash !== this.#requested || message?.endsWith(REVERTED) !== true) return;
    this.#afterRevert(nowMs);
    this.#restoresLeft = Math.min(this.#restoresLeft, 1);
    this.error = message.slice(message.indexOf(NOT_IN_FORCE) + NOT_IN_FORCE.length);
  }

  #observeHost(view: SettingsReading, nowMs: number): void {
    this.#isReadable = view.kind !== 'failed';
    if (view.kind === 'failed' && this.notBefore <= nowMs) this.#fail(nowMs, view.message);
    if (view.kind === 'read') this.#readBack(view.settings, nowMs);
  }

  #readBack(live: Leaves, nowMs: number): void {
    const wrong = [...this.#stored].find(([key, value]) => !sameValue(key, live.get(key), value));
    this.#stored = new Map();
    if (wrong === undefined) return;
    const [key] = wrong;
    this.applied = false;
    this.#fail(nowMs, `${key}: the host has accepted the value, but reports another one`);
    if (UPDATER_SETTINGS.includes(key)) return;
    this.#restoresLeft = 0;
    this.mustRevert = this.undo.size > 0;
    if (!this.mustRevert) this.#afterRevert(nowMs);
  }

  /** Starts over for another generation of the spec: only later answers of the host count. */
  begin(nowMs: number, { spec, status }: Pick<AgentShadow, 'spec' | 'status'>): void {
    // Confirmed without what was in flight, such as for want of a grant.
    if (status?.settings?.inFlight === undefined) this.applied = true;
    this.since = nowMs;
    this.refreshed = false;
    this.classes = new Map();
    const leaves = spec.settings?.leaves ?? [];
    const requested = hashOf(leaves.map(({ key, value }) => [key, value]));
    if (requested === this.#requested && (this.mustRevert || this.isReverted)) return;
    this.#requested = requested;
    this.#restoresLeft = leaves.every(({ key }) => UPDATER_SETTINGS.includes(key)) ? MAX_RESTORES : 0;
    this.#restores.succeed();
    this.mustRevert = false;
    this.isReverted = false;
    this.#reset();
  }

  classified(classes: ReadonlyMap<string, Classified>): void {
    this.classes = new Map([...this.classes, ...classes]);
  }

  /**
   * Settings were stored and are being applied.
   * @param undo - the values that the host had before
   */
  changed(nowMs: number, changes: Leaves, undo: Leaves): void {
    this.applied = true;
    this.isOfferContradicted = false;
    this.#stored = changes;
    this.changedAt = nowMs;
    this.#takesEffect(nowMs);
    this.undo = new Map([...undo, ...this.undo]);
  }

  /** The former values were stored, since the change has failed, or cut the agent off. */
  revert(nowMs: number, cutOff: string): void {
    const why = this.mustRevert ? this.error : cutOff;
    this.changed(nowMs, new Map(), new Map());
    this.undo = new Map();
    this.mustRevert = false;
    this.#afterRevert(nowMs);
    this.error = `${why}${REVERTED}`;
  }

  #afterRevert(nowMs: number): void {
    this.isReverted = true;
    this.#restores.fail(nowMs);
    this.#revertedUntil = Infinity;
  }

  /** Nothing was stored. */
  classifyFailed(nowMs: number, message: string): void {
    this.#fail(nowMs, message);
  }

  /** Settings may have been stored, or not. */
  changeFailed(nowMs: number, message: string): void {
    this.applied = false;
    this.#takesEffect(nowMs);
    this.#fail(nowMs, message);
  }

  refreshSucceeded(startedMs: number): void {
    if (startedMs < this.effectiveFrom) return;
    this.refreshed = true;
    if (this.applied && this.#isReadable && !this.isReverted) this.#reset();
  }

  /** @param contradicts - the refresh has offered another version than the host is locked to */
  refreshFailed(nowMs: number, message: string, contradicts: boolean): void {
    if (contradicts) {
      this.isOfferContradicted = true;
      this.refreshed = false;
    }
    this.#fail(nowMs, message);
  }

  #takesEffect(nowMs: number): void {
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
 * An earlier process may have died between storing and applying settings. A boot applies everything that is stored, and
 * a reboot is recorded only after the settings that it brings.
 */
function wasApplied({ status }: AgentShadow, bootID: string): boolean {
  const isKnown = status?.settings?.inFlight === undefined || isRebootInProgress(status.lastOperation);
  return isKnown || status.bootID !== bootID;
}
