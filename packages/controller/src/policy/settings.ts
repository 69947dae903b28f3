/** The settings that a group asks of its hosts, by their leaves, and what is wrong with them. */
import type { NodeGroupRules } from '@brupop/shared/api/node-group';
import { NODE_GROUP_KIND } from '@brupop/shared/api/names';
import { is } from '@brupop/shared/api/schema';
import { isSecret, type SecretKeyRef } from '@brupop/shared/api/secret-settings';
import {
  leavesOf,
  MAX_LEAVES,
  MAX_SETTINGS,
  MAX_VALUE,
  settingKey,
  UPDATER_SETTINGS,
} from '@brupop/shared/api/settings';
import type { Setting } from '@brupop/shared/api/shadow';
import type { Rendering } from './rendered.ts';

/** Returns what stands for the value of a setting in a Secret. Throws an Error that says what is wrong with the Secret. */
export type SecretHashOf = (setting: string, ref: SecretKeyRef) => string;

/** Throws as `hashOf`. */
export function settingsOf(
  group: string,
  { settings, secrets = {} }: Pick<Rendering, 'settings' | 'secrets'>,
  { settingsConflicts }: Pick<NodeGroupRules, 'settingsConflicts'>,
  hashOf: SecretHashOf,
): Setting[] {
  const by = { owner: `${NODE_GROUP_KIND}/${group}`, ...(settingsConflicts === 'Force' && { force: true }) };
  return [
    ...Object.entries(settings).map(([key, value]) => ({ key, value, ...by })),
    ...Object.entries(secrets).map(([key, ref]) => ({ key, value: hashOf(key, ref), secretKeyRef: ref, ...by })),
  ];
}

type Rules = Pick<NodeGroupRules, 'settings' | 'secretSettings'>;

/** Returns the first mistake, or undefined. What the variant of a host does not know is refused by its agent. */
export function problemOfSettings({ settings, secretSettings }: Rules): string | undefined {
  const leaves = [...leavesOf(settings)];
  // Those of spec.versions are added.
  const most = MAX_LEAVES - UPDATER_SETTINGS.length - secretSettings.length;
  return problemOfKeys(leaves.map(([key]) => key)) ?? problemOfLength(leaves, most);
}

function problemOfKeys(keys: readonly string[]): string | undefined {
  const badKey = keys.find((key) => !is(settingKey, key));
  if (badKey !== undefined)
    return `spec.settings: expected names of letters, digits, dots, slashes, dashes and underscores, found ${String(badKey)}`;
  const reserved = keys.find((key) => UPDATER_SETTINGS.includes(key));
  if (reserved !== undefined) return `spec.settings: expected ${reserved} to be set by spec.versions, found it here`;
  const secret = keys.find((key) => isSecret(key));
  if (secret !== undefined)
    return `spec.settings: expected ${secret}, which holds a secret, in spec.secretSettings, found it here`;
  return undefined;
}

function problemOfLength(leaves: readonly (readonly [string, string])[], most: number): string | undefined {
  const [long] = leaves.find(([, value]) => value.length > MAX_VALUE) ?? [];
  if (long !== undefined) return `spec.settings: expected at most ${MAX_VALUE} characters, found more in ${long}`;
  const length = leaves.reduce((sum, [, value]) => sum + value.length, 0);
  if (leaves.length > most || length > MAX_SETTINGS) {
    const found = `${leaves.length} with ${length} characters`;
    return `spec.settings: expected at most ${most} settings with ${MAX_SETTINGS} characters together, found ${found}`;
  }
  return undefined;
}
