import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { isAlive } from './control-plane/lock.ts';
import { eventually } from './eventually.ts';
import { startWatchdog } from './watchdog.ts';

/** Starts two processes under a watchdog, drops the second, prints their ids and waits. */
const owner = `
import { spawn } from 'node:child_process';
import { startWatchdog } from '${join(import.meta.dirname, 'watchdog.ts')}';
const watchdog = startWatchdog(process.argv[1]);
const pids = ['kept', 'dropped'].map(() => spawn('sleep', ['60'], { detached: true, stdio: 'ignore' }).pid);
for (const pid of pids) watchdog.add(pid);
watchdog.drop(pids[1]);
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
      const [kept = 0, dropped = 0] = line.toString().split(' ').map(Number);
      expect([kept, dropped].map(isAlive)).toEqual([true, true]);
      // The whole group gets it, as after a Ctrl-C.
      process.kill(-(child.pid ?? 0), signal);
      await once(child, 'exit');
      await eventually(() => expect(isAlive(kept)).toBe(false));
      await eventually(() => expect(existsSync(folder)).toBe(false));
      expect(isAlive(dropped)).toBe(true);
      process.kill(dropped, 'SIGKILL');
    },
  );

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
