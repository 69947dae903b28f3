/** The settings that a spec or a policy requests: which are of the group, and what stands for them in records. */
import type { NodeRecord } from '@brupop/shared/api/record';
import { hashOf, UPDATER_SETTINGS, VERSION_LOCK } from '@brupop/shared/api/settings';
import type { Allowed, Setting, SettingsSpec } from '@brupop/shared/api/shadow';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import { isAccepted } from './deadlines.ts';
import type { Moment } from './moment.ts';

/** The settings that no `spec.versions` asks for. */
export function ownSettings(settings: readonly Setting[]): readonly Setting[] {
  return settings.filter(({ key }) => !UPDATER_SETTINGS.includes(key));
}

export function updaterSettings(settings: readonly Setting[]): readonly Setting[] {
  return settings.filter(({ key }) => UPDATER_SETTINGS.includes(key));
}

/** Most nodes have none, and each plan asks for all nodes. */
const HASH_OF_NONE = hashOf([]);

export function hashOfSettings(settings: readonly Setting[]): string {
  const own = ownSettings(settings);
  return own.length === 0 ? HASH_OF_NONE : hashOf(own.map(({ key, value }) => [key, value]));
}

export function sameSettings(a: readonly Setting[], b: readonly Setting[]): boolean {
  const texts = new Set(b.map(textOf));
  return a.length === b.length && a.every((one) => texts.has(textOf(one)));
}

function textOf({ key, value, owner, force = false }: Setting): string {
  return JSON.stringify([key, value, owner, force]);
}

export function requestedOf({ spec }: Pick<ShadowView, 'spec'>): readonly Setting[] {
  return spec.settings?.leaves ?? [];
}

/** The spec for settings; null: none are requested, and none wait to be restored. */
export function specOf(settings: readonly Setting[], allow: Allowed): SettingsSpec | null {
  return settings.length === 0 && allow === 'None' ? null : { leaves: settings, allow };
}

/** The version that the host is locked to by its spec. */
export function lockOf(shadow: Pick<ShadowView, 'spec'>): string | undefined {
  const value = requestedOf(shadow).find(({ key }) => key === VERSION_LOCK)?.value;
  return value === undefined ? undefined : String(JSON.parse(value));
}

/** Returns when settings with this hash failed on the node; undefined: they did not, or a user has accepted it. */
export function failedAt({ record }: ShadowView, hash: string, policy: UpdatePolicy, now: Moment): number | undefined {
  return recordedAt(record.settingsFailed, hash, policy, now);
}

/** Returns the time of a record of these settings; undefined also when a user has accepted it. */
export function recordedAt(
  record: NodeRecord['settingsFailed'],
  hash: string,
  policy: UpdatePolicy,
  now: Moment,
): number | undefined {
  if (record?.hash !== hash) return undefined;
  const at = parseTime(record.at);
  return at === undefined || isAccepted(at, policy, now) ? undefined : at;
}
