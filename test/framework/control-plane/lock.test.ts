import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { identify, withLock } from './lock.ts';

describe('withLock', () => {
  let folder = '';
  let path = '';

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'brupop-lock-'));
    path = join(folder, 'lock');
  });

  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  test('lets one at a time work', async () => {
    let working = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      working += 1;
      most = Math.max(most, working);
      await sleep(20);
      working -= 1;
    };
    await Promise.all([withLock(path, {}, work), withLock(path, {}, work), withLock(path, {}, work)]);
    expect(most).toBe(1);
    expect(existsSync(path)).toBe(false);
  });

  test('frees the lock when the work fails', async () => {
    const fail = async (): Promise<never> => await Promise.reject(new Error('no luck'));
    await expect(withLock(path, {}, fail)).rejects.toThrow('no luck');
    expect(existsSync(path)).toBe(false);
  });

  test.each([
    ['of a process that is gone', () => JSON.stringify({ pid: spawnSync('true').pid, started: '' })],
    [
      'of an earlier process with the id of a living one',
      () => JSON.stringify({ pid: process.pid, started: 'before' }),
    ],
    ['that is unreadable', () => 'half a li'],
  ])('takes over a lock %s', async (_, content) => {
    writeFileSync(path, content());
    expect(await withLock(path, {}, async () => await Promise.resolve('done'))).toBe('done');
  });

  test('names the owner while it waits, and gives up after the limit', async () => {
    writeFileSync(path, JSON.stringify(identify(process.ppid)));
    const owners = new Set<number>();
    const options = { limitMs: 300, onWait: (owner: number) => void owners.add(owner) };
    await expect(withLock(path, options, async () => await Promise.resolve())).rejects.toThrow(
      `is held by process ${process.ppid}`,
    );
    expect([...owners]).toEqual([process.ppid]);
    expect(existsSync(path)).toBe(true);
  });
});
