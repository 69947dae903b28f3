/**
 * Writes `test/framework/oracle/planner.cjs`: the planner of this commit, with the fleet that the comparison tells its events,
 * as one file without its libraries. Run it when a planner is to be compared with the one of now, and never to make a test of the
 * comparison pass.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const root = join(import.meta.dirname, '..');
const path = join(root, 'test/framework/oracle/planner.cjs');

const git = (...args: string[]): string => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
const changed = git('status', '--porcelain', '--', 'packages', 'test/framework/oracle');
if (changed !== '') throw new Error(`expected everything to be committed, found changes:\n${changed}`);
const result = await build({
  entryPoints: [join(root, 'test/framework/oracle/fleet.ts')],
  bundle: true,
  write: false,
  format: 'cjs',
  platform: 'node',
  target: 'node24',
  legalComments: 'none',
  external: ['valibot', 'croner', 'prom-client', 'undici', 'yaml'],
});
const [bundle] = result.outputFiles;
const comment = `// The planner of commit ${git('rev-parse', 'HEAD')}, written by scripts/freeze-planner.ts.\n`;
writeFileSync(path, comment + (bundle?.text ?? ''));
