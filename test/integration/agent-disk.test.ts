/** An agent writes nothing to disk; what it logs may end up on one that is full. */
import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';

const run = join(import.meta.dirname, '../../packages/shared/src/run.ts');
const program = `
  import { run } from ${JSON.stringify(run)};
  run('test', async ({ log, clock }) => {
    for (let n = 0; n < 20; n += 1) {
      log.info('a line that nobody takes');
      await clock.sleep(10);
    }
    process.stderr.write('went on to the end');
  });
`;

it('goes on when its log cannot be written because the disk is full', async () => {
  const full = openSync('/dev/full', 'w');
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['ignore', full, 'pipe'],
  });
  let said = '';
  child.stderr?.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const code = await new Promise((resolve) => void child.once('close', resolve));
  closeSync(full);
  expect([code, said]).toEqual([0, 'went on to the end']);
});
