import { once } from 'node:events';
import { mkdtempSync, renameSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Watchdog } from '../watchdog.ts';
import { type Kubernetes, ldflags, type Module, packageOf, type Program, tagsOf } from './versions.ts';

const modules = join(import.meta.dirname, 'modules');

interface BuildOptions {
  readonly folder: string;
  readonly go: string;
  readonly kubernetes: Kubernetes;
  readonly watchdog: Watchdog;
  readonly onPackage: () => void;
}

/**
 * Builds programs of one Go module, which pins all they are made of, into files of their names in
 * `folder`. One `go build` compiles what they share once. `onPackage` is called for each package
 * that is compiled. `go` is the Go command. The watchdog ends the build when this process goes.
 * Throws when Go is missing or the build fails, with the end of what it printed.
 */
export async function build(
  module: Module,
  some: readonly Program[],
  { folder, go, kubernetes, watchdog, onPackage }: BuildOptions,
): Promise<void> {
  const output = mkdtempSync(join(folder, `${module}-`));
  const tags = `-tags=${tagsOf(module)}`;
  const args = [
    'build',
    '-v',
    '-trimpath',
    '-buildvcs=false',
    tags,
    `-ldflags=${ldflags(kubernetes)}`,
    '-o',
    `${output}/`,
  ];
  const child = watchdog.spawn(go, [...args, ...some.map(packageOf)], {
    cwd: join(modules, module),
    env: {
      ...process.env,
      GOTMPDIR: folder,
      CGO_ENABLED: '0',
      GOFLAGS: '-mod=readonly',
      GOTOOLCHAIN: 'local',
      GOWORK: 'off',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (text: Buffer) => {
      for (const line of text.toString().split('\n')) if (/^[\w.-]+(\/|$)/.test(line)) onPackage();
      printed = (printed + text.toString()).slice(-4000);
    });
  }
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  const names = some.join(', ');
  if (code === 127) throw new Error(`cannot run ${go}, which ${names} would be built with:\n${printed}`);
  if (code !== 0) throw new Error(`building ${names} failed (${signal ?? `exit ${code}`}):\n${printed}`);
  for (const program of some) renameSync(join(output, goName(program)), join(folder, program));
}

/** The name that Go gives a program: the last element of its package that is not a version. */
function goName(program: Program): string {
  return basename(packageOf(program).replace(/\/v\d+$/, ''));
}
