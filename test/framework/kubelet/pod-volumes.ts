import type { Stats } from 'node:fs';
import { link, mkdir, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { V1Container, V1HostPathVolumeSource, V1Volume } from '@kubernetes/client-node';
import { FileVolume, type FileVolumeOptions } from './file-volume.ts';
import { hostFolder, type PathMap } from './paths.ts';
import { Unsupported, NotYet, type Pod, podName } from './pod.ts';
import { projectionsOf } from './projections.ts';
import { allSettled } from './retry.ts';

export interface PodVolumesOptions extends Omit<FileVolumeOptions, 'projections'> {
  readonly node: { readonly name: string; readonly hostPaths: PathMap };
}

/** The volumes of one pod, each as a folder (or, for a hostPath, whatever the node has there). */
export class PodVolumes {
  readonly #options: PodVolumesOptions;
  readonly #folders = new Map<string, string>();
  readonly #fileVolumes: FileVolume[] = [];

  /** @param options - `dir` is the folder of the pod */
  constructor(options: PodVolumesOptions) {
    this.#options = options;
  }

  /**
   * Resolves when all are there. Throws NotYet when something is missing, Unsupported when it
   * cannot be made.
   */
  async setUp(pod: Pod): Promise<void> {
    await allSettled((pod.spec.volumes ?? []).map(async (volume) => await this.#setUp(pod, volume)));
  }

  /**
   * Paths in the container and what stands for them, for one start of it. A file or socket of the
   * node is pinned as a bind mount pins it: when the node replaces it later, this start of the
   * container still sees the old one. Throws NotYet when it is not there.
   */
  async mounts(pod: Pod, container: V1Container): Promise<PathMap> {
    const pairs = (container.volumeMounts ?? []).map(async ({ mountPath, name }) => {
      const source = this.#folders.get(name);
      if (source === undefined) throw new Unsupported(`${podName(pod)} mounts ${name}, which is no volume of it`);
      return [mountPath, await this.#bound(source, join(container.name, name))] as const;
    });
    return new Map(await Promise.all(pairs));
  }

  /** A folder as it is; anything else as a second name of the same file. */
  async #bound(source: string, name: string): Promise<string> {
    try {
      if ((await stat(source)).isDirectory()) return source;
      const pinned = join(this.#options.dir, '.bound', name);
      await mkdir(dirname(pinned), { recursive: true });
      await rm(pinned, { force: true });
      await link(source, pinned);
      return pinned;
    } catch (error) {
      // The host may go down, and its socket with it, between any two of these.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      throw new NotYet('CreateContainerError', `there is no ${source}`);
    }
  }

  podChanged(pod: Pod): void {
    for (const volume of this.#fileVolumes) volume.refresh(pod);
  }

  /** Stops following the sources. The files stay. */
  async close(): Promise<void> {
    for (const volume of this.#fileVolumes) volume.close();
    await Promise.all(this.#fileVolumes.splice(0).map(async (volume) => await volume.settled()));
  }

  async #setUp(pod: Pod, volume: V1Volume): Promise<void> {
    const { node, ...options } = this.#options;
    if (volume.hostPath) {
      this.#folders.set(volume.name, await hostPath(pod, volume.hostPath, hostFolder(volume.hostPath.path, node)));
      return;
    }
    const dir = join(options.dir, volume.name);
    this.#folders.set(volume.name, dir);
    await mkdir(dir, { recursive: true });
    const projections = projectionsOf(volume);
    if (projections === undefined) return;
    const files = new FileVolume(pod, { ...options, dir, projections });
    this.#fileVolumes.push(files);
    await files.open();
  }
}

/** What a restart of the node leaves of a pod's folder: all but what was in memory. */
export async function dropMemory(pod: Pod, dir: string): Promise<void> {
  const inMemory = (pod.spec.volumes ?? []).filter(({ emptyDir }) => emptyDir?.medium === 'Memory');
  for (const { name } of inMemory) await rm(join(dir, name), { recursive: true, force: true });
}

const CHECKS: Readonly<Record<string, (found: Stats) => boolean>> = {
  Directory: (found) => found.isDirectory(),
  DirectoryOrCreate: (found) => found.isDirectory(),
  File: (found) => found.isFile(),
  FileOrCreate: (found) => found.isFile(),
  Socket: (found) => found.isSocket(),
  CharDevice: (found) => found.isCharacterDevice(),
  BlockDevice: (found) => found.isBlockDevice(),
};

async function hostPath(pod: Pod, { path, type = '' }: V1HostPathVolumeSource, local: string): Promise<string> {
  if (type === '') return local;
  const check = CHECKS[type];
  if (check === undefined) throw new Unsupported(`${podName(pod)}: hostPath ${path}: type ${type}`);
  if (type === 'DirectoryOrCreate') await mkdir(local, { recursive: true });
  if (type === 'FileOrCreate') {
    await mkdir(dirname(local), { recursive: true });
    await writeFile(local, '', { flag: 'a' });
  }
  const found = await stat(local).catch(() => undefined);
  if (found === undefined || !check(found))
    throw new NotYet('ContainerCreating', `${podName(pod)}: hostPath ${path}: the node has no ${type} there`);
  return local;
}
