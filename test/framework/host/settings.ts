import { isVersion, type UpdateSettings } from './versions.ts';

/** A stored value: everything but an object, which is stored by its leaves. */
export type SettingValue = string | number | boolean | null | readonly unknown[];

/** A request the settings store rejects. */
export interface SettingsError {
  status: number;
  text: string;
  contentType?: string;
}

interface Nested {
  [key: string]: Nested | SettingValue;
}

const FIELDS = (
  'motd kubernetes updates host-containers bootstrap-commands bootstrap-containers ntp network kernel boot aws metrics ' +
  'pki container-registry oci-defaults oci-hooks cloudformation dns container-runtime autoscaling'
).split(' ');

/** Only the model of the variants with NVIDIA drivers has these. */
const NVIDIA_FIELDS = ['kubelet-device-plugins', 'nvidia-container-runtime'];
/** The names by which settings are stored that have another one in a request. */
const ALIASES = new Map([
  ['kernel-parameters', 'kernel'],
  ['init-parameters', 'init'],
]);
/** Settings whose values are text, as far as tests need it. */
const TEXTS = /^settings\.(?:motd|kernel\.sysctl\..+|kubernetes\.node-labels\..+)$/;
const TYPES = new Map([
  ['number', 'integer'],
  ['boolean', 'boolean'],
]);

/** Objects whose fields are no options in the models of the settings SDK: a part of one is refused. */
const WHOLE: readonly (readonly [object: RegExp, fields: readonly string[]])[] = [
  [/^settings\.oci-defaults\.resource-limits\.[^.]+(?=\.)/, ['hard-limit', 'soft-limit']],
  [/^settings\.kubernetes\.credential-providers\.[^.]+(?=\.)/, ['enabled', 'image-patterns']],
  [/^settings\.kubernetes\.memory-manager-reserved-memory\.[^.]+(?=\.)/, ['enabled']],
];
/** The field of `HugepagesStatic` that has a default. */
const HUGEPAGES = 'settings.kernel.hugepages.static.';
const ESSENTIAL = `${HUGEPAGES}essential`;

const DEFAULTS: Record<string, SettingValue> = {
  'settings.motd': 'Welcome to Bottlerocket!',
  'settings.updates.ignore-waves': false,
  'settings.updates.metadata-base-url': 'http://localhost/metadata/',
  'settings.updates.seed': 512,
  'settings.updates.targets-base-url': 'http://localhost/targets/',
  'settings.updates.version-lock': 'latest',
};

/** Splits a dotted key into its segments; a quoted segment may hold dots. */
export function splitKey(key: string): string[] {
  return [...key.matchAll(/"([^"]*)"|([^.]+)/g)].map((match) => match[1] ?? match[2] ?? '');
}

export function joinKey(segments: readonly string[]): string {
  return segments.map((segment) => (/^[\w/-]+$/.test(segment) ? segment : `"${segment}"`)).join('.');
}

function isNested(value: Nested | SettingValue | undefined): value is Nested {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function flatten(value: Nested | SettingValue, path: readonly string[], into: Map<string, SettingValue>): void {
  if (isNested(value)) {
    for (const [key, child] of Object.entries(value)) flatten(child, [...path, key], into);
  } else if (value !== null) {
    into.set(joinKey(path), value);
  }
}

/** The settings of a request as they are stored: some have another name in it, and mirrors may be a map. */
function stored(settings: Nested): Nested {
  const { boot, 'container-registry': registry } = settings;
  return {
    ...settings,
    ...(isNested(boot) && { boot: renamed(boot) }),
    ...(isNested(registry) && { 'container-registry': withMirrors(registry) }),
  };
}

function renamed(boot: Nested): Nested {
  return Object.fromEntries(Object.entries(boot).map(([name, value]) => [ALIASES.get(name) ?? name, value]));
}

/** `deserialize_mirrors` of the settings SDK: a map of registries to their endpoints is stored as a list. */
function withMirrors(registry: Nested): Nested {
  const { mirrors } = registry;
  if (!isNested(mirrors)) return registry;
  return { ...registry, mirrors: Object.entries(mirrors).map(([name, endpoint]) => ({ registry: name, endpoint })) };
}

/**
 * Stored keys and values as nested JSON without the outer `settings`, keys in alphabetical order.
 */
export function nest(entries: Iterable<readonly [string, SettingValue]>): Nested {
  const root: Nested = {};
  for (const [key, value] of [...entries].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const segments = splitKey(key).slice(1);
    let node = root;
    for (const segment of segments.slice(0, -1)) {
      const child = node[segment];
      const next: Nested = isNested(child) ? child : {};
      node[segment] = next;
      node = next;
    }
    node[segments.at(-1) ?? ''] = value;
  }
  return root;
}

function jsonError(reason: string, column: number): SettingsError {
  const text = `Json deserialize error: ${reason} at line 1 column ${column}`;
  return { status: 400, text, contentType: 'text/plain; charset=utf-8' };
}

/** The field without which the model cannot be read from these. */
export function missingField(keys: readonly string[]): string | undefined {
  for (const [object, fields] of WHOLE) {
    const paths = new Set(keys.flatMap((key) => object.exec(key)?.[0] ?? []));
    for (const path of paths) {
      const missing = fields.find((field) => !keys.includes(`${path}.${field}`));
      if (missing !== undefined) return `missing field \`${missing}\``;
    }
  }
  return undefined;
}

/** What the model adds when it is read from these. */
export function withDefaults<T extends SettingValue>(leaves: ReadonlyMap<string, T>): Map<string, T | false> {
  const isAdded = [...leaves.keys()].some((key) => key.startsWith(HUGEPAGES)) && !leaves.has(ESSENTIAL);
  return new Map<string, T | false>([...leaves, ...(isAdded ? [[ESSENTIAL, false] as const] : [])]);
}

function unknownField(body: string, settings: Nested, fields: readonly string[]): SettingsError | undefined {
  const unknown = Object.keys(settings).find((key) => !fields.includes(key));
  if (unknown === undefined) return undefined;
  const expected = fields.map((field) => `\`${field}\``).join(', ');
  const token = JSON.stringify(unknown);
  return jsonError(`unknown field \`${unknown}\`, expected one of ${expected}`, body.indexOf(token) + token.length);
}

function wrongType(body: string, leaves: ReadonlyMap<string, SettingValue>): SettingsError | undefined {
  for (const [key, value] of leaves) {
    if (key.startsWith('settings.kubernetes.node-taints.') && Array.isArray(value) && value.length === 0) {
      return jsonError('empty taint value', body.indexOf('}', body.indexOf('[]')) + 1);
    }
    if (TEXTS.test(key) && typeof value !== 'string') {
      const token = JSON.stringify(value);
      const found = Array.isArray(value) ? 'sequence' : `${TYPES.get(typeof value)} \`${token}\``;
      const column = body.indexOf(token, body.indexOf(splitKey(key).at(-1) ?? '')) + token.length;
      return jsonError(`invalid type: ${found}, expected a string`, column);
    }
  }
  return undefined;
}

function wrongLock(body: string, settings: Nested): SettingsError | undefined {
  const lock = isNested(settings['updates']) ? settings['updates']['version-lock'] : undefined;
  if (typeof lock !== 'string' || lock === 'latest' || isVersion(lock)) return undefined;
  const column = body.indexOf('}', body.indexOf(lock)) + 1;
  return jsonError(`Unable to deserialize into FriendlyVersion: Invalid version string '${lock}'`, column);
}

/** The host's settings: a store of live values and pending transactions. */
export class Settings {
  readonly live = new Map<string, SettingValue>(Object.entries(DEFAULTS));
  readonly #pending = new Map<string, Map<string, SettingValue>>();
  readonly #fields: readonly string[];

  constructor(variant = '') {
    this.#fields = variant.endsWith('-nvidia') ? [...FIELDS, ...NVIDIA_FIELDS] : FIELDS;
  }

  /** Names of the transactions with pending settings. */
  get transactions(): string[] {
    return [...this.#pending.keys()];
  }

  /** The pending settings of a transaction. */
  pending(transaction: string): ReadonlyMap<string, SettingValue> {
    return this.#pending.get(transaction) ?? new Map();
  }

  /** `PATCH /settings`: merges the body, leaf by leaf, into the transaction. */
  patch(transaction: string, body: string): SettingsError | undefined {
    let settings: Nested;
    try {
      settings = JSON.parse(body) as Nested;
    } catch {
      return jsonError('EOF while parsing an object', body.length);
    }
    const written = new Map<string, SettingValue>();
    flatten(stored(settings), ['settings'], written);
    const leaves = withDefaults(written);
    const missing = missingField([...leaves.keys()]);
    const error =
      unknownField(body, settings, this.#fields) ??
      wrongType(body, leaves) ??
      wrongLock(body, settings) ??
      (missing === undefined ? undefined : jsonError(missing, body.length));
    if (error === undefined && leaves.size > 0) {
      this.#pending.set(transaction, new Map([...this.pending(transaction), ...leaves]));
    }
    return error;
  }

  /** `POST /tx/commit`: the committed keys; undefined when nothing was pending. */
  commit(transaction: string): string[] | undefined {
    const pending = this.#pending.get(transaction);
    if (pending === undefined) return undefined;
    this.#pending.delete(transaction);
    for (const [key, value] of pending) this.live.set(key, value);
    return [...pending.keys()];
  }

  /** `DELETE /tx`: the keys dropped. */
  drop(transaction: string): string[] {
    const keys = [...this.pending(transaction).keys()];
    this.#pending.delete(transaction);
    return keys;
  }

  /** The live settings as the update programs understand them. */
  updates(): UpdateSettings {
    const value = (key: string): SettingValue | undefined => this.live.get(`settings.updates.${key}`);
    const lock = value('version-lock');
    return {
      versionLock: typeof lock === 'string' ? lock : 'latest',
      ignoreWaves: value('ignore-waves') === true,
      seed: Number(value('seed') ?? 0),
    };
  }

  /** Pending transactions do not outlive a boot. */
  boot(): void {
    this.#pending.clear();
  }
}
