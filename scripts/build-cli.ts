/**
 * Builds the plugin of kubectl, and the packages by which users install it:
 *
 * - `dist/kubectl-brupop`: one file that Node.js runs, and `dist/kubectl-brupop.NOTICE`
 * - `dist/npm`: the folder of the npm package; `npm pack ./dist/npm` packs it
 * - `dist/kubectl-brupop-VERSION.tar.gz`: for krew, and `dist/brupop.yaml`, the manifest that names it
 *
 * `node scripts/build-cli.ts [URL]`: where the release has its files; the manifest is written with it only.
 */
import { createHash } from 'node:crypto';
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { pack } from 'tar-stream';
import { buffer } from 'node:stream/consumers';
import { bundle, CLI } from './bundle.ts';
import { noticeOf } from './notice.ts';

const root = join(import.meta.dirname, '..');
const dist = join(root, 'dist');
const NAME = 'kubectl-brupop';
const LICENSES = ['LICENSE-APACHE', 'LICENSE-MIT'];

interface Files {
  readonly [name: string]: string;
}

async function build(): Promise<Files> {
  const built = await bundle(CLI, process.env['REVISION'] ?? 'unknown');
  const licenses = LICENSES.map((name) => [name, readFileSync(join(root, name), 'utf8')] as const);
  return {
    [NAME]: `#!/usr/bin/env node\n${Buffer.from(built.contents).toString('utf8')}`,
    NOTICE: noticeOf([built]),
    'README.md': readFileSync(join(root, 'packages/cli/README.md'), 'utf8'),
    ...Object.fromEntries(licenses),
  };
}

function writeNpm(files: Files, version: string): void {
  const folder = join(dist, 'npm');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  chmodSync(join(folder, NAME), 0o755);
  const manifest = {
    name: NAME,
    version,
    description: 'kubectl brupop: shows and steers how Bottlerocket nodes are updated',
    license: 'Apache-2.0 OR MIT',
    bin: { [NAME]: NAME, 'kubectl_complete-brupop': NAME },
    files: Object.keys(files),
    engines: { node: '>=24' },
  };
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`);
}

/** The same bytes for the same files. */
async function archiveOf(files: Files): Promise<Uint8Array> {
  const tar = pack();
  for (const [name, text] of Object.entries(files))
    tar.entry({ name, mode: name === NAME ? 0o755 : 0o644, mtime: new Date(0) }, text);
  tar.finalize();
  return gzipSync(await buffer(tar));
}

/** The manifest of krew; each placeholder is there once or more. Throws when one has no value. */
function krewManifest(values: Readonly<Record<string, string>>): string {
  const template = readFileSync(join(root, 'packages/cli/krew.yaml'), 'utf8');
  return template.replaceAll(/\$\{(\w+)\}/gu, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`packages/cli/krew.yaml: expected a known placeholder, found ${name}`);
    return value;
  });
}

const { version } = JSON.parse(readFileSync(join(root, 'packages/cli/package.json'), 'utf8')) as { version: string };
const files = await build();
mkdirSync(dist, { recursive: true });
writeNpm(files, version);
copyFileSync(join(dist, 'npm', NAME), join(dist, NAME));
writeFileSync(join(dist, `${NAME}.NOTICE`), files['NOTICE'] ?? '');
const archive = await archiveOf(files);
const archiveName = `${NAME}-${version}.tar.gz`;
writeFileSync(join(dist, archiveName), archive);
const [, , url] = process.argv;
const sha256 = createHash('sha256').update(archive).digest('hex');
if (url !== undefined)
  writeFileSync(
    join(dist, 'brupop.yaml'),
    krewManifest({ VERSION: version, URI: `${url}/${archiveName}`, SHA256: sha256 }),
  );
process.stdout.write(`dist/${NAME} ${((files[NAME]?.length ?? 0) / 1024).toFixed(0)} KiB\n`);
