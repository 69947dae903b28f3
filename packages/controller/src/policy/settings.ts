/** The settings that a group asks of its hosts, by their leaves, and what is wrong with them. */
import type { NodeGroupRules } from '@brupop/shared/api/node-group';
import { NODE_GROUP_KIND } from '@brupop/shared/api/names';
import { is } from '@brupop/shared/api/schema';
import {
  leavesOf,
  MAX_LEAVES,
  MAX_SETTINGS,
  MAX_VALUE,
  settingKey,
  UPDATER_SETTINGS,
} from '@brupop/shared/api/settings';
import type { Setting } from '@brupop/shared/api/shadow';

/** @param rendered - the values by their keys */
export function settingsOf(
  group: string,
  rendered: Readonly<Record<string, string>>,
  { settingsConflicts }: Pick<NodeGroupRules, 'settingsConflicts'>,
): Setting[] {
  const owner = `${NODE_GROUP_KIND}/${group}`;
  const force = settingsConflicts === 'Force';
  return Object.entries(rendered).map(([key, value]) => ({ key, value, owner, ...(force && { force }) }));
}

/** Returns the first mistake, or undefined. What the variant of a host does not know is refused by its agent. */
export function problemOfSettings(settings: NodeGroupRules['settings']): string | undefined {
  const leaves = [...leavesOf(settings)];
  const [badKey] = leaves.find(([key]) => !is(settingKey, key)) ?? [];
  if (badKey !== undefined)
    return `spec.settings: expected names of letters, digits, dots, slashes, dashes and underscores, found ${badKey}`;
  const [reserved] = leaves.find(([key]) => UPDATER_SETTINGS.includes(key)) ?? [];
  if (reserved !== undefined) return `spec.settings: expected ${reserved} to be set by spec.versions, found it here`;
  const [long] = leaves.find(([, value]) => value.length > MAX_VALUE) ?? [];
  if (long !== undefined) return `spec.settings: expected at most ${MAX_VALUE} characters, found more in ${long}`;
  const length = leaves.reduce((sum, [, value]) => sum + value.length, 0);
  // Those of spec.versions are added.
  const most = MAX_LEAVES - UPDATER_SETTINGS.length;
  if (leaves.length > most || length > MAX_SETTINGS) {
    const found = `${leaves.length} with ${length} characters`;
    return `spec.settings: expected at most ${most} settings with ${MAX_SETTINGS} characters together, found ${found}`;
  }
  return undefined;
}
