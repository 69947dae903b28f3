import { isVersionText } from '@brupop/shared/api/version';
import { describe } from '@brupop/shared/runtime/text';
import { HostError, type UpdaterSettings } from './host.ts';

/** What is asked for; settings that are not stored are left out of the answer. */
export const SETTINGS_QUERY = 'keys=settings.updates.version-lock,settings.updates.ignore-waves';

/** The settings of a new host. */
export const DEFAULT_SETTINGS: UpdaterSettings = { versionLock: 'latest', ignoreWaves: false };

/** Longest version lock, in characters, as the resource's schema has it. */
const MAX_LOCK = 128;

/** Reads the answer of `GET /settings`. Throws HostError `answer`, which names the field that is not as expected. */
export function parseSettings(text: string): UpdaterSettings {
  const { updates } = objectOf(parse(text), 'body');
  const found = updates === undefined ? {} : objectOf(updates, 'updates');
  const { 'version-lock': lock = DEFAULT_SETTINGS.versionLock, 'ignore-waves': waves = false } = found;
  if (!isLock(lock)) throw unexpected('updates.version-lock', 'a version or latest', lock);
  if (typeof waves !== 'boolean') throw unexpected('updates.ignore-waves', 'true or false', waves);
  return { versionLock: lock, ignoreWaves: waves };
}

/** True for `latest` and for a version, perhaps with a leading `v`, which Bottlerocket takes and gives back as it was written. */
export function isLock(value: unknown): value is string {
  if (typeof value !== 'string' || value.length > MAX_LOCK) return false;
  return value === 'latest' || isVersionText(value.replace(/^v/u, ''));
}

/** The body of `PATCH /settings`. */
export function settingsBody({ versionLock, ignoreWaves }: Partial<UpdaterSettings>): string {
  return JSON.stringify({ updates: { 'version-lock': versionLock, 'ignore-waves': ignoreWaves } });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new HostError('answer', 'GET /settings: expected JSON', { cause: error });
  }
}

function objectOf(value: unknown, field: string): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw unexpected(field, 'an object', value);
}

function unexpected(field: string, expected: string, found: unknown): HostError {
  return new HostError('answer', `GET /settings: ${field}: expected ${expected}, found ${describe(found)}`);
}
