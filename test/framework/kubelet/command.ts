import type { V1Container } from '@kubernetes/client-node';
import type { Variables } from './environment.ts';
import { expand } from './expand.ts';
import type { Image } from './image.ts';
import { localPath, type PathMap, rewriteArgument, rewriteValue } from './paths.ts';
import { Unsupported } from './pod.ts';
import type { User } from './users.ts';

/** What is started for a container. */
export interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Variables;
  /** Undefined: the one of this process. */
  readonly user?: User | undefined;
}

/** On real nodes the image sets it; the operator's programs start nothing by name. */
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export interface CommandInputs {
  readonly container: V1Container;
  readonly image: Image;
  readonly hostname: string;
  /** Of the container, as `environmentOf` makes it. */
  readonly env: Variables;
  /** Mounts of the container and file systems of the kernel. */
  readonly mounts: PathMap;
}

/**
 * The local process of a container: `command` replaces ENTRYPOINT and CMD, `args` replaces CMD. A
 * real node gives each container a mount namespace; here instead every env value and argument that
 * equals or starts with a mountPath (or a folder of the image) is rewritten to the local folder.
 * Nothing of this process's own environment is passed on. Throws Unsupported when the image has no
 * such program or folder here.
 */
export function commandOf({ container, image, hostname, env, mounts }: CommandInputs): Command {
  const paths: PathMap = new Map([...image.paths, ...mounts]);
  const expanded = (words: readonly string[]): string[] => words.map((word) => expand(word, (name) => env[name]));
  const { command = [], args = [] } = container;
  const defaults = command.length > 0 ? [] : image.cmd;
  const entrypoint = command.length > 0 ? expanded(command) : image.entrypoint;
  const [program, ...rest] = [...entrypoint, ...(args.length > 0 ? expanded(args) : defaults)];
  const all: Variables = { PATH, HOSTNAME: hostname, HOME: '/', ...image.env, ...env };
  return {
    program: programOf(program ?? '', image),
    args: rest.map((argument) => rewriteArgument(argument, paths)),
    cwd: folderOf(container.workingDir ?? image.workdir, paths),
    env: Object.fromEntries(Object.entries(all).map(([name, value]) => [name, rewriteValue(value, paths)])),
  };
}

function programOf(program: string, { programs }: Image): string {
  const found = programs[program];
  if (found !== undefined) return found;
  const known = Object.keys(programs).join(', ');
  throw new Unsupported(`the image's program "${program}" has no local counterpart (known: ${known})`);
}

function folderOf(path: string, paths: PathMap): string {
  const found = path === '/' ? '/' : localPath(path, paths);
  if (found === undefined) throw new Unsupported(`the working directory ${path} has no local counterpart`);
  return found;
}
