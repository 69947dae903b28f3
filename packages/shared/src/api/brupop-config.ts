import type { Condition, KubernetesObject, LabelSelector } from './meta.ts';

/** What a pause does to the nodes that are updating. */
export const PAUSE_MODES = ['Finish', 'Interrupt'] as const;
export type PauseMode = (typeof PAUSE_MODES)[number];

/** Weekdays, as windows name them. */
export const DAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'] as const;
export type Day = (typeof DAYS)[number];

/** Which node goes first. */
export const ORDERS = ['Name', 'Random', 'OldestBoot'] as const;
export type Order = (typeof ORDERS)[number];

/** Written by people only. */
export interface BrupopConfigSpec {
  /** True: no node begins an update. */
  readonly paused?: boolean;
  /** Finish (default): updates under way go on. Interrupt: those whose host was not yet asked to reboot are undone. */
  readonly pauseMode?: PauseMode;
  /** Shown wherever the pause is the reason for waiting. */
  readonly pauseReason?: string;
  /** When nodes may begin updates. */
  readonly maintenance?: {
    /** IANA time zone of the schedules. */
    readonly timeZone?: string;
    readonly windows?: readonly {
      /** Five cron fields. */
      readonly schedule: string;
      /** Hours and minutes, such as `4h` or `1h30m`, as every duration here. */
      readonly duration: string;
      readonly days?: readonly Day[];
    }[];
    readonly blackouts?: readonly {
      /** RFC 3339, as the next. */
      readonly from: string;
      readonly to: string;
      readonly reason?: string;
    }[];
    /** How long an update is taken to last while none was measured. */
    readonly updateEstimate?: string;
    /** How much longer than expected an update may take before its window closes. */
    readonly margin?: string;
  };
  /** How many nodes may be away at once. */
  readonly concurrency?: {
    /** Nodes that may be updating at once: a number, or a percentage of the managed nodes, rounded down but at least 1. */
    readonly maxUpdating?: number | string;
    /** The same, with the nodes that are unavailable for other reasons. */
    readonly maxUnavailable?: number | string;
    /** The same within one zone. */
    readonly maxPerZone?: number;
    /** Zones in which nodes may be updating at once. */
    readonly maxZones?: number;
  };
  /** Which versions nodes go to. */
  readonly versions?: {
    /** The one version that all nodes are to run. */
    readonly pin?: string;
    /** How long a version must have been on offer in this cluster. */
    readonly minimumAge?: string;
    readonly ignoreWaves?: boolean;
    /** Versions that no node is updated to. */
    readonly deny?: readonly string[];
  };
  /** How nodes are emptied. */
  readonly drain?: {
    readonly timeoutSeconds?: number;
    readonly onTimeout?: TimeoutAction;
    readonly emptyDirPods?: PodPolicy;
    readonly unmanagedPods?: PodPolicy;
    readonly maxGracePeriodSeconds?: number;
    readonly volumeDetachTimeoutSeconds?: number;
    readonly replacementTimeoutSeconds?: number;
    readonly taintWaitingNodes?: boolean;
  };
  /** How nodes leave external load balancers. */
  readonly loadBalancer?: {
    /** Between the label and the first eviction; 0: no label. */
    readonly exclusionSeconds?: number;
  };
  /** How long the steps of an update may take. */
  readonly timeouts?: {
    readonly stageSeconds?: number;
    readonly rebootSeconds?: number;
    readonly monitorSeconds?: number;
  };
  /** When a node that failed is tried again. */
  readonly retry?: {
    readonly backoffSeconds?: number;
    readonly maxBackoffSeconds?: number;
    /** How often a node is tried with one version. */
    readonly attempts?: number;
  };
  /** Restricts the managed nodes, beyond their label. */
  readonly nodeSelector?: LabelSelector;
  readonly order?: Order;
}

/** The configuration that nodes are updated by. */
export interface InForce {
  /** Of the spec that it comes from. */
  readonly generation: number;
  /** With every default filled in. Of another release it may have fields that this one does not know. */
  readonly spec: Readonly<Record<string, unknown>>;
}

/** A version that managed nodes run or are offered. */
export interface VersionStatus {
  readonly version: string;
  readonly running: number;
  readonly offered: number;
  /** RFC 3339 */
  readonly firstOfferedTime: string;
}

/** A node that waits for its turn. Times are RFC 3339. */
export interface PlannedNode {
  readonly node: string;
  readonly version?: string;
  readonly reason: string;
  readonly expectedTime?: string;
}

/** Written by the controller only. */
export interface BrupopConfigStatus {
  readonly observedGeneration?: number;
  readonly conditions?: readonly Condition[];
  readonly nodes?: {
    readonly managed: number;
    readonly upToDate: number;
    readonly updating: number;
    readonly waiting: number;
    readonly failed: number;
  };
  readonly versions?: readonly VersionStatus[];
  /** Times are RFC 3339. */
  readonly window?: {
    readonly nextOpenTime?: string;
    readonly nextCloseTime?: string;
  };
  readonly updateEstimateSeconds?: number;
  /** RFC 3339 */
  readonly expectedCompletionTime?: string;
  /** The nodes that update next, in their order. */
  readonly plan?: readonly PlannedNode[];
  readonly inForce?: InForce;
}

export interface BrupopConfig extends KubernetesObject {
  readonly spec: BrupopConfigSpec;
  readonly status?: BrupopConfigStatus;
}

/** Cuts a BrupopConfig of the API. What is in its spec is judged by those who use it; no spec is an empty one. */
export function readBrupopConfig(raw: unknown): BrupopConfig {
  const { metadata, spec, status } = raw as Omit<BrupopConfig, 'spec'> & { readonly spec?: BrupopConfigSpec | null };
  const { name, uid, resourceVersion, generation = 0 } = metadata;
  return {
    metadata: { name, uid, resourceVersion, generation },
    spec: spec ?? {},
    ...(status !== undefined && { status }),
  };
}

/**
 * Reads fields such as `drain.onTimeout` of a BrupopConfig's spec as unknown, since a CustomResourceDefinition of another release may have let
 * other types in. Remembers the first mistake.
 */
export class SpecReader {
  problem: string | undefined;
  readonly #spec: unknown;

  constructor(spec: unknown) {
    this.#spec = spec;
  }

  wholeNumber(field: string, { min, max }: { readonly min: number; readonly max: number }): number | undefined {
    const value = this.valueOf(field);
    if (value === undefined) return undefined;
    if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
    return this.wrong(field, `a whole number from ${min} to ${max}`, value);
  }

  /** The first of `words` when none is given. */
  oneOf<T extends string>(field: string, words: readonly [T, ...(readonly T[])]): T {
    const value = this.valueOf(field);
    const found = words.find((word) => word === value);
    if (value !== undefined && found === undefined) this.wrong(field, words.join(' or '), value);
    return found ?? words[0];
  }

  flag(field: string): boolean {
    const value = this.valueOf(field);
    if (value !== undefined && typeof value !== 'boolean') this.wrong(field, 'true or false', value);
    return value === true;
  }

  /** Undefined when it is not given, or empty. */
  text(field: string): string | undefined {
    const value = this.valueOf(field);
    if (value === undefined || value === '') return undefined;
    return typeof value === 'string' ? value : this.wrong(field, 'a text', value);
  }

  /** The fields of a list, such as `versions.deny.0`; none when it is not given. */
  items(field: string): readonly string[] {
    const value = this.valueOf(field);
    if (value === undefined) return [];
    if (Array.isArray(value)) return value.map((_, i) => `${field}.${i}`);
    return this.wrong(field, 'a list', value) ?? [];
  }

  /** What is given, or undefined; null counts as not given. */
  valueOf(field: string): unknown {
    let value: unknown = this.#spec;
    for (const part of field.split('.')) {
      value = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[part] : undefined;
    }
    return value ?? undefined;
  }

  /** Notes a mistake, unless there was one before. */
  wrong(field: string, expected: string, found: unknown): undefined {
    const place = field.replaceAll(/\.(\d+)/gu, '[$1]');
    this.problem ??= `spec.${place}: expected ${expected}, found ${JSON.stringify(found)}`;
    return undefined;
  }
}

export const POD_POLICIES = ['Evict', 'Block'] as const;
export type PodPolicy = (typeof POD_POLICIES)[number];
export const TIMEOUT_ACTIONS = ['Abort', 'Force'] as const;
export type TimeoutAction = (typeof TIMEOUT_ACTIONS)[number];

/** How nodes are drained, with every default filled in. */
export interface DrainSettings {
  /** From the first pass to the end of the drain, milliseconds. */
  readonly timeoutMs: number;
  readonly onTimeout: TimeoutAction;
  readonly emptyDirPods: PodPolicy;
  readonly unmanagedPods: PodPolicy;
  /** The most that a pod gets to end; undefined: what it asks for. */
  readonly maxGracePeriodSeconds: number | undefined;
  /** How long the volumes of one pod may take to leave the node, milliseconds. */
  readonly volumeDetachTimeoutMs: number;
  /** How long the next pod with volumes waits for the pod that takes the place of the one before, milliseconds; 0: it does not. */
  readonly replacementTimeoutMs: number;
  /** Nodes that wait for their update get a taint that keeps pods away where others have room. */
  readonly taintWaitingNodes: boolean;
  /** How long load balancers get to take a node out, milliseconds; 0: nodes stay in them. */
  readonly exclusionMs: number;
}

/** A number of seconds that people may set. `docs/configuration.md` and the schema of the resource are checked against these. */
export const SECONDS = {
  'drain.timeoutSeconds': { min: 60, max: 86_400, fallback: 1_800 },
  'drain.volumeDetachTimeoutSeconds': { min: 0, max: 3_600, fallback: 120 },
  'drain.replacementTimeoutSeconds': { min: 0, max: 3_600, fallback: 120 },
  'loadBalancer.exclusionSeconds': { min: 0, max: 3_600, fallback: 0 },
} as const;
/** The same without a default. */
export const MAX_GRACE = { min: 1, max: 86_400 } as const;

export interface ReadDrainSettings {
  /** What is wrong is taken as not given. */
  readonly settings: DrainSettings;
  /** What is wrong, with the field, what was expected and what was found. */
  readonly problem: string | undefined;
}

/** Reads `drain` and `loadBalancer` of a BrupopConfig's spec; undefined: there is none. The schema refuses most mistakes; what slips through is named in `problem`. */
export function readDrainSettings(spec: unknown): ReadDrainSettings {
  const read = new SpecReader(spec);
  const milliseconds = (field: keyof typeof SECONDS): number =>
    (read.wholeNumber(field, SECONDS[field]) ?? SECONDS[field].fallback) * 1000;
  const settings: DrainSettings = {
    timeoutMs: milliseconds('drain.timeoutSeconds'),
    onTimeout: read.oneOf('drain.onTimeout', TIMEOUT_ACTIONS),
    emptyDirPods: read.oneOf('drain.emptyDirPods', POD_POLICIES),
    unmanagedPods: read.oneOf('drain.unmanagedPods', POD_POLICIES),
    maxGracePeriodSeconds: read.wholeNumber('drain.maxGracePeriodSeconds', MAX_GRACE),
    volumeDetachTimeoutMs: milliseconds('drain.volumeDetachTimeoutSeconds'),
    replacementTimeoutMs: milliseconds('drain.replacementTimeoutSeconds'),
    taintWaitingNodes: read.flag('drain.taintWaitingNodes'),
    exclusionMs: milliseconds('loadBalancer.exclusionSeconds'),
  };
  return { settings, problem: read.problem };
}

/** What holds without a BrupopConfig. */
export const DRAIN_DEFAULTS: DrainSettings = readDrainSettings(undefined).settings;

/**
 * What holds for every field of a BrupopConfig that is left out, in this release. A field that is not here has no default: it limits nothing.
 * A change here changes no cluster by itself: see {@link inForceOf}.
 */
export const DEFAULT_SPEC = {
  paused: false,
  pauseMode: 'Finish',
  maintenance: { timeZone: 'UTC', windows: [], blackouts: [], updateEstimate: '30m', margin: '10m' },
  concurrency: { maxUpdating: 1 },
  versions: { minimumAge: '0m', ignoreWaves: false, deny: [] },
  drain: {
    timeoutSeconds: SECONDS['drain.timeoutSeconds'].fallback,
    onTimeout: 'Abort',
    emptyDirPods: 'Evict',
    unmanagedPods: 'Evict',
    volumeDetachTimeoutSeconds: SECONDS['drain.volumeDetachTimeoutSeconds'].fallback,
    replacementTimeoutSeconds: SECONDS['drain.replacementTimeoutSeconds'].fallback,
    taintWaitingNodes: false,
  },
  loadBalancer: { exclusionSeconds: SECONDS['loadBalancer.exclusionSeconds'].fallback },
  timeouts: { stageSeconds: 2_700, rebootSeconds: 900, monitorSeconds: 1_800 },
  retry: { backoffSeconds: 300, maxBackoffSeconds: 86_400, attempts: 10 },
  order: 'Name',
} as const satisfies BrupopConfigSpec;

type Fields = Readonly<Record<string, unknown>>;

/** `spec` with every default filled in where it says nothing; null counts as nothing. Lists are taken as they are. */
export function withDefaults(spec: unknown): Fields {
  return merged(DEFAULT_SPEC, isFields(spec) ? spec : {});
}

function merged(defaults: Fields, given: Fields): Fields {
  const said = Object.entries(given).filter(([, value]) => value != null);
  const nested = said.map(([name, value]): [string, unknown] => {
    const fallback = defaults[name];
    return [name, isFields(fallback) && isFields(value) ? merged(fallback, value) : value];
  });
  return { ...defaults, ...Object.fromEntries(nested) };
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * The configuration that is in force as long as nobody finds fault with it. What the spec says counts; for what it leaves out, what is on record
 * for this very generation, else the defaults. So a release with other defaults, or with one where there was none, changes nothing until the spec is
 * changed: a field that is on no record limits nothing.
 */
export function inForceOf({ metadata: { generation = 0 }, spec, status }: BrupopConfig): InForce {
  const known = status?.inForce;
  const isKnown = known !== undefined && known.generation === generation && isFields(known.spec);
  return { generation, spec: isKnown ? merged(known.spec, isFields(spec) ? spec : {}) : withDefaults(spec) };
}
