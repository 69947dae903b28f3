/**
 * Compares the host's settings with those of the spec, and derives what the status may claim.
 *
 * A setting is changed in this order: record the value and what it replaces, set it, refresh with
 * it, confirm the spec. The record outlives the process, so the host's own value can be restored
 * after a crash at any instant. A record covers one change, so a value that is no longer requested
 * is restored first, also when another one is requested. Any other value on the host is a user's:
 * it is the one to restore after the next change.
 */
import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import type { AgentStatus, HostSettingsStatus, ReplacedSetting } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { shorten } from '@brupop/shared/runtime/errors';
import type { UpdaterSettings, UpdateStatus } from '../host/host.ts';
import { LIMITS, MAX_MESSAGE, SETTINGS_TRIES } from '../limits.ts';
import type { Observation, UpdateView } from '../state/observe.ts';
import type { TrackerView } from '../state/tracker.ts';

export interface Facts {
  readonly seen: Observation;
  readonly tracker: TrackerView;
  readonly shadow: AgentShadow;
  readonly running: string;
  readonly update: UpdateView;
  readonly status: UpdateStatus | undefined;
  readonly live: UpdaterSettings | undefined;
}

type SettingRecords = Omit<HostSettingsStatus, 'message'>;

export interface SettingsPlan {
  /** What must be on record before anything is set. */
  readonly records: SettingRecords;
  /** What differs on the host. */
  readonly changes: Partial<UpdaterSettings>;
  /** All on record with its target: stored again when it may not have been applied. */
  readonly recorded: Partial<UpdaterSettings>;
  /** What stays on record when all this is in force and the host has refreshed with it. */
  readonly kept: SettingRecords;
}

export type SettingsView =
  /** Neither requested nor recorded. */
  | { readonly state: 'unmanaged' }
  /** In force, and the host's offer was found with them. */
  | { readonly state: 'settled'; readonly plan: SettingsPlan }
  /** Not in force, or unknown; `givenUp`: the spec is confirmed without them. */
  | { readonly state: 'unsettled'; readonly plan: SettingsPlan | undefined; readonly givenUp: boolean };

export function viewSettings(facts: Facts): SettingsView {
  const { shadow, live, tracker, seen } = facts;
  const plan = live === undefined ? undefined : planSettings(shadow, live);
  if (plan !== undefined && isSettled(facts, plan)) return { state: 'settled', plan };
  const { tries, since } = tracker.settings;
  const isLate = !isConfirmed(facts) && seen.nowMs - since > LIMITS.settings;
  return { state: 'unsettled', plan, givenUp: tries >= SETTINGS_TRIES || isLate };
}

function isSettled(facts: Facts, plan: SettingsPlan): boolean {
  const { settings } = facts.tracker;
  const isStored = isEmpty(plan.changes) && sameRecords(facts.shadow.status?.hostSettings, plan.records);
  const isApplied = settings.applied || isEmpty(plan.recorded);
  return isStored && isApplied && settings.refreshed && isOfferKnown(facts);
}

/** An offer from before an unconfirmed spec may be due to earlier settings. */
function isOfferKnown(facts: Facts): boolean {
  const { status, running, live } = facts;
  const offered = status === undefined ? undefined : offeredVersion(status, running);
  if (offered === undefined) return isConfirmed(facts);
  const lock = live?.versionLock ?? 'latest';
  return lock === 'latest' || sameVersion(offered, running) || sameVersion(offered, lock);
}

export function isConfirmed({ shadow: { status, generation } }: Facts): boolean {
  return status?.observedGeneration === generation && status.hostSettings?.message === undefined;
}

type Claims = Pick<AgentStatus, 'observedGeneration' | 'target_version' | 'hostSettings'>;

/**
 * In Idle the controller starts an update toward `target_version` as soon as the spec is confirmed,
 * so it is confirmed only when the offer belongs to its settings; until then the reported one stays.
 */
export function claimsOf(facts: Facts, view: SettingsView): Claims {
  const { shadow, running, status } = facts;
  const { status: known, generation } = shadow;
  const offered = { observedGeneration: generation, target_version: targetVersion(running, status, known) };
  if (shadow.spec.state !== 'Idle' && shadow.spec.state !== 'ErrorReset')
    return { ...offered, ...recordOf(known?.hostSettings) };
  if (view.state === 'unmanaged') return offered;
  if (view.state === 'settled') return { ...offered, ...recordOf(view.plan.kept) };
  if (!view.givenUp) {
    const target_version = targetVersion(running, undefined, known);
    return { observedGeneration: confirmedBefore(shadow), target_version, ...recordOf(known?.hostSettings) };
  }
  const { message: _message, ...records } = known?.hostSettings ?? {};
  const hostSettings = { ...records, message: notInForce(facts) };
  return { observedGeneration: generation, target_version: running, hostSettings };
}

/** A generation from the future was written by another actor. */
export function confirmedBefore({ status, generation }: AgentShadow): number {
  const observed = status?.observedGeneration ?? 0;
  return observed <= generation ? observed : generation - 1;
}

function recordOf(hostSettings: HostSettingsStatus | undefined): Pick<AgentStatus, 'hostSettings'> {
  return hostSettings === undefined || isEmpty(hostSettings) ? {} : { hostSettings };
}

function notInForce({ shadow, tracker: { settings } }: Facts): string {
  const { versionLock, ignoreWaves } = shadow.spec.hostSettings ?? {};
  const wanted = describeSettings(bothOf(versionLock ?? undefined, ignoreWaves ?? undefined));
  const what = wanted === '' ? "the host's own settings" : wanted;
  const why = settings.error ?? `no refresh has succeeded for ${LIMITS.settings / 60_000} min`;
  return shorten(`${what}: not in force: ${why}`, MAX_MESSAGE);
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

export function describeSettings({ versionLock, ignoreWaves }: Partial<UpdaterSettings>): string {
  const lock = versionLock === undefined ? [] : [`version-lock ${versionLock}`];
  const waves = ignoreWaves === undefined ? [] : [`ignore-waves ${ignoreWaves}`];
  return [...lock, ...waves].join(', ');
}

export function isEmpty(one: object): boolean {
  return Object.keys(one).length === 0;
}

interface Step<T extends string | boolean> {
  readonly record?: ReplacedSetting<T> | undefined;
  readonly kept?: ReplacedSetting<T> | undefined;
  readonly value: T;
}

export function planSettings({ spec, status }: AgentShadow, live: UpdaterSettings): SettingsPlan {
  const wanted = spec.hostSettings ?? {};
  const records = status?.hostSettings ?? {};
  const lock = stepOf(wanted.versionLock, records.versionLock, live.versionLock, sameVersion);
  const waves = stepOf(wanted.ignoreWaves, records.ignoreWaves, live.ignoreWaves, Object.is);
  return {
    records: bothOf(lock.record, waves.record),
    changes: bothOf(
      sameVersion(lock.value, live.versionLock) ? undefined : lock.value,
      waves.value === live.ignoreWaves ? undefined : waves.value,
    ),
    recorded: bothOf(lock.record && lock.value, waves.record && waves.value),
    kept: bothOf(lock.kept, waves.kept),
  };
}

function stepOf<T extends string | boolean>(
  wanted: T | null | undefined,
  record: ReplacedSetting<T> | undefined,
  live: T,
  same: (a: T, b: T) => boolean,
): Step<T> {
  const asked = isRecorded(record, wanted, same) ? record : undefined;
  const isReplaced = isRecorded(record, live, same) && !same(record.value, record.before);
  if (asked === undefined && isReplaced) return { record, value: record.before };
  if (wanted == null || same(wanted, live)) return { record, kept: asked, value: live };
  const written = asked !== undefined && same(asked.before, live) ? asked : { value: wanted, before: live };
  return { record: written, kept: written, value: wanted };
}

function isRecorded<T extends string | boolean>(
  record: ReplacedSetting<T> | undefined,
  value: T | null | undefined,
  same: (a: T, b: T) => boolean,
): record is ReplacedSetting<T> {
  return record !== undefined && value != null && same(record.value, value);
}

function bothOf<L, W>(versionLock: L | undefined, ignoreWaves: W | undefined): { versionLock?: L; ignoreWaves?: W } {
  return {
    ...(versionLock === undefined ? {} : { versionLock }),
    ...(ignoreWaves === undefined ? {} : { ignoreWaves }),
  };
}

export function sameRecords(a: SettingRecords | undefined, b: SettingRecords): boolean {
  return (['versionLock', 'ignoreWaves'] as const).every(
    (name) => a?.[name]?.value === b[name]?.value && a?.[name]?.before === b[name]?.before,
  );
}
