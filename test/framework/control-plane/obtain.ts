import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startWatchdog, type Watchdog } from '../watchdog.ts';
import { build } from './build.ts';
import { cachedPath, install, isCached, makeWorkFolder, sweep, usualCacheFolder } from './cache.ts';
import { download, type DownloadLimits, Unreachable, usualLimits } from './download.ts';
import { withLock } from './lock.ts';
import { duration, type Say, saying, sayOnStderr } from './progress.ts';
import {
  type Assets,
  type Kubernetes,
  moduleOf,
  modules,
  packagesOf,
  type Program,
  programs,
  type Project,
  projectOf,
  publishedAt,
  publishedProgram,
  versions,
} from './versions.ts';

export interface ObtainOptions {
  /** A folder with programs to use as they are; default `KUBEBUILDER_ASSETS`. */
  assetsFolder?: string | undefined;
  cacheFolder?: string;
  /**
   * Where to download from; an empty address means not to. Default: BRUPOP_DOWNLOAD_<PROJECT>, else
   * the project's own site.
   */
  bases?: Partial<Record<Project, string>>;
  limits?: DownloadLimits;
  /** The Go command; default `go`. */
  go?: string;
  /** The version of the programs of Kubernetes; default the one of `versions`. */
  kubernetes?: Kubernetes;
  /** Which programs; default all. */
  wanted?: readonly Program[];
  say?: Say;
}

interface Job {
  cacheFolder: string;
  kubernetes: Kubernetes;
  bases: Record<Project, string>;
  limits: DownloadLimits;
  go: string;
  say: Say;
}

/**
 * Returns the paths of the programs: those in the assets folder, else those in the project's cache;
 * what is missing there is downloaded, or built with Go where that fails, and kept in the cache.
 * Processes that need the same programs at the same time share the work. Throws when a program
 * cannot be obtained, with what was tried.
 */
export async function obtainPrograms(options: ObtainOptions = {}): Promise<Assets> {
  const assetsFolder = options.assetsFolder ?? process.env['KUBEBUILDER_ASSETS'];
  const job = jobOf(options);
  const paths = new Map<Program, string>();
  for (const program of options.wanted ?? programs) {
    const given = assetsFolder ? join(assetsFolder, program) : '';
    paths.set(program, given !== '' && existsSync(given) ? given : cachedPath(job.cacheFolder, program));
  }
  const needed = [...paths].filter(([, path]) => !existsSync(path)).map(([program]) => program);
  if (needed.length > 0) await fillCache(needed, job);
  return Object.fromEntries(paths) as Assets;
}

function jobOf(options: ObtainOptions): Job {
  const { kubernetes = versions.kubernetes } = options;
  const bases = Object.fromEntries(
    Object.entries(publishedAt).map(([project, usual]) => [
      project,
      options.bases?.[project as Project] ?? process.env[`BRUPOP_DOWNLOAD_${project.toUpperCase()}`] ?? usual,
    ]),
  ) as Record<Project, string>;
  return {
    cacheFolder: options.cacheFolder ?? usualCacheFolder(kubernetes),
    kubernetes,
    bases,
    limits: options.limits ?? usualLimits,
    go: options.go ?? 'go',
    say: options.say ?? sayOnStderr,
  };
}

async function fillCache(needed: readonly Program[], job: Job): Promise<void> {
  mkdirSync(job.cacheFolder, { recursive: true });
  let saidAt = -Infinity;
  const onWait = (owner: number, waited: number): void => {
    if (waited - saidAt < 15_000) return;
    saidAt = waited;
    job.say(`waiting for process ${owner}, which obtains the same programs (${duration(waited)})`);
  };
  await withLock(join(job.cacheFolder, 'lock'), { onWait }, async () => {
    sweep(job.cacheFolder);
    const missing = needed.filter((program) => !isCached(job.cacheFolder, program));
    if (missing.length > 0) await obtainMissing(missing, job);
  });
}

async function obtainMissing(missing: readonly Program[], job: Job): Promise<void> {
  const work = makeWorkFolder(job.cacheFolder);
  const watchdog = startWatchdog(work);
  const start = Date.now();
  try {
    const left = await downloadAll(missing, work, job);
    await buildAll(left, work, watchdog, job);
    job.say(`has all its programs now (${duration(Date.now() - start)}), in ${join(job.cacheFolder, 'bin')}`);
  } finally {
    await watchdog.release();
  }
}

async function buildAll(left: readonly Program[], folder: string, watchdog: Watchdog, job: Job): Promise<void> {
  const { go, kubernetes } = job;
  for (const module of modules) {
    const some = left.filter((program) => moduleOf(program, kubernetes) === module);
    if (some.length === 0) continue;
    const start = Date.now();
    let compiled = 0;
    const onPackage = (): void => void (compiled += 1);
    const line = (): string => buildLine(some, compiled, packagesOf[module], Date.now() - start);
    await saying(job.say, line, async () => await build(module, some, { folder, go, kubernetes, watchdog, onPackage }));
    for (const program of some) install(join(folder, program), job.cacheFolder, program);
  }
}

/** @param all - how many packages there are; 0: not known */
export function buildLine(some: readonly Program[], compiled: number, all: number, ms: number): string {
  const ofAll = all === 0 ? '' : ` of at most ${all}`;
  return `building ${some.join(', ')}: ${compiled} packages${ofAll}, ${duration(ms)} so far`;
}

/**
 * Downloads what can be downloaded and returns the programs that could not. A server out of reach
 * is asked only once.
 */
async function downloadAll(missing: readonly Program[], work: string, job: Job): Promise<Program[]> {
  const unreachable = new Set<string>();
  const left: Program[] = [];
  for (const [index, program] of missing.entries()) {
    const base = job.bases[projectOf(program)];
    if (base === '' || unreachable.has(new URL(base).host)) {
      left.push(program);
      continue;
    }
    try {
      await downloadOne(program, base, `${index + 1} of ${missing.length}`, work, job);
    } catch (error) {
      if (error instanceof Unreachable) unreachable.add(new URL(base).host);
      job.say(`${(error as Error).message}; ${program} will be built`);
      left.push(program);
    }
  }
  return left;
}

async function downloadOne(program: Program, base: string, place: string, work: string, job: Job): Promise<void> {
  const architecture = process.arch === 'x64' ? 'amd64' : process.arch;
  const published = publishedProgram(program, process.platform, architecture, job.kubernetes);
  const start = Date.now();
  let bytes = 0;
  const line = (): string =>
    `downloading ${program} (${place}), ${Math.round(bytes / 2 ** 20)} MiB, ${duration(Date.now() - start)} so far`;
  const contents = await saying(
    job.say,
    line,
    async () =>
      await download(base, published, job.limits, (now) => {
        bytes = now;
      }),
  );
  const path = join(work, program);
  writeFileSync(path, contents);
  install(path, job.cacheFolder, program);
}
