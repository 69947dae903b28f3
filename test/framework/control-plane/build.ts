import { once } from 'node:events';
import { dirname, join } from 'node:path';
import type { Watchdog } from '../watchdog.ts';
import { buildOf, type Program } from './versions.ts';

const modules = join(import.meta.dirname, 'modules');

/**
 * Builds a program from the Go module that pins all it is made of, into the file `output`. `go` is
 * the Go command. The watchdog ends the build when this process goes. Throws when Go is missing or
 * the build fails, with the end of what it printed.
 */
export async function build(program: Program, output: string, go: string, watchdog: Watchdog): Promise<void> {
  const { module, package: name, ldflags } = buildOf(program);
  const child = watchdog.spawn(
    go,
    ['build', '-trimpath', '-buildvcs=false', `-ldflags=${ldflags}`, '-o', output, name],
    {
      cwd: join(modules, module),
      env: {
        ...process.env,
        GOTMPDIR: dirname(output),
        CGO_ENABLED: '0',
        GOFLAGS: '-mod=readonly',
        GOTOOLCHAIN: 'local',
        GOWORK: 'off',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (text: Buffer) => {
      printed = (printed + text.toString()).slice(-4000);
    });
  }
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  if (code === 127) throw new Error(`cannot run ${go}, which ${program} would be built with:\n${printed}`);
  if (code !== 0) throw new Error(`building ${program} failed (${signal ?? `exit ${code}`}):\n${printed}`);
}
