/** The settings that a group asks of its hosts, by their leaves, and what is wrong with them. */
import type { NodeGroupRules } from '@brupop/shared/api/node-group';
import { NODE_GROUP_KIND } from '@brupop/shared/api/names';
import { is } from '@brupop/shared/api/schema';
import {
  isSecret,
  leavesOf,
  MAX_LEAVES,
  MAX_SETTINGS,
  MAX_VALUE,
  overlaps,
  settingKey,
  UPDATER_SETTINGS,
} from '@brupop/shared/api/settings';
import type { Setting } from '@brupop/shared/api/shadow';
import type { Rendering } from './rendered.ts';

/** None with a mistake in one. What the variant of a host does not know is refused by its agent. */
export function requestedSettings(
  group: string,
  rules: Pick<NodeGroupRules, 'settings' | 'settingsConflicts'>,
  { settings }: Pick<Rendering, 'settings'>,
): { readonly own: readonly Setting[]; readonly problem?: string } {
  const leaves = [...leavesOf(rules.settings)];
  const problem = problemOfKeys(leaves.map(([key]) => key)) ?? problemOfLength(leaves);
  if (problem !== undefined) return { own: [], problem };
  const by = { owner: `${NODE_GROUP_KIND}/${group}`, ...(rules.settingsConflicts === 'Force' && { force: true }) };
  return { own: Object.entries(settings).map(([key, value]) => ({ key, value, ...by })) };
}

function problemOfKeys(keys: readonly string[]): string | undefined {
  const badKey = keys.find((key) => !is(settingKey, key));
  if (badKey !== undefined)
    return `spec.settings: expected names of letters, digits, dots, slashes, dashes and underscores, found ${String(badKey)}`;
  const reserved = keys.find((key) => UPDATER_SETTINGS.some((one) => overlaps(key, one.slice('settings.'.length))));
  if (reserved !== undefined) return `spec.settings: expected ${reserved} to be set by spec.versions, found it here`;
  const secret = keys.find((key) => isSecret(key));
  if (secret !== undefined)
    return `spec.settings: expected settings without secrets, since their values can be read here, found ${secret}: remove it here, replace the secret, and let a bootstrap container set it`;
  return undefined;
}

/** Those of spec.versions are added. */
const MOST = MAX_LEAVES - UPDATER_SETTINGS.length;

function problemOfLength(leaves: readonly (readonly [string, string])[]): string | undefined {
  const [long] = leaves.find(([, value]) => value.length > MAX_VALUE) ?? [];
  if (long !== undefined) return `spec.settings: expected at most ${MAX_VALUE} characters, found more in ${long}`;
  const length = leaves.reduce((sum, [, value]) => sum + value.length, 0);
  if (leaves.length > MOST || length > MAX_SETTINGS) {
    const found = `${leaves.length} with ${length} characters`;
    return `spec.settings: expected at most ${MOST} settings with ${MAX_SETTINGS} characters together, found ${found}`;
  }
  return undefined;
}
