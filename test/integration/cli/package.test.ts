/** The packages of the plugin, installed as users install them. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { jest } from '@jest/globals';
import { parse } from 'yaml';
import { RELEASE } from '../../../packages/shared/src/runtime/build.ts';

jest.setTimeout(180_000);

const root = join(import.meta.dirname, '../../..');
const folder = mkdtempSync(join(tmpdir(), 'brupop-package-'));
const CONTENTS = ['LICENSE-APACHE', 'LICENSE-MIT', 'NOTICE', 'README.md', 'kubectl-brupop'];
const PATH = `${dirname(process.execPath)}${delimiter}${process.env['PATH']}`;

const run = (program: string, ...args: string[]): string =>
  execFileSync(program, args, { cwd: folder, env: { ...process.env, PATH }, encoding: 'utf8' });

beforeAll(() => {
  run(process.execPath, join(root, 'scripts/build-cli.ts'), 'https://example.com/releases');
});

afterAll(() => rmSync(folder, { recursive: true }));

it('npm installs one program, its licenses and a README, and nothing else', () => {
  const [packed = ''] = run('npm', 'pack', '--silent', join(root, 'dist/npm')).trim().split('\n').toReversed();
  run('npm', 'install', '--silent', '--offline', '--global', '--prefix', join(folder, 'npm'), join(folder, packed));
  const found = run('tar', '-tzf', packed).trim().split('\n').toSorted();
  expect(found).toEqual([...CONTENTS, 'package.json'].map((name) => `package/${name}`).toSorted());
  expect(run(join(folder, 'npm/bin/kubectl-brupop'), '--version')).toBe(`${RELEASE}\n`);
  expect(run(join(folder, 'npm/bin/kubectl_complete-brupop'), 'resu')).toBe('resume\n:4\n');
});

it('the manifest of krew names an archive with the same files, and its hash', () => {
  const { spec } = parse(readFileSync(join(root, 'dist/brupop.yaml'), 'utf8')) as {
    spec: { version: string; platforms: { uri: string; sha256: string; bin: string }[] };
  };
  const [platform] = spec.platforms;
  expect(spec.version).toBe(`v${RELEASE}`);
  expect(platform?.uri).toBe(`https://example.com/releases/kubectl-brupop-${RELEASE}.tar.gz`);
  const archive = join(root, 'dist', `kubectl-brupop-${RELEASE}.tar.gz`);
  expect(createHash('sha256').update(readFileSync(archive)).digest('hex')).toBe(platform?.sha256);
  mkdirSync(join(folder, 'krew'));
  run('tar', '-xzf', archive, '-C', join(folder, 'krew'));
  expect(CONTENTS.filter((name) => !existsSync(join(folder, 'krew', name)))).toEqual([]);
  expect(run(join(folder, 'krew', platform?.bin ?? ''), '--version')).toBe(`${RELEASE}\n`);
});

it('says which Node.js it needs', () => {
  const older = "data:text/javascript,Object.defineProperty(process,'versions',{value:{node:'20.19.0'}})";
  expect(() => run(process.execPath, '--import', older, join(root, 'dist/kubectl-brupop'), '--version')).toThrow(
    'kubectl-brupop: expected Node.js 24 or later, found 20.19.0',
  );
});

describe('completion', () => {
  it.each([
    [['st'], 'status\n:4\n'],
    [['status', '-o', ''], 'json\ntable\nwide\nyaml\n:4\n'],
    [['plan', '--with', ''], ':0\n'],
    [['pause', '--re'], '--reason\n:4\n'],
    [['completion', ''], 'bash\nfish\nzsh\n:4\n'],
    [['--context', 'x', 'his'], 'history\n:4\n'],
    [['--kubeconfig', '/none', 'explain', ''], ':4\n'],
  ])('of %j is %j', (words, expected) => {
    const completer = join(folder, 'kubectl_complete-brupop');
    if (!existsSync(completer)) symlinkSync(join(root, 'dist/kubectl-brupop'), completer);
    expect(run(completer, ...words)).toBe(expected);
  });

  it('works in bash', () => {
    const script = `PATH=${join(root, 'dist')}:$PATH; source <(kubectl-brupop completion bash)
      COMP_WORDS=(kubectl-brupop s); COMP_CWORD=1; _kubectl_brupop; echo "\${COMPREPLY[@]}"`;
    expect(run('bash', '-c', script)).toBe('skip status support-bundle\n');
  });
});
