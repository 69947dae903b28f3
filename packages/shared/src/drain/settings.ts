import { SpecReader } from '../spec-reader.ts';

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

/** A forced drain goes on for so long at most beyond its limit, milliseconds; the last hour of it only for pods that need that to end. */
export const FORCE_LIMIT_MS = 70 * 60_000;

/** What holds without a BrupopConfig. */
export const DRAIN_DEFAULTS: DrainSettings = readDrainSettings(undefined).settings;
