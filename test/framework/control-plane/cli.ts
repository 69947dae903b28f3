import { obtainPrograms } from './obtain.ts';
import { versions } from './versions.ts';

/**
 * `obtain` gets the programs of the test control plane ready and prints their paths; `versions`
 * prints their versions.
 */
async function main(command: string | undefined): Promise<void> {
  if (command !== 'obtain' && command !== 'versions') {
    throw new Error(`expected "obtain" or "versions", found ${JSON.stringify(command)}`);
  }
  const lines = Object.entries(command === 'obtain' ? await obtainPrograms() : versions);
  for (const [name, value] of lines) process.stdout.write(`${name} ${value}\n`);
}

try {
  await main(process.argv[2]);
} catch (error) {
  process.stderr.write(`control plane: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
