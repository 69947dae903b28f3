import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';

/**
 * All logs of a pod, given as `name` or `namespace/name`, on any node, by container and restart.
 * Empty when there are none.
 */
export async function readLogs(root: string, pod: string): Promise<string> {
  const prefix = `${basename(pod)}_`;
  const paths = await readdir(join(root, 'logs'), { recursive: true }).catch(() => []);
  const files = paths.filter((path) => basename(path).startsWith(prefix)).toSorted(byContainerAndRestart);
  const texts = await Promise.all(files.map(async (path) => await readFile(join(root, 'logs', path), 'utf8')));
  return texts.join('');
}

function byContainerAndRestart(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true });
}
