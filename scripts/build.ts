/**
 * Writes `dist/`: each program as one file, `<package>.mjs`, and NOTICE with the licenses of the
 * packages whose code is in them. The revision that the programs report is `REVISION` or else git's commit.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { bundleAll, findPrograms } from './bundle.ts';
import { noticeOf } from './notice.ts';

const root = join(import.meta.dirname, '..');
const dist = join(root, 'dist');

function write(name: string, contents: Uint8Array | string): void {
  const path = join(dist, name);
  writeFileSync(path, contents);
  process.stdout.write(`${relative(root, path)} ${(contents.length / 1024).toFixed(0)} KiB\n`);
}

/** The commit, with `-dirty` when files differ from it. Agents send it as build metadata of a semantic version. */
function revision(): string {
  const found = process.env['REVISION'] ?? commit();
  if (/^[0-9A-Za-z-]{1,48}$/u.test(found)) return found;
  throw new Error(`REVISION: expected at most 48 letters, digits and hyphens, found ${JSON.stringify(found)}`);
}

function commit(): string {
  try {
    const describe = ['describe', '--always', '--dirty', '--abbrev=40', '--exclude=*'];
    return execFileSync('git', describe, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return 'unknown'; // not a clone, or no git
  }
}

try {
  const programs = findPrograms();
  // A failed build must not leave files of an earlier build.
  for (const name of [...programs.map((program) => `${program}.mjs`), 'NOTICE'])
    rmSync(join(dist, name), { force: true });
  mkdirSync(dist, { recursive: true });
  const bundles = await bundleAll(revision());
  const notice = noticeOf(bundles);
  for (const { program, contents } of bundles) write(`${program}.mjs`, contents);
  write('NOTICE', notice);
} catch (error) {
  process.stderr.write(`build: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
