/**
 * Writes `dist/kubectl-brupop`, the plugin of kubectl as one file that Node.js runs, and `dist/kubectl-brupop.NOTICE`
 * with the licenses of the packages whose code is in it.
 */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundle, CLI } from './bundle.ts';
import { noticeOf } from './notice.ts';

const dist = join(import.meta.dirname, '..', 'dist');

const built = await bundle(CLI, process.env['REVISION'] ?? 'unknown');
mkdirSync(dist, { recursive: true });
const path = join(dist, 'kubectl-brupop');
const text = `#!/usr/bin/env node\n${Buffer.from(built.contents).toString('utf8')}`;
writeFileSync(path, text);
chmodSync(path, 0o755);
writeFileSync(`${path}.NOTICE`, noticeOf([built]));
process.stdout.write(`dist/kubectl-brupop ${(text.length / 1024).toFixed(0)} KiB\n`);
