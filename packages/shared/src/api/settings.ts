/**
 * Settings of hosts by their leaves. Users write settings nested, as the host API has them; the
 * operator compares, sets and restores them leaf by leaf, because the host merges them so: a leaf is
 * every value but an object, and a list is one value. Its key is that of the host's data store
 * (`settings.kernel.sysctl."vm.max_map_count"`), its value is JSON text.
 */
import { createHash } from 'node:crypto';
import { escapeOf } from '../runtime/errors.ts';
import * as s from './schema.ts';
import { releaseOf } from './version.ts';

/** What a change disrupts, the least first. */
export const SETTING_CLASSES = ['Live', 'RestartsService', 'NeedsReboot', 'Refused'] as const;
export type SettingClass = (typeof SETTING_CLASSES)[number];

/** What a change disrupts, and why. */
export interface Classified {
  readonly class: SettingClass;
  readonly reason: string;
}

/** Settings by their leaves: JSON text by key. */
export type Leaves = ReadonlyMap<string, string>;

export const VERSION_LOCK = 'settings.updates.version-lock';
export const IGNORE_WAVES = 'settings.updates.ignore-waves';
/** The settings that decide what the host offers. They belong to `spec.versions`. */
export const UPDATER_SETTINGS: readonly string[] = [VERSION_LOCK, IGNORE_WAVES];
/** What a new host has for them; of other settings it may have no value. */
export const UPDATER_DEFAULTS: Leaves = new Map([
  [VERSION_LOCK, '"latest"'],
  [IGNORE_WAVES, 'false'],
]);

/** Bounds of one host's settings: all of them and their former values pass through one report. */
export const MAX_LEAVES = 100;
export const MAX_KEY = 255;
export const MAX_VALUE = 2048;
export const MAX_SETTINGS = 8192;

const MAX_DEPTH = 4 * MAX_KEY;

const KEY = /^settings(?:\.(?:[A-Za-z0-9_/-]+|"[A-Za-z0-9_/.-]+"))+$/u;
export const settingKey = s.textThat(
  (value) => KEY.test(value),
  MAX_KEY,
  'the key of a setting, such as settings.motd',
  '^settings([.]([A-Za-z0-9_/-]+|"[A-Za-z0-9_/.-]+"))+$',
);
export const settingValue = s.textThat(
  (value) => isCanonical(value),
  MAX_VALUE,
  'compact JSON of a text, a number, a flag or a list',
);

/** No leaf is an object or null. */
function isCanonical(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return value !== null && !s.isFields(value) && canonical(value) === text;
  } catch {
    return false;
  }
}

/** What the definitions of TypeScript lack of JSON in ECMAScript 2026. */
interface ExactJson {
  parse(text: string, revive: (key: string, value: unknown, context: { readonly source?: string }) => unknown): unknown;
  rawJSON(text: string): unknown;
}
const exactJson = JSON as unknown as ExactJson;

/**
 * Reads JSON of a host. Whole numbers that a number of JavaScript would round become bigints: a limit of
 * `oci-defaults.resource-limits` has 64 bits.
 */
export function parseExact(text: string): unknown {
  return exactJson.parse(text, (_key, value, { source = '' }) => {
    const isRounded = typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/u.test(source);
    return isRounded ? BigInt(source) : value;
  });
}

/** JSON in ASCII without blanks, with the keys of objects sorted: equal values have equal texts, and all are printable. */
export function canonical(value: unknown): string {
  const text = JSON.stringify(value, (_key, one: unknown) => {
    if (typeof one === 'bigint') return exactJson.rawJSON(one.toString());
    return s.isFields(one) ? Object.fromEntries(Object.entries(one).toSorted(([a], [b]) => (a < b ? -1 : 1))) : one;
  });
  return text.replaceAll(/[^ -~]/gu, escapeOf);
}

/** The host takes the first names and answers with the second. */
const ALIASES: readonly (readonly [string, string])[] = [
  ['settings.boot.kernel-parameters.', 'settings.boot.kernel.'],
  ['settings.boot.init-parameters.', 'settings.boot.init.'],
];

/** Returns the leaves of nested settings, without those that are null: the host takes null as not given. */
export function leavesOf(nested: unknown, path = 'settings'): Map<string, string> {
  if (nested == null) return new Map<string, string>();
  // Deeper than any key may be: it is refused by its length.
  if (path.length > MAX_DEPTH) return new Map([[path, '""']]);
  if (!s.isFields(nested)) return new Map([[keyOf(path), canonical(nested)]]);
  return new Map(Object.entries(nested).flatMap(([name, value]) => [...leavesOf(value, `${path}.${quoted(name)}`)]));
}

function keyOf(path: string): string {
  const [written, answered] = ALIASES.find(([start]) => path.startsWith(start)) ?? ['', ''];
  return `${answered}${path.slice(written.length)}`;
}

function quoted(name: string): string {
  return /^[A-Za-z0-9_/-]+$/u.test(name) ? name : `"${name}"`;
}

/** The opposite of {@link leavesOf}. Throws when one leaf lies below another. */
export function nestedOf(leaves: Iterable<readonly [key: string, value: string]>): object {
  const root = empty();
  for (const [key, value] of leaves) {
    const names = namesIn(key);
    const last = names.pop() ?? '';
    const parent = names
      .slice(1)
      .reduce<Fields | undefined>((at, name) => (at === undefined ? at : below(at, name)), root);
    if (parent === undefined || last in parent) throw new Error(`${key}: another setting has a value in its place`);
    parent[last] = parseExact(value);
  }
  return root;
}

function below(parent: Fields, name: string): Fields | undefined {
  const child = (parent[name] ??= empty());
  return s.isFields(child) ? child : undefined;
}

type Fields = Record<string, unknown>;

/** Without a prototype, since a setting may have any name. */
function empty(): Fields {
  return Object.create(null) as Fields;
}

/**
 * True for a key at or below the pattern, and for one above it: the host also takes a list of values for an object, in the
 * order of its fields.
 *
 * @param pattern - keys below `settings`; `*` is one segment
 */
export function overlaps(key: string, pattern: string): boolean {
  const names = namesIn(key);
  const expected = `settings.${pattern}`.split('.').slice(0, names.length);
  return expected.every((name, i) => name === names[i] || name === '*');
}

function namesIn(key: string): string[] {
  return [...key.matchAll(/"([^"]*)"|([^."]+)/gu)].map(([, inQuotes, plain]) => inQuotes ?? plain ?? '');
}

/**
 * Those that the host's models define as secret or free text for a container; `creds` is another name of `credentials`
 * (settings-sdk of bottlerocket-os, container-registry).
 */
const SECRETS = [
  'aws.config',
  'aws.credentials',
  'bootstrap-containers.*.user-data',
  'container-registry.credentials',
  'container-registry.creds',
  'host-containers.*.user-data',
  'kubernetes.bootstrap-token',
  'kubernetes.server-key',
];

/** True for a key that no group may have, such as `settings.aws.credentials`, since shadows show the values of settings. */
export function isSecret(key: string): boolean {
  return SECRETS.some((pattern) => overlaps(key, pattern));
}

/** A version lock may carry a `v`, and comes back as it was written. */
export function sameValue(key: string, a: string | undefined, b: string | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && key === VERSION_LOCK && lockOf(a) === lockOf(b));
}

function lockOf(value: string): string {
  const lock: unknown = JSON.parse(value);
  return typeof lock === 'string' ? JSON.stringify(releaseOf(lock)) : value;
}

/** Stands for the values in records and logs: the first 16 hexadecimal digits of their SHA-256. */
export function hashOf(leaves: Iterable<readonly [key: string, value: string]>): string {
  const sorted = [...leaves].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(sorted)).digest('hex').slice(0, 16);
}
