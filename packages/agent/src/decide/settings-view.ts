import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import type { AgentStatus, HostSettingsStatus } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { shorten } from '@brupop/shared/runtime/text';
import type { UpdaterSettings, UpdateStatus } from '../host/host.ts';
import { LIMITS, SETTINGS_TRIES } from '../limits.ts';
import type { Observation, UpdateView } from '../state/observe.ts';
import type { TrackerView } from '../state/tracker.ts';
import {
  concernsSettings,
  planSettings,
  sameRecords,
  type SettingRecords,
  type SettingsPlan,
} from './host-settings-diff.ts';
import { offeredVersion, targetVersion } from './status.ts';

/** An observation with the shadow known and the host answering. */
export interface Facts {
  readonly seen: Observation;
  readonly tracker: TrackerView;
  readonly shadow: AgentShadow;
  readonly running: string;
  readonly update: UpdateView;
  /** `update`'s status, when there is one. */
  readonly status: UpdateStatus | undefined;
  /** The host's settings, when they were read. */
  readonly live: UpdaterSettings | undefined;
}

/** How far the host's settings are. */
export type SettingsView =
  /** They are none of our business. */
  | { readonly state: 'unmanaged' }
  /** In force, and what the host offers was found with them. */
  | { readonly state: 'settled'; readonly plan: SettingsPlan }
  /** Not yet, or not known; `givenUp`: for so long that the spec is answered without them. */
  | { readonly state: 'unsettled'; readonly plan: SettingsPlan | undefined; readonly givenUp: boolean };

/** Judges how far the host's settings are. */
export function viewSettings(facts: Facts): SettingsView {
  const { shadow, live, tracker, seen } = facts;
  if (!concernsSettings(shadow)) return { state: 'unmanaged' };
  const plan = live === undefined ? undefined : planSettings(shadow, live);
  if (plan !== undefined && isSettled(facts, plan)) return { state: 'settled', plan };
  const { tries, since } = tracker.settings;
  const late = !isConfirmed(facts) && seen.nowMs - since > LIMITS.settings;
  return { state: 'unsettled', plan, givenUp: tries >= SETTINGS_TRIES || late };
}

function isSettled(facts: Facts, plan: SettingsPlan): boolean {
  const { settings } = facts.tracker;
  const isStored = isEmpty(plan.changes) && sameRecords(facts.shadow.status?.hostSettings, plan.records);
  const isApplied = settings.applied || isEmpty(plan.recorded);
  return isStored && isApplied && settings.refreshed && isOfferKnown(facts);
}

/** What was known before an unconfirmed spec may have been on offer because of settings that are not wanted any more. */
function isOfferKnown(facts: Facts): boolean {
  const { status, running, live } = facts;
  const offered = status === undefined ? undefined : offeredVersion(status, running);
  if (offered === undefined) return isConfirmed(facts);
  const lock = live?.versionLock ?? 'latest';
  return lock === 'latest' || sameVersion(offered, running) || sameVersion(offered, lock);
}

/** True when the spec was answered with its settings in force. */
export function isConfirmed({ shadow: { status, generation } }: Facts): boolean {
  return status?.observedGeneration === generation && status.hostSettings?.message === undefined;
}

type Claims = Pick<AgentStatus, 'observedGeneration' | 'target_version' | 'hostSettings'>;

/**
 * What the status may say. In Idle the controller starts an update toward `target_version` as soon as the spec is answered, so it is not answered before
 * the offer is one of the settings that it asks for, and until then the offer that is reported stays what it was.
 */
export function claimsOf(facts: Facts, view: SettingsView): Claims {
  const { shadow, running, status } = facts;
  const { status: known, generation } = shadow;
  const offered = { observedGeneration: generation, target_version: targetVersion(running, status, known) };
  if (shadow.spec.state !== 'Idle' && shadow.spec.state !== 'ErrorReset')
    return { ...offered, ...onRecord(known?.hostSettings) };
  if (view.state === 'unmanaged') return offered;
  if (view.state === 'settled') return { ...offered, ...onRecord(view.plan.kept) };
  if (!view.givenUp) {
    const target_version = targetVersion(running, undefined, known);
    return { observedGeneration: answeredBefore(facts.shadow), target_version, ...onRecord(known?.hostSettings) };
  }
  const message = complaint(facts);
  return {
    observedGeneration: generation,
    target_version: running,
    hostSettings: { ...recordsOf(known?.hostSettings), message },
  };
}

/** The generation that the status answers already. One that is still to come was written by a person. */
export function answeredBefore({ status, generation }: AgentShadow): number {
  const observed = status?.observedGeneration ?? 0;
  return observed <= generation ? observed : generation - 1;
}

function onRecord(hostSettings: HostSettingsStatus | undefined): Pick<AgentStatus, 'hostSettings'> {
  return hostSettings === undefined || isEmpty(hostSettings) ? {} : { hostSettings };
}

function recordsOf({ message: _message, ...records }: HostSettingsStatus = {}): SettingRecords {
  return records;
}

function complaint({ shadow, tracker: { settings } }: Facts): string {
  const { versionLock, ignoreWaves } = shadow.spec.hostSettings ?? {};
  const wanted = describeSettings({
    ...(versionLock == null ? {} : { versionLock }),
    ...(ignoreWaves == null ? {} : { ignoreWaves }),
  });
  const what = wanted === '' ? "the host's own settings" : wanted;
  const why = settings.error ?? `no refresh has succeeded for ${LIMITS.settings / 60_000} min`;
  return shorten(`${what}: not in force: ${why}`, 1000);
}

/** Settings in words. */
export function describeSettings({ versionLock, ignoreWaves }: Partial<UpdaterSettings>): string {
  const lock = versionLock === undefined ? [] : [`version-lock ${versionLock}`];
  const waves = ignoreWaves === undefined ? [] : [`ignore-waves ${ignoreWaves}`];
  return [...lock, ...waves].join(', ');
}

export function isEmpty(one: object): boolean {
  return Object.keys(one).length === 0;
}
