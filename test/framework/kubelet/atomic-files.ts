import { randomBytes } from 'node:crypto';
import { chown, mkdir, readdir, readlink, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

export interface FileContent {
  readonly data: Buffer;
  readonly mode: number;
  /** Its user; default the one of this process. */
  readonly owner?: number;
}

/** From the path inside the volume to what it holds. */
export type Files = ReadonlyMap<string, FileContent>;

const DATA = '..data';

/**
 * Makes `dir` show exactly these files, all at one moment, as the kubelet's AtomicWriter does: they
 * are written to a fresh folder, `..data` is switched to it by a rename, and what users see are
 * links through `..data`.
 */
export async function showFiles(dir: string, files: Files): Promise<void> {
  const before = await readlink(join(dir, DATA)).catch(() => undefined);
  const fresh = `..${randomBytes(6).toString('hex')}`;
  await mkdir(join(dir, fresh), { recursive: true });
  for (const [path, { data, mode, owner }] of files) {
    await mkdir(dirname(join(dir, fresh, path)), { recursive: true });
    await writeFile(join(dir, fresh, path), data, { mode });
    if (owner !== undefined) await chown(join(dir, fresh, path), owner, 0);
  }
  await link(fresh, join(dir, DATA));
  const names = new Set([...files.keys()].map((path) => path.split('/')[0] ?? path));
  for (const name of names) await link(join(DATA, name), join(dir, name));
  for (const name of await readdir(dir)) {
    if (!name.startsWith('..') && !names.has(name)) await rm(join(dir, name), { force: true });
  }
  if (before !== undefined) await rm(join(dir, before), { recursive: true, force: true });
}

async function link(target: string, path: string): Promise<void> {
  const temporary = `${path}_tmp`;
  await rm(temporary, { force: true });
  await symlink(target, temporary);
  await rename(temporary, path);
}
