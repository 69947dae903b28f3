/**
 * Builds the former release of the operator, once, and runs its programs and those of this commit in one fleet
 * (test/skew). There is no release yet, so the former one is an earlier commit.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { commitCacheFolder } from '../test/framework/control-plane/cache.ts';

const FORMER = '436079f8620b99443e85dc7ace948a900e482ec0';

const root = join(import.meta.dirname, '..');

/** Throws in a shallow clone. */
function requireCommit(commit: string): void {
  const { status } = spawnSync('git', ['cat-file', '-e', `${commit}^{commit}`], { cwd: root, stdio: 'ignore' });
  if (status !== 0) throw new Error(`expected the commit ${commit}, found none: run git fetch --unshallow`);
}

/** Returns the folder of the former release with its chart and its bundles. */
function obtain(commit: string): string {
  const folder = commitCacheFolder(commit);
  if (existsSync(folder)) return folder;
  requireCommit(commit);
  mkdirSync(dirname(folder), { recursive: true });
  const made = mkdtempSync(`${folder}-`);
  try {
    process.stdout.write(`Building the release of ${commit}\n`);
    const archive = execFileSync('git', ['archive', commit], { cwd: root, maxBuffer: 256 * 1024 * 1024 });
    execFileSync('tar', ['-x'], { cwd: made, input: archive });
    execFileSync('npm', ['ci', '--loglevel=error'], { cwd: made, stdio: 'inherit' });
    const env = { ...process.env, REVISION: commit };
    execFileSync(process.execPath, ['scripts/build.ts'], { cwd: made, env, stdio: 'inherit' });
    rmSync(join(made, 'node_modules'), { recursive: true });
    renameSync(made, folder);
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
  return folder;
}

try {
  const env = { ...process.env, BRUPOP_FORMER: obtain(FORMER) };
  const args = ['scripts/test.ts', '--projects', 'skew', ...process.argv.slice(2)];
  process.exitCode = spawnSync(process.execPath, args, { cwd: root, env, stdio: 'inherit' }).status ?? 1;
} catch (error) {
  process.stderr.write(`skew: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
