/**
 * Settings of hosts that hold secrets. A group names the Secret with the value of each; the chart mounts the
 * Secrets that it allows into controllers and API servers:
 *
 *     controller    Secret -> hash     writes the hash to the shadow, and rolls out when it changes
 *     API server    Secret -> value    answers the agent of a node whose shadow requests this hash
 *     agent         value  -> host     reads and reports hashes, and has the values in memory only
 *
 * Invariant: in shadows, reports, conditions, Events and logs a hash stands in the place of the value. It
 * hides a value that cannot be guessed.
 */
import { createHash } from 'node:crypto';
import * as s from './schema.ts';
import { canonical, isAtOrBelow } from './settings.ts';

/** The keys below `settings`, and what the key of the Secret has. */
const SECRET_SETTINGS: Readonly<Record<string, 'text' | 'list'>> = {
  'aws.config': 'text',
  'aws.credentials': 'text',
  'bootstrap-containers.*.user-data': 'text',
  'container-registry.credentials': 'list',
  'host-containers.*.user-data': 'text',
  'kubernetes.bootstrap-token': 'text',
};

/** Longest value, in characters of JSON. */
export const MAX_SECRET_VALUE = 16_384;

/** What a user may name, with the pattern for the API server. */
export const SECRET_SETTING = `one of ${Object.keys(SECRET_SETTINGS).join(', ').replaceAll('*', 'NAME')}, where NAME is that of a container`;
export const SECRET_SETTING_PATTERN =
  '^(aws[.](config|credentials)|(bootstrap|host)-containers[.][A-Za-z0-9_-]{1,63}[.]user-data|' +
  'container-registry[.]credentials|kubernetes[.]bootstrap-token)$';

/** True for a key, such as `settings.aws.credentials`, whose value is never shown. */
export function isSecret(key: string): boolean {
  return kindOf(key) !== undefined;
}

function kindOf(key: string): 'text' | 'list' | undefined {
  return Object.entries(SECRET_SETTINGS).find(([pattern]) => isAtOrBelow(key, pattern))?.[1];
}

const HASH = /^"sha256:[0-9a-f]{32}"$/u;

export function isSecretHash(value: string): boolean {
  return HASH.test(value);
}

/** Stands for a value as JSON: half of its SHA-256, which differs by the key. */
export function secretHash(key: string, value: string): string {
  return `"sha256:${createHash('sha256').update(`${key}=${value}`).digest('hex').slice(0, 32)}"`;
}

/** Returns the value as JSON. Throws an Error that does not repeat the text. */
export function secretValue(key: string, text: string): string {
  const value = kindOf(key) === 'list' ? listIn(text) : canonical(textIn(text));
  if (value.length <= MAX_SECRET_VALUE) return value;
  throw new Error(`expected at most ${MAX_SECRET_VALUE} characters of JSON, found ${value.length}`);
}

function textIn(text: string): string {
  if (text.trim() !== '') return text.trim();
  throw new Error('expected a text, found none');
}

function listIn(text: string): string {
  const expected = 'expected a list as JSON, such as [{"registry": "…", "auth": "…"}], found ';
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The message of the parser quotes the text.
    throw new Error(`${expected}no JSON`);
  }
  if (Array.isArray(value)) return canonical(value);
  throw new Error(`${expected}another value`);
}

const SECRET = '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?([.][a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$';
const KEY = '^[.]?[A-Za-z0-9_-][A-Za-z0-9._-]*$';
const MAX_NAME = 253;

export const secretKeyRef = s.object({
  name: s.described(
    s.textThat((value) => new RegExp(SECRET, 'u').test(value), MAX_NAME, 'the name of a Secret', SECRET),
    'The name of the Secret, in the namespace of the operator.',
  ),
  key: s.described(
    s.textThat((value) => new RegExp(KEY, 'u').test(value), MAX_NAME, 'a key of a Secret', KEY),
    'The key of the Secret with the value.',
  ),
});
export type SecretKeyRef = s.Infer<typeof secretKeyRef>;
