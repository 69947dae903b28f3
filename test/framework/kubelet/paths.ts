import { join } from 'node:path';
import { Unsupported } from './pod.ts';

/** From a path in the container (or on the node) to the folder that stands for it here. */
export type PathMap = ReadonlyMap<string, string>;

/**
 * The local path of `path`, by the longest entry that equals it or is a folder above it; undefined
 * when there is none. This is what a mount namespace does on a real node.
 */
export function localPath(path: string, map: PathMap): string | undefined {
  const entries = [...map].map(([from, to]) => ({ from: from.replace(/\/+$/, ''), to }));
  const [best] = entries
    .filter(({ from }) => path === from || path.startsWith(`${from}/`))
    .toSorted((a, b) => b.from.length - a.from.length);
  return best === undefined ? undefined : join(best.to, path.slice(best.from.length));
}

/** An env value: rewritten when it is a path that the map knows, else as it is. */
export function rewriteValue(value: string, map: PathMap): string {
  return (value.startsWith('/') ? localPath(value, map) : undefined) ?? value;
}

/** An argument: as an env value, also behind `--flag=`. */
export function rewriteArgument(argument: string, map: PathMap): string {
  const [, flag = '', value = ''] = /^(-[^=]*=)?(.*)$/s.exec(argument) ?? [];
  return `${flag}${rewriteValue(value, map)}`;
}

/**
 * The local path of a hostPath of a node. Throws Unsupported when the node has no folder for it.
 */
export function hostFolder(path: string, node: { readonly name: string; readonly hostPaths: PathMap }): string {
  const found = localPath(path, node.hostPaths);
  if (found !== undefined) return found;
  const known = [...node.hostPaths.keys()].join(', ') || 'none';
  throw new Unsupported(`hostPath ${path}: node ${node.name} has no folder that stands for it (it has: ${known})`);
}

/**
 * The folders that stand for parts of the kernel's file systems: every container sees those without
 * a mount.
 */
export function kernelPaths(hostPaths: PathMap): PathMap {
  return new Map([...hostPaths].filter(([path]) => /^\/(proc|sys)\//.test(path)));
}
