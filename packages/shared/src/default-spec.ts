import type { BrupopConfig, BrupopConfigSpec, InForce } from './brupop-config.ts';
import { SECONDS } from './drain/settings.ts';

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
