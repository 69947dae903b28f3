import { jest } from '@jest/globals';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isAlive } from './control-plane/lock.ts';
import { eventually } from './eventually.ts';
import { startWatchdog } from './watchdog.ts';

jest.setTimeout(60_000);

/**
 * Starts a process by the watchdog, registers another, drops a third, prints their ids and waits.
 */
const owner = `
import { spawn } from 'node:child_process';
import { startWatchdog } from '${join(import.meta.dirname, 'watchdog.ts')}';
const watchdog = startWatchdog(process.argv[1]);
const started = watchdog.spawn('sleep', ['60'], { cwd: '/', env: process.env, stdio: ['ignore', 'ignore', 'ignore'] }).pid;
const others = ['added', 'dropped'].map(() => spawn('sleep', ['60'], { detached: true, stdio: 'ignore' }).pid);
for (const pid of others) watchdog.add(pid);
watchdog.drop(others[1]);
const pids = [started, ...others];
process.stdout.write(pids.join(' ') + '\\n');
setInterval(() => undefined, 1000);
`;

describe('a watchdog', () => {
  test.each(['SIGKILL', 'SIGINT', 'SIGTERM'] as const)(
    'ends the processes and removes the folder after a %s of their owner',
    async (signal) => {
      const folder = mkdtempSync(join(tmpdir(), 'brupop-watchdog-'));
      writeFileSync(join(folder, 'file'), '');
      const child = spawn(process.execPath, ['--input-type=module', '-e', owner, folder], { detached: true });
      const [line] = (await once(child.stdout, 'data')) as [Buffer];
      const [started = 0, added = 0, dropped = 0] = line.toString().split(' ').map(Number);
      expect([started, added, dropped].map(isAlive)).toEqual([true, true, true]);
      // The whole group gets it, as after a Ctrl-C.
      process.kill(-(child.pid ?? 0), signal);
      await once(child, 'exit');
      await eventually(() => expect([started, added].map(isAlive)).toEqual([false, false]));
      await eventually(() => expect(existsSync(folder)).toBe(false));
      expect(isAlive(dropped)).toBe(true);
      process.kill(dropped, 'SIGKILL');
    },
  );

  /** A program that exits right after it has started a process. */
  const hasty = `
import { existsSync } from 'node:fs';
import { startWatchdog } from '${join(import.meta.dirname, 'watchdog.ts')}';
const [folder, noted] = process.argv.slice(1);
const watchdog = startWatchdog(folder);
const command = 'echo $$ > ' + noted + '; exec sleep 60';
watchdog.spawn('sh', ['-c', command], { cwd: '/', env: process.env, stdio: ['ignore', 'ignore', 'ignore'] });
while (!existsSync(noted)); // the event loop does not turn, so nothing that was deferred happens
process.kill(process.pid, 'SIGKILL');
`;

  test('ends a process that was started right before the end of its owner', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'brupop-watchdog-'));
    const noted = `${folder}.pid`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', hasty, folder, noted], { detached: true });
    await once(child, 'exit');
    const pid = await eventually(() => {
      const text = readFileSync(noted, 'utf8');
      expect(text).toMatch(/^\d+\n$/);
      return Number(text);
    });
    await eventually(() => expect(isAlive(pid)).toBe(false));
    rmSync(noted);
  });

  test('released, it has ended what was left and removed the folder', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'brupop-watchdog-'));
    const watchdog = startWatchdog(folder);
    const child = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' });
    watchdog.add(child.pid ?? 0);
    await watchdog.release();
    expect(existsSync(folder)).toBe(false);
    await eventually(() => expect(child.signalCode).toBe('SIGKILL'));
  });
});
