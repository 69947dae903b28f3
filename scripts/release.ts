/**
 * Makes a release: writes its version everywhere, and creates the commit and the tag `vVERSION`. It pushes nothing.
 *
 * `npm run release -- VERSION`; `npm run release -- notes VERSION` prints what CHANGELOG.md says of a version.
 */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
const CHANGELOG = 'CHANGELOG.md';
const UNRELEASED = '## [Unreleased]\n';

const read = (file: string): string => readFileSync(join(root, file), 'utf8');
const write = (file: string, text: string): void => writeFileSync(join(root, file), text);
const git = (...args: string[]): string => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();

interface Manifest {
  version: string;
  dependencies?: Record<string, string>;
}

/** What CHANGELOG.md says under a heading that begins with `## [NAME]`. */
function sectionOf(name: string): string {
  const [, ...sections] = read(CHANGELOG).split(/^## /mu);
  const section = sections.find((text) => text.startsWith(`[${name}]`));
  if (section === undefined) throw new Error(`${CHANGELOG}: expected the heading "## [${name}]", found none`);
  return section.replace(/^.*\n/u, '').trim();
}

/** The version of the latest release of this branch. */
function latestRelease(): string | undefined {
  return /^## \[(?<version>\d[^\]]*)\]/mu.exec(read(CHANGELOG))?.groups?.['version'];
}

function isNewer(version: string, than: string): boolean {
  return version.localeCompare(than, 'en', { numeric: true }) > 0;
}

/** Throws when there is a reason not to make this release. */
function check(version: string): void {
  if (!/^(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2}$/u.test(version))
    throw new Error(`expected a version such as 1.2.3, found ${JSON.stringify(version)}`);
  const changed = git('status', '--porcelain');
  if (changed !== '') throw new Error(`expected everything to be committed, found changes:\n${changed}`);
  if (git('tag', '--list', `v${version}`) !== '') throw new Error(`expected no tag v${version}, found one`);
  const latest = latestRelease();
  if (latest !== undefined && !isNewer(version, latest))
    throw new Error(`${CHANGELOG}: expected a version newer than its latest, ${latest}, found ${version}`);
  if (!/^- /mu.test(sectionOf('Unreleased')))
    throw new Error(`${CHANGELOG}: expected at least one entry under "Unreleased", found none`);
}

/** Replaces the one match of each pattern. */
function edit(file: string, edits: readonly (readonly [RegExp, string])[]): void {
  let text = read(file);
  for (const [pattern, replacement] of edits) {
    const found = text.match(new RegExp(pattern, 'gmu'))?.length ?? 0;
    if (found !== 1) throw new Error(`${file}: expected one match of ${pattern}, found ${found}`);
    text = text.replace(new RegExp(pattern, 'mu'), () => replacement);
  }
  write(file, text);
}

function setVersion(manifest: Manifest | undefined, version: string): void {
  if (manifest === undefined) throw new Error('package-lock.json: expected every package of this repository');
  manifest.version = version;
  const { dependencies = {} } = manifest;
  for (const name of Object.keys(dependencies)) if (name.startsWith('@brupop/')) dependencies[name] = version;
}

const readJson = (file: string): unknown => JSON.parse(read(file));
const writeJson = (file: string, content: object): void => write(file, `${JSON.stringify(content, undefined, 2)}\n`);

function writeVersion(version: string, date: string): void {
  edit('charts/bottlerocket-update-operator/Chart.yaml', [
    [/^version: .+$/, `version: ${version}`],
    [/^appVersion: .+$/, `appVersion: ${version}`],
  ]);
  edit('packages/shared/src/runtime/build.ts', [[/RELEASE = '.+'/, `RELEASE = '${version}'`]]);
  edit('Dockerfile', [[/image\.version=\S+/, `image.version=${version}`]]);
  edit(CHANGELOG, [[/^## \[Unreleased\]\n/, `${UNRELEASED}\n## [${version}] - ${date}\n`]]);
  const folders = readdirSync(join(root, 'packages')).map((name) => `packages/${name}`);
  for (const file of ['.', ...folders].map((folder) => join(folder, 'package.json'))) {
    const manifest = readJson(file) as Manifest;
    setVersion(manifest, version);
    writeJson(file, manifest);
  }
  const lock = readJson('package-lock.json') as Manifest & { packages: Record<string, Manifest> };
  for (const manifest of [lock, ...['', ...folders].map((path) => lock.packages[path])]) setVersion(manifest, version);
  writeJson('package-lock.json', lock);
}

function release(version: string): void {
  check(version);
  const before = git('rev-parse', 'HEAD');
  try {
    writeVersion(version, new Date().toISOString().slice(0, 10));
    git('commit', '--quiet', '--all', '--message', `release: ${version}`);
    git('tag', '--annotate', '--message', version, `v${version}`);
  } catch (error) {
    // Everything was committed before, so nothing else is lost.
    git('reset', '--hard', '--quiet', before);
    throw error;
  }
  process.stdout.write(`Created the commit ${git('rev-parse', '--short', 'HEAD')} and the tag v${version}\n`);
}

try {
  const [first = '', second = ''] = process.argv.slice(2);
  if (first === 'notes') process.stdout.write(`${sectionOf(second)}\n`);
  else release(first);
} catch (error) {
  process.stderr.write(`release: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
