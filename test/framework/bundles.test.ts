import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { jest } from '@jest/globals';
import { stop } from 'esbuild';
import { RELEASE } from '../../packages/shared/src/api/release.ts';
import { type Bundle, bundleAll, findPrograms } from '../../scripts/bundle.ts';
import { bundledPackages, noticeOf } from '../../scripts/notice.ts';
import { limitTo, makeSbom, type Sbom } from '../../scripts/sbom.ts';

jest.setTimeout(180_000);

const root = join(import.meta.dirname, '../..');
const REVISION = '0123456789abcdef';
let bundles: Bundle[] = [];
let folder = '';

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'brupop-bundles-'));
  bundles = await bundleAll(REVISION);
});

afterAll(async () => {
  await stop();
  rmSync(folder, { recursive: true });
});

/** Makes the package `x` with these fields of package.json and these files; returns a bundle that has code of it. */
function bundleWith(manifest: object, files: Readonly<Record<string, string>>): Bundle[] {
  const home = join(folder, 'node_modules/x');
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, 'package.json'), JSON.stringify({ name: 'x', version: '1.0.0', ...manifest }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(home, name), text);
  const modules = ['packages/agent/src/main.ts', 'node_modules/x/lib/index.js'];
  return [{ program: 'agent', contents: new Uint8Array(), modules }];
}

describe('the bundles', () => {
  it('are the same, byte for byte, when built in another folder from what the Dockerfile copies', () => {
    const copy = join(folder, 'copy');
    copySources(copy);
    const env = { ...process.env, REVISION };
    const node = (script: string): string =>
      execFileSync(process.execPath, [script], { cwd: copy, env, encoding: 'utf8' });
    node('scripts/build.ts');
    node('scripts/sbom.ts');
    const built = (name: string): Buffer => readFileSync(join(copy, 'dist', name));
    const same = bundles.map(({ program, contents }) => [program, built(`${program}.mjs`).equals(contents)]);
    expect(same).toEqual([
      ['agent', true],
      ['apiserver', true],
      ['controller', true],
    ]);
    expect(built('NOTICE').toString()).toBe(noticeOf(bundles));
    expect(built('sbom.cdx.json').toString()).toBe(makeSbom(bundles));
    expect(readdirSync(join(copy, 'dist')).toSorted()).toEqual(
      ['NOTICE', 'agent.mjs', 'apiserver.mjs', 'controller.mjs', 'sbom.cdx.json'].toSorted(),
    );
  });

  it('each have the revision that they were built from', () => {
    const texts = bundles.map(({ program, contents }) => [program, Buffer.from(contents).includes(REVISION)]);
    expect(texts).toEqual(findPrograms().map((program) => [program, true]));
  });
});

/** Copies what the Dockerfile copies, without tests, and the packages that are bundled; other packages are linked. */
function copySources(copy: string): void {
  const lines = readFileSync(join(root, 'Dockerfile'), 'utf8').matchAll(/^COPY (?!--from)(?<files>.+) \S+$/gmu);
  const files = [...lines].flatMap(({ groups }) => groups?.['files']?.split(' ') ?? []);
  expect(files).toContain('packages');
  for (const file of files) {
    cpSync(join(root, file), join(copy, file), { recursive: true, filter: (path) => !path.endsWith('.test.ts') });
  }
  const folders = new Set(bundles.flatMap(({ modules }) => modules.flatMap((path) => packageOf(path) ?? [])));
  for (const path of folders) cpSync(join(root, path), join(copy, path), { recursive: true });
  mkdirSync(join(copy, 'node_modules/@brupop'), { recursive: true });
  symlinkSync('../../packages/shared', join(copy, 'node_modules/@brupop/shared'));
  symlinkSync(join(root, 'node_modules/esbuild'), join(copy, 'node_modules/esbuild'));
}

function packageOf(path: string): string | undefined {
  const file = path.includes('node_modules/') ? dirname(path) : '';
  return /^node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0];
}

describe('NOTICE', () => {
  it('is current', () => {
    expect(readFileSync(join(root, 'NOTICE'), 'utf8')).toBe(noticeOf(bundles));
  });

  it('has the license of every package whose code is in a bundle', () => {
    const packages = bundledPackages(bundles);
    expect(packages.map(({ name }) => name)).toEqual(expect.arrayContaining(['express', 'undici', 'valibot']));
    expect(packages.find(({ name }) => name === 'valibot')?.programs).toContain('agent');
    const text = noticeOf(bundles);
    expect(packages.filter((one) => one.text.length < 500 || !text.includes(one.text))).toEqual([]);
  });

  it('has the notices of a package that has some', () => {
    const one = bundleWith({ license: 'Apache-2.0' }, { LICENSE: 'the license', 'NOTICE.txt': 'the notices' });
    expect(noticeOf(one, folder)).toContain('x 1.0.0, Apache-2.0, in agent\n\nthe license\n\nthe notices\n');
  });

  it.each([
    ['without a license', {}, { LICENSE: 'text' }, 'expected one of the licenses'],
    ['with a license that is not accepted', { license: 'GPL-3.0-only' }, { LICENSE: 'text' }, 'found "GPL-3.0-only"'],
    ['with a choice of licenses', { license: { type: 'MIT' } }, { LICENSE: 'text' }, 'found {"type":"MIT"}'],
    ['without the text of its license', { license: 'MIT' }, { NOTICE: 'text' }, 'expected a file with its license'],
  ])('cannot be made for a package %s', (_, manifest, files, message) => {
    expect(() => noticeOf(bundleWith(manifest, files), folder)).toThrow(message);
  });
});

describe('the SBOM', () => {
  it('lists what is in the bundles, the Node.js programs and the packages of this repository, and nothing else', () => {
    const sbom = JSON.parse(makeSbom(bundles)) as Sbom;
    const refs = sbom.components.map((component) => component['bom-ref']);
    const bundled = bundledPackages(bundles).map(({ name, version }) => `${name}@${version}`);
    const node = ['arm64', 'x64'].map((architecture) => `node-linux-${architecture}@${process.versions.node}`);
    const ours = [...findPrograms(), 'shared'].map((name) => `@brupop/${name}@${RELEASE}`);
    expect(refs.toSorted()).toEqual([...bundled, ...node, ...ours].toSorted());
    expect(sbom.components.every(({ hashes, 'bom-ref': ref }) => hashes !== undefined || ours.includes(ref))).toBe(
      true,
    );
    expect(sbom.metadata.component).toMatchObject({ name: 'bottlerocket-update-operator', type: 'application' });
  });

  it('cannot be made when npm does not list a package that is in a bundle', () => {
    const listed: Sbom = { metadata: { component: { 'bom-ref': 'root' } }, components: [], dependencies: [] };
    expect(() => limitTo(listed, new Set(['x@1.0.0']), 'name')).toThrow('expected x@1.0.0 in the list of npm sbom');
  });
});
