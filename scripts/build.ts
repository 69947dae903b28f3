/**
 * Writes `dist/`: each program as one file, `<package>.mjs`, and NOTICE with the licenses of the
 * packages whose code is in them.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { bundle, findPrograms } from './bundle.ts';
import { noticeOf } from './notice.ts';

const root = join(import.meta.dirname, '..');
const dist = join(root, 'dist');

function write(name: string, contents: Uint8Array | string): void {
  const path = join(dist, name);
  writeFileSync(path, contents);
  process.stdout.write(`${relative(root, path)} ${(contents.length / 1024).toFixed(0)} KiB\n`);
}

try {
  const programs = findPrograms();
  // A failed build must not leave files of an earlier build.
  for (const name of [...programs.map((program) => `${program}.mjs`), 'NOTICE'])
    rmSync(join(dist, name), { force: true });
  mkdirSync(dist, { recursive: true });
  const bundles = await Promise.all(programs.map(bundle));
  const notice = noticeOf(bundles);
  for (const { program, contents } of bundles) write(`${program}.mjs`, contents);
  write('NOTICE', notice);
} catch (error) {
  process.stderr.write(`build: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
