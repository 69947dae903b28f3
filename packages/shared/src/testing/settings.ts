/** The settings of a host's updater, as tests write them. */
import { IGNORE_WAVES, leavesOf, VERSION_LOCK } from '../api/settings.ts';
import type { Allowed, SettingRecord, SettingsSpec } from '../api/shadow.ts';

export interface UpdaterSettings {
  readonly versionLock: string;
  readonly ignoreWaves: boolean;
}

/** What is requested of them; null counts as not requested. */
export type Pin = { readonly [K in keyof UpdaterSettings]?: UpdaterSettings[K] | null };

export const NEW_HOST: UpdaterSettings = { versionLock: 'latest', ignoreWaves: false };

const KEYS = { versionLock: VERSION_LOCK, ignoreWaves: IGNORE_WAVES } as const;

export function updaterLeaves(settings: Pin): Map<string, string> {
  const names = (['versionLock', 'ignoreWaves'] as const).filter((name) => settings[name] != null);
  return new Map(names.map((name) => [KEYS[name], JSON.stringify(settings[name])]));
}

export function updaterSettings(leaves: ReadonlyMap<string, string>): UpdaterSettings {
  const [lock, waves] = [leaves.get(VERSION_LOCK), leaves.get(IGNORE_WAVES)];
  return {
    versionLock: lock === undefined ? NEW_HOST.versionLock : (JSON.parse(lock) as string),
    ignoreWaves: waves === 'true',
  };
}

/** The spec for a pin of the configuration. */
export function pinned(pin: Pin | null): SettingsSpec | null {
  if (pin === null) return null;
  const leaves = [...updaterLeaves(pin)].map(([key, value]) => ({ key, value, owner: 'BrupopConfig', force: true }));
  return leaves.length === 0 ? null : { leaves, allow: 'None' };
}

export const GROUP = 'BottlerocketNodeGroup/web';

/** The spec for settings that a group has, nested as the host has them. */
export function grouped(nested: object, allow: Allowed = 'Live', force = false): SettingsSpec {
  const by = { owner: GROUP, ...(force && { force }) };
  return { leaves: [...leavesOf(nested)].map(([key, value]) => ({ key, value, ...by })), allow };
}

/** The record of a change from `before` to `pin`. */
export function pinRecords(pin: Pin, before: Pin = NEW_HOST): SettingRecord[] {
  const former = updaterLeaves(before);
  return [...updaterLeaves(pin)].map(([key, value]) => {
    const known = former.get(key);
    return { key, value, ...(known !== undefined && { before: known }), owner: 'BrupopConfig' };
  });
}
