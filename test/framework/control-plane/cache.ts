import { createHash } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { isAlive } from './lock.ts';
import {
  helm3Versions,
  type Kubernetes,
  kstatusVersions,
  monitoringVersions,
  type Program,
  releaseVersions,
  versions,
} from './versions.ts';

/** The folder that holds what this project obtains, for these versions on this kind of machine. */
export function usualCacheFolder(kubernetes: Kubernetes): string {
  return cacheFolder('control-plane', { ...versions, kubernetes });
}

/** The folder for Prometheus and Alertmanager. */
export function monitoringCacheFolder(): string {
  return cacheFolder('monitoring', monitoringVersions);
}

/** The folder for Helm 3. */
export function helm3CacheFolder(): string {
  return cacheFolder('helm', helm3Versions);
}

/** The folder for the program of kstatus. */
export function kstatusCacheFolder(): string {
  return cacheFolder('kstatus', kstatusVersions);
}

/** The folder for the registry and the linter of workflows. */
export function releaseCacheFolder(): string {
  return cacheFolder('release', releaseVersions);
}

/** The folder for the programs and the chart of another commit of this project. */
export function commitCacheFolder(commit: string): string {
  return cacheFolder('commit', { commit });
}

function cacheFolder(name: string, of: object): string {
  const base = process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache');
  const key = JSON.stringify([of, process.platform, process.arch]);
  const hash = createHash('sha256').update(key).digest('hex').slice(0, 12);
  return join(base, 'bottlerocket-update-operator', name, hash);
}

/** Where a program is, or will be, in a cache folder. */
export function cachedPath(folder: string, program: Program): string {
  return join(folder, 'bin', program);
}

/** Programs are added to the cache atomically: a file in `bin` is always complete. */
export function isCached(folder: string, program: Program): boolean {
  return existsSync(cachedPath(folder, program));
}

/** A folder of this process's own beside `bin`, on the same file system. */
export function makeWorkFolder(folder: string): string {
  return mkdtempSync(join(folder, `work-${process.pid}-`));
}

/** Removes the temporary folders of processes that have ended. */
export function sweep(folder: string): void {
  for (const name of readdirSync(folder)) {
    const pid = Number(/^work-(\d+)-/.exec(name)?.[1]);
    if (pid > 0 && pid !== process.pid && !isAlive(pid)) rmSync(join(folder, name), { recursive: true, force: true });
  }
}

/**
 * Makes the finished file `path` the cached program: its contents are on the disk before its name
 * is.
 */
export function install(path: string, folder: string, program: Program): void {
  chmodSync(path, 0o755);
  sync(path);
  mkdirSync(join(folder, 'bin'), { recursive: true });
  renameSync(path, cachedPath(folder, program));
  sync(join(folder, 'bin'));
}

function sync(path: string): void {
  const descriptor = openSync(path, 'r');
  fsyncSync(descriptor);
  closeSync(descriptor);
}
