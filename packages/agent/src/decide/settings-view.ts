/**
 * Derives from the settings of the host what the status may claim. `settings/plan.ts` says what is set.
 *
 * A change is made in this order: find its class, record the values and what they replace (`inFlight`),
 * set them, wait until they are applied, confirm the spec (`lastApplied`). If the settings decide what
 * the host offers, the host also refreshes before that. While a change is in flight, equal values on
 * the host prove nothing: they may be stored without being applied.
 */
import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import { withoutEmpty } from '@brupop/shared/api/schema';
import {
  hashOf,
  IGNORE_WAVES,
  MAX_LEAVES,
  UPDATER_SETTINGS,
  VERSION_LOCK,
  type Leaves,
} from '@brupop/shared/api/settings';
import type { AgentStatus, SettingRecord, SettingsStatus } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { listOf, shorten } from '@brupop/shared/runtime/errors';
import type { UpdateStatus } from '../host/host.ts';
import { LIMITS, MAX_MESSAGE, SETTINGS_TRIES } from '../limits.ts';
import { planSettings, type SettingsPlan } from '../settings/plan.ts';
import { lockOf, type Observation, type UpdateView } from '../state/observe.ts';
import { NOT_IN_FORCE } from '../state/settings-tracker.ts';
import type { TrackerView } from '../state/tracker.ts';

export interface Facts {
  readonly seen: Observation;
  readonly tracker: TrackerView;
  readonly shadow: AgentShadow;
  readonly running: string;
  readonly update: UpdateView;
  readonly status: UpdateStatus | undefined;
  readonly live: Leaves | undefined;
  /** The version lock, if the spec and the records are not about it, and it was read. */
  readonly lock: string | undefined;
}

export type SettingsView =
  /** Neither requested nor recorded. */
  | { readonly state: 'unmanaged'; readonly plan?: undefined }
  /** In force, and the host's offer was found with them. */
  | { readonly state: 'settled'; readonly plan: SettingsPlan }
  /** Not in force, or unknown; `givenUp`: the spec is confirmed without them. */
  | { readonly state: 'unsettled'; readonly plan: SettingsPlan | undefined; readonly givenUp: boolean };

export function viewSettings(facts: Facts): SettingsView {
  const { shadow, live, tracker, seen } = facts;
  const { applied, classes } = tracker.settings;
  const plan =
    live === undefined ? undefined : planSettings(shadow, { live, classes, bootID: seen.bootID, isApplied: applied });
  if (plan !== undefined && !tracker.settings.mustRevert && isSettled(facts, plan)) return { state: 'settled', plan };
  const { tries, since } = tracker.settings;
  const isLate = !isConfirmed(facts) && seen.nowMs - since > LIMITS.settings;
  return { state: 'unsettled', plan, givenUp: tries >= SETTINGS_TRIES || isLate || tracker.settings.isReverted };
}

function isSettled(facts: Facts, plan: SettingsPlan): boolean {
  const { settings } = facts.tracker;
  const { records } = facts.shadow.status?.settings ?? {};
  const isStored = plan.changes.size === 0 && plan.unclassified.size === 0 && sameRecords(records, plan.records);
  const isApplied = settings.isApplied(facts.seen.nowMs) || plan.recorded.size === 0;
  return isStored && isApplied && (!decidesOffer(facts.shadow) || (settings.refreshed && isOfferKnown(facts)));
}

/** True when the settings are about what the host offers. */
export function decidesOffer({ spec, status }: AgentShadow): boolean {
  const both = [...(spec.settings?.leaves ?? []), ...(status?.settings?.records ?? [])];
  return both.some(({ key }) => UPDATER_SETTINGS.includes(key));
}

/** True when the host has all that is requested of its updater, whatever it has of other settings. */
export function hasUpdaterSettings(plan: SettingsPlan | undefined): boolean {
  return plan !== undefined && !UPDATER_SETTINGS.some((key) => plan.changes.has(key));
}

/** An offer from before an unconfirmed spec may be due to earlier settings. */
function isOfferKnown(facts: Facts): boolean {
  const { status, running, live } = facts;
  const offered = status === undefined ? undefined : offeredVersion(status, running);
  if (offered === undefined) return isConfirmed(facts);
  const lock = lockOf(live) ?? 'latest';
  return lock === 'latest' || sameVersion(offered, running) || sameVersion(offered, lock);
}

export function isConfirmed({ shadow: { status, generation } }: Facts): boolean {
  return status?.observedGeneration === generation && status.settings?.message === undefined;
}

type Claims = Pick<AgentStatus, 'observedGeneration' | 'target_version' | 'settings'>;

/**
 * In Idle the controller starts an update toward `target_version` as soon as the spec is confirmed,
 * so it is confirmed only when the offer belongs to its settings; until then the reported one stays.
 */
export function claimsOf(facts: Facts, view: SettingsView): Claims {
  const { shadow, running, status } = facts;
  const { status: known, generation } = shadow;
  const target_version = targetVersion(running, status, known);
  const offered = { observedGeneration: generation, target_version, ...recordOf(known?.settings) };
  if (shadow.spec.state !== 'Idle' && shadow.spec.state !== 'ErrorReset') return offered;
  if (view.state === 'unmanaged')
    return { observedGeneration: generation, target_version, ...recordOf(hostLockOf(facts)) };
  if (view.state === 'settled') {
    const settings = { ...inForce(facts, view.plan), ...hostLockOf(facts) };
    return { observedGeneration: generation, target_version, ...recordOf(settings) };
  }
  if (view.givenUp) return withoutSettings(facts, target_version, view.plan);
  return {
    ...offered,
    observedGeneration: confirmedBefore(shadow),
    target_version: targetVersion(running, undefined, known),
  };
}

/** A lock that no pin explains; the one that is reported stays while it cannot be read. */
function hostLockOf({ shadow: { spec, status }, lock = status?.settings?.hostLock }: Facts): SettingsStatus {
  const isPinned = (spec.settings?.leaves ?? []).some(({ key }) => key === VERSION_LOCK);
  return lock === undefined || lock === 'latest' || isPinned ? {} : { hostLock: lock };
}

function withoutSettings(facts: Facts, offered: string, plan: SettingsPlan | undefined): Claims {
  const { shadow, running } = facts;
  const target_version = isOfferTheirs(facts, plan) || !decidesOffer(shadow) ? offered : running;
  // All that may be set is in force, and only a refresh with it is missing.
  const isDone = plan?.unclassified.size === 0 && (isApplied(facts, plan) || wasInForce(facts, plan));
  const known = isDone ? { ...inForce(facts, plan), ...hostLockOf(facts) } : knownSettings(facts, plan);
  const settings = { ...known, message: notInForce(facts, isDone) };
  return { observedGeneration: shadow.generation, target_version, settings };
}

/** True when what is requested of the updater is in force, and the offer was found with it. */
function isOfferTheirs(facts: Facts, plan: SettingsPlan | undefined): boolean {
  const { settings } = facts.tracker;
  return hasUpdaterSettings(plan) && settings.isApplied(facts.seen.nowMs) && settings.refreshed && isOfferKnown(facts);
}

/** While a retry of the updater's settings takes effect, the others are in force as they were. */
function wasInForce(facts: Facts, plan: SettingsPlan): boolean {
  const { applied, isReverted } = facts.tracker.settings;
  const { lastApplied } = facts.shadow.status?.settings ?? {};
  const isSame = lastApplied !== undefined && lastApplied.hash === inForce(facts, plan).lastApplied?.hash;
  return plan.changes.size === 0 && applied && !isReverted && isSame;
}

/** An offer that contradicts the lock says nothing about other settings. */
function isApplied({ tracker: { settings }, seen }: Facts, plan: SettingsPlan | undefined): boolean {
  return plan?.changes.size === 0 && settings.applied && settings.effectiveFrom <= seen.nowMs && !settings.isReverted;
}

/** Without what has been applied in flight, whatever else cannot be set: a new process would set all of it again. */
function knownSettings(facts: Facts, plan: SettingsPlan | undefined): SettingsStatus {
  const { inFlight, lastApplied: _, ...settings } = facts.shadow.status?.settings ?? {};
  return inFlight === undefined || isApplied(facts, plan) ? settings : { ...settings, inFlight };
}

/** A generation from the future was written by another actor. */
export function confirmedBefore({ status, generation }: AgentShadow): number {
  const observed = status?.observedGeneration ?? 0;
  return observed <= generation ? observed : generation - 1;
}

function recordOf(settings: SettingsStatus | undefined): Pick<AgentStatus, 'settings'> {
  return settings === undefined || Object.keys(settings).length === 0 ? {} : { settings };
}

/** What is claimed when all that may be set is in force. */
function inForce({ shadow, seen }: Facts, plan: SettingsPlan): SettingsStatus {
  const { kept, pending, waitsForBoot, conflicts, cannotUnset } = plan;
  const others = new Set([...[...pending, ...waitsForBoot].map(({ key }) => key), ...conflicts]);
  const set = requested(shadow).filter(([key]) => !others.has(key));
  const { lastApplied, inFlight } = shadow.status?.settings ?? {};
  const hash = hashOf(set);
  // What was in flight may be stored without being applied, until it is set again. What needs a reboot has
  // its boot ID on record since before it was stored, and holds up nothing that others have in flight.
  const isHeld = pending.some((one) => one.class !== 'NeedsReboot' && kept.some(({ key }) => key === one.key));
  const isSame = (inFlight === undefined || isHeld) && lastApplied?.hash === hash;
  const applied = isSame ? lastApplied : { hash, time: rfc3339(seen.wallMs) };
  const isAny = set.length + kept.length > 0;
  const lists = { records: kept, pending: [...pending, ...waitsForBoot].slice(0, MAX_LEAVES), conflicts, cannotUnset };
  return withoutEmpty({ lastApplied: isAny ? applied : undefined, inFlight: isHeld ? inFlight : undefined, ...lists });
}

/** The requested settings with their values. */
export function requested({ spec }: AgentShadow): [key: string, value: string][] {
  return (spec.settings?.leaves ?? []).map(({ key, value }) => [key, value]);
}

/** @param isDone - only those that need a refresh are not in force */
function notInForce({ shadow, tracker: { settings } }: Facts, isDone: boolean): string {
  const left = requested(shadow).filter(([key]) => !isDone || UPDATER_SETTINGS.includes(key));
  const wanted = describeSettings(new Map(left));
  const what = wanted === '' ? "the host's own settings" : wanted;
  const why = settings.error ?? `no refresh has succeeded for ${LIMITS.settings / 60_000} min`;
  return shorten(`${what}${NOT_IN_FORCE}${why}`, MAX_MESSAGE);
}

type Known = Pick<AgentStatus, 'current_version' | 'target_version'>;

/**
 * Returns the version that the host would update to, or the running one. After a failed refresh, or
 * none since the boot, the known one stays while the host runs the same version.
 */
function targetVersion(running: string, update: UpdateStatus | undefined, known: Known | undefined): string {
  const offered = update === undefined ? undefined : offeredVersion(update, running);
  if (offered !== undefined) return offered;
  return known !== undefined && sameVersion(known.current_version, running) ? known.target_version : running;
}

/** Returns the running version when nothing is offered, undefined when the offer is unknown. */
function offeredVersion({ state, chosenVersion, latestCommand: latest }: UpdateStatus, running: string) {
  const chosen = state === 'Idle' ? undefined : chosenVersion;
  if (latest?.type !== 'refresh') return chosen;
  return latest.succeeded ? (chosen ?? running) : undefined;
}

const UPDATER_NAMES: Readonly<Record<string, string>> = {
  [VERSION_LOCK]: 'version-lock',
  [IGNORE_WAVES]: 'ignore-waves',
};
const MAX_NAMED = 5;

/** Names settings; only those of the updater with their values, since others may be long or private. */
export function describeSettings(leaves: Leaves): string {
  const names = [...leaves].map(([key, value]) => {
    const name = UPDATER_NAMES[key];
    return name === undefined ? key : `${name} ${String(JSON.parse(value))}`;
  });
  return listOf(names, MAX_NAMED, ', ');
}

export function sameRecords(a: readonly SettingRecord[] = [], b: readonly SettingRecord[]): boolean {
  return a.length === b.length && a.every((one, i) => textOf(one) === textOf(b[i]));
}

function textOf(record: SettingRecord | undefined): string {
  const { key, value, before, earlier = [], owner, bootID } = record ?? {};
  return JSON.stringify([key, value, before, earlier, owner, bootID]);
}
