import { mkdtemp, readdir, readFile, readlink, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { showFiles } from './atomic-files.ts';

const file = (text: string, mode = 0o644): { data: Buffer; mode: number } => ({ data: Buffer.from(text), mode });

describe('a volume of files', () => {
  let dir = '';
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'brupop-files-'));
  });
  afterEach(async () => {
    await rm(dir, { recursive: true });
  });
  const visible = async (): Promise<string[]> => (await readdir(dir)).filter((name) => !name.startsWith('..'));

  test('shows files with their modes, also in folders', async () => {
    await showFiles(
      dir,
      new Map([
        ['a', file('1', 0o400)],
        ['deep/b', file('2')],
      ]),
    );
    expect(await readFile(join(dir, 'a'), 'utf8')).toBe('1');
    expect(await readFile(join(dir, 'deep/b'), 'utf8')).toBe('2');
    expect((await stat(join(dir, 'a'))).mode & 0o777).toBe(0o400);
  });

  test('changes all files by switching one link, and leaves nothing of the old ones', async () => {
    await showFiles(
      dir,
      new Map([
        ['a', file('1')],
        ['b', file('1')],
      ]),
    );
    const before = await readlink(join(dir, '..data'));
    await showFiles(dir, new Map([['a', file('2')]]));
    const after = await readlink(join(dir, '..data'));
    expect(after).not.toBe(before);
    expect(await readFile(join(dir, 'a'), 'utf8')).toBe('2');
    expect(await readlink(join(dir, 'a'))).toBe('..data/a');
    expect(await visible()).toEqual(['a']);
    expect((await readdir(dir)).toSorted()).toEqual(['..data', after, 'a'].toSorted());
  });
});
