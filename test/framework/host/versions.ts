/**
 * What the host's update program offers and chooses: semantic versions, waves and the version lock.
 * Pure functions.
 */

/**
 * A published version; `waves` maps the first seed of a wave to the RFC 3339 time at which that
 * wave starts.
 */
export interface PublishedVersion {
  version: string;
  waves?: Record<number, string>;
}

/** The host's settings about updates, as its update program last read them. */
export interface UpdateSettings {
  versionLock: string;
  ignoreWaves: boolean;
  /** 0..2047: the host's position in the waves. */
  seed: number;
}

const VERSION = /^v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$/;
const MAX_SEED = 2048;

/** Whether the text is a full semantic version, with or without a leading `v`. */
export function isVersion(text: string): boolean {
  return VERSION.test(text);
}

function comparePreRelease(a: string | undefined, b: string | undefined): number {
  if (a === b) return 0;
  if (a === undefined) return 1;
  if (b === undefined) return -1;
  return a < b ? -1 : 1;
}

/**
 * Negative, zero or positive as `a` is older than, the same as or newer than `b`. Throws on what is
 * no version.
 */
function compareVersions(a: string, b: string): number {
  const left = VERSION.exec(a);
  const right = VERSION.exec(b);
  if (left === null || right === null) throw new Error(`not a semantic version: "${left === null ? a : b}"`);
  for (const part of [1, 2, 3]) {
    const difference = Number(left[part]) - Number(right[part]);
    if (difference !== 0) return difference;
  }
  return comparePreRelease(left[4], right[4]);
}

/**
 * Whether a host with this seed may take a version with these waves at `now` (milliseconds since
 * the epoch).
 */
function waveReady(waves: Record<number, string> | undefined, seed: number, now: number): boolean {
  const starts = Object.entries(waves ?? {})
    .map(([key, time]) => ({ key: Number(key), time: Date.parse(time) }))
    .toSorted((a, b) => a.key - b.key);
  if (starts.length === 0 || seed === 0) return true;
  const start = starts.findLast((wave) => wave.key < seed);
  const end = starts.find((wave) => wave.key >= seed);
  if (start === undefined) return end === undefined || now >= end.time;
  if (end === undefined) return now >= start.time;
  const share = seed / Math.min(end.key - start.key, MAX_SEED);
  return now >= Math.min(end.time, start.time + (end.time - start.time) * share);
}

/**
 * The versions a refresh lists: wave-ready and not above the published maximum, newest first, older
 * ones included.
 */
export function offeredVersions(
  repository: readonly PublishedVersion[],
  maxVersion: string | undefined,
  settings: UpdateSettings,
  now: number,
): string[] {
  return repository
    .filter(({ version }) => maxVersion === undefined || compareVersions(version, maxVersion) <= 0)
    .filter(({ waves }) => settings.ignoreWaves || waveReady(waves, settings.seed, now))
    .map(({ version }) => version)
    .toSorted((a, b) => compareVersions(b, a));
}

/**
 * The version chosen from those offered. `latest` takes the newest above the running one, or the
 * newest at all when the running one is above the published maximum; a lock takes exactly that
 * version, older ones too, never the running one.
 */
export function chooseVersion(
  offered: readonly string[],
  lock: string,
  running: string,
  maxVersion: string | undefined,
): string | undefined {
  if (lock === 'latest') {
    const aboveMaximum = maxVersion !== undefined && compareVersions(running, maxVersion) > 0;
    return offered.find((version) => aboveMaximum || compareVersions(version, running) > 0);
  }
  if (compareVersions(lock, running) === 0) return undefined;
  return offered.find((version) => compareVersions(version, lock) === 0);
}
