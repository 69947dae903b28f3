/**
 * Runs every check of types, style, format and structure, and ends with how many passed and failed.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

const CHECKS = [
  'tsc --noEmit',
  'oxlint --deny-warnings',
  'oxfmt --check',
  'node scripts/structure.ts --check',
  'node scripts/generate.ts --check',
];

const failed = CHECKS.filter((check) => {
  const { status } = spawnSync(check, { cwd: join(import.meta.dirname, '..'), shell: true, stdio: 'inherit' });
  if (status !== 0) process.stderr.write(`lint: failed: ${check}\n`);
  return status !== 0;
});
process.stdout.write(`\n${CHECKS.length - failed.length} checks passed, ${failed.length} failed\n`);
process.exitCode = failed.length === 0 ? 0 : 1;
