import { CommanderError } from 'commander';
import { systemClock } from '@brupop/shared/runtime/clock';
import { processEnv } from '@brupop/shared/runtime/env';
import { connect } from './cluster/client.ts';
import { explainError } from './cluster/errors.ts';
import { programOf, type World } from './program.ts';

const DEFAULT_WIDTH = 80;

async function main(): Promise<void> {
  // Of a terminal only, whatever their types say.
  const { isTTY, columns } = process.stdout as Partial<typeof process.stdout>;
  let context = 'none';
  const parts: Omit<World, 'connect'> = {
    clock: systemClock,
    screen: {
      width: columns === undefined || columns === 0 ? DEFAULT_WIDTH : columns,
      hasColors: isTTY === true && !processEnv()['NO_COLOR'],
    },
    print: (text) => void process.stdout.write(text),
  };
  const world: World = {
    ...parts,
    connect: (options) => {
      const client = connect(options);
      ({ context } = client);
      return { ...parts, client };
    },
  };
  try {
    await programOf(world).parseAsync();
  } catch (error) {
    // commander has printed its own errors.
    if (error instanceof CommanderError) process.exitCode = error.exitCode;
    else {
      process.stderr.write(`error: ${explainError(error, context)}\n`);
      process.exitCode = 1;
    }
  }
}

await main();
