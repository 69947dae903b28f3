/** scripts/release.ts, in a repository of its own with the files of this one. */
import { execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { RELEASE } from '../../packages/shared/src/api/release.ts';
import { copyRepository } from './repository.ts';

jest.setTimeout(120_000);

const root = join(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'brupop-release-'));
const clone = join(folder, 'clone');
const VERSION = '9.8.7';
const CHANGELOG = join(clone, 'CHANGELOG.md');

const run = (program: string, ...args: string[]): string =>
  execFileSync(program, args, { cwd: clone, encoding: 'utf8', maxBuffer: 2 ** 26 }).trim();
const git = (...args: string[]): string => run('git', ...args);
const read = (file: string): string => readFileSync(join(clone, file), 'utf8');

function release(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, ['scripts/release.ts', ...args], { cwd: clone, encoding: 'utf8' });
}

function commit(): void {
  git('commit', '--quiet', '--all', '--message', 'a change');
}

beforeAll(() => {
  copyRepository(clone);
  git('tag', 'start');
});

beforeEach(() => {
  git('reset', '--quiet', '--hard', 'start');
  git('clean', '--quiet', '--force', '-d');
  for (const tag of git('tag', '--list', 'v*').split('\n').filter(Boolean)) git('tag', '--delete', tag);
});

afterAll(() => rmSync(folder, { recursive: true }));

it('a release is a commit with the version in every file that had the former one, and an annotated tag on it', () => {
  const former = git('grep', '--name-only', '--fixed-strings', RELEASE, '--', '*package.json', 'charts');
  expect(release(VERSION)).toMatchObject({ status: 0, stderr: '' });
  expect(git('status', '--porcelain')).toBe('');
  expect(git('cat-file', '-t', `v${VERSION}`)).toBe('tag');
  expect(git('rev-parse', `v${VERSION}^{commit}`)).toBe(git('rev-parse', 'HEAD'));
  expect(git('log', '--format=%s', 'start..HEAD')).toBe(`release: ${VERSION}`);
  const changed = git('diff', '--name-only', 'start', 'HEAD').split('\n');
  const others = ['CHANGELOG.md', 'Dockerfile', 'package-lock.json', 'packages/shared/src/runtime/build.ts'];
  expect(changed).toEqual([...former.split('\n'), ...others].toSorted());
  expect(changed.filter((file) => !read(file).includes(VERSION))).toEqual([]);
  // The changelog keeps the former version, which packages of others may have as well.
  const left = changed.filter((file) => read(file).includes(RELEASE));
  expect(left.filter((file) => !['CHANGELOG.md', 'package-lock.json'].includes(file))).toEqual([]);
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, { version: string }> };
  const ours = Object.entries(packages).filter(([path]) => path === '' || path.startsWith('packages/'));
  expect(new Set(ours.map(([, { version }]) => version))).toEqual(new Set([VERSION]));
});

it('a release leaves generated files and the format as `make lint` expects them', () => {
  release(VERSION);
  symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'));
  const checks = [
    ['scripts/generate.ts', '--check'],
    ['node_modules/oxfmt/bin/oxfmt', '--check', '.'],
  ];
  const results = checks.map((args) => spawnSync(process.execPath, args, { cwd: clone, encoding: 'utf8' }));
  expect(results).toMatchObject(checks.map(() => ({ status: 0 })));
});

it('what was unreleased is under the version, with the day, and can be printed', () => {
  const before = read('CHANGELOG.md').split('## [Unreleased]\n')[1]?.trim() ?? '';
  release(VERSION);
  const today = new Date().toISOString().slice(0, 10);
  expect(read('CHANGELOG.md')).toContain(`\n## [Unreleased]\n\n## [${VERSION}] - ${today}\n\n`);
  expect(before).toContain(release('notes', VERSION).stdout.trim());
  expect(release('notes', VERSION).stdout).toMatch(/^### /u);
  expect(release('notes', '1.1.1')).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('found none') as string,
  });
});

it('a further release needs a further entry, and a newer version', () => {
  release('9.9.0');
  writeFileSync(CHANGELOG, read('CHANGELOG.md').replace('## [Unreleased]\n', '## [Unreleased]\n\n- An entry.\n'));
  commit();
  git('tag', '--delete', 'v9.9.0');
  expect(release('9.9.0').stderr).toContain('expected a version newer than its latest, 9.9.0, found 9.9.0');
  expect(release('9.8.10').stderr).toContain('expected a version newer than its latest, 9.9.0, found 9.8.10');
  expect(release('9.10.0')).toMatchObject({ status: 0, stderr: '' });
  expect(release('notes', '9.10.0').stdout).toBe('- An entry.\n');
});

describe('no release is made, and nothing changes,', () => {
  it.each<[string, () => void, string, string]>([
    ['of what is not a version', () => undefined, '1.2', 'expected a version such as 1.2.3, found "1.2"'],
    ['of no version', () => undefined, '', 'expected a version such as 1.2.3, found ""'],
    [
      'from a changed file',
      () => appendFileSync(CHANGELOG, 'x\n'),
      VERSION,
      'expected everything to be committed, found changes:\nM CHANGELOG.md',
    ],
    [
      'from a new file',
      () => writeFileSync(join(clone, 'new'), ''),
      VERSION,
      'expected everything to be committed, found changes:\n?? new',
    ],
    ['of a tag that exists', () => git('tag', `v${VERSION}`), VERSION, `expected no tag v${VERSION}, found one`],
    [
      'without an entry',
      () => {
        writeFileSync(
          CHANGELOG,
          '# Changelog\n\n## [Unreleased]\n\n### Added\n\n## [0.0.1] - 2026-01-01\n\n- An entry.\n',
        );
        commit();
      },
      VERSION,
      'CHANGELOG.md: expected at least one entry under "Unreleased", found none',
    ],
  ])('%s', (_, arrange, version, message) => {
    arrange();
    const state = (): string[] => [git('rev-parse', 'HEAD'), git('status', '--porcelain'), git('tag'), git('diff')];
    const before = state();
    const { status, stderr } = release(version);
    expect({ status, stderr }).toEqual({ status: 1, stderr: `release: ${message}\n` });
    expect(state()).toEqual(before);
  });
});
