import { basename } from 'node:path';
import { CommanderError } from 'commander';
import { systemClock } from '@brupop/shared/runtime/clock';
import { processEnv } from '@brupop/shared/runtime/env';
import { connect } from './cluster/client.ts';
import { COMPLETE_COMMAND, COMPLETER } from './commands/completion.ts';
import { explainError } from './cluster/errors.ts';
import { programOf, type World } from './program.ts';

const DEFAULT_WIDTH = 80;
/** Exit codes of a program that was ended with Ctrl-C, or by SIGTERM. */
const ENDED = { SIGINT: 130, SIGTERM: 143 } as const;

// Of a terminal only, whatever their types say.
const output = process.stdout as Partial<typeof process.stdout>;
const isTerminal = output.isTTY === true;

async function main(): Promise<void> {
  let context = 'none';
  const end = new AbortController();
  endOn(end);
  const parts: Omit<World, 'connect'> = {
    clock: systemClock,
    signal: end.signal,
    // Read each time: a window may be resized.
    screen: {
      get width() {
        return output.columns || widthIn(processEnv()['COLUMNS']) || DEFAULT_WIDTH;
      },
      hasColors: isTerminal && !processEnv()['NO_COLOR'],
      get height() {
        // A terminal may not know its size.
        return isTerminal && processEnv()['TERM'] !== 'dumb' ? output.rows || undefined : undefined;
      },
    },
    print: (text) => void process.stdout.write(text),
    warn: (text) => void process.stderr.write(text),
  };
  const world: World = {
    ...parts,
    connect: (options) => {
      const hasTerminal = (process.stdin as Partial<typeof process.stdin>).isTTY === true;
      const client = connect({ ...options, clock: systemClock, hasTerminal, signal: end.signal });
      ({ context } = client);
      return { ...parts, client };
    },
  };
  try {
    const [, path = '', ...words] = process.argv;
    const isCompleter = basename(path) === COMPLETER;
    await programOf(world).parseAsync(isCompleter ? [COMPLETE_COMMAND, '--', ...words] : words, { from: 'user' });
  } catch (error) {
    if (end.signal.aborted) return;
    // commander has printed its own errors.
    if (error instanceof CommanderError) process.exitCode = error.exitCode;
    else {
      process.stderr.write(`error: ${explainError(error, context)}\n`);
      process.exitCode = 1;
    }
  }
}

/** Of the variable COLUMNS, which says how wide output that is no terminal may be; undefined: nothing usable. */
function widthIn(columns: string | undefined): number | undefined {
  const width = Number(columns);
  return Number.isInteger(width) && width > 0 ? width : undefined;
}

/** Every request and every loop ends with the signal; a second Ctrl-C ends the process at once. */
function endOn(end: AbortController): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      process.exitCode = ENDED[signal];
      end.abort();
    });
  process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
    // Its reader, such as head, has read enough.
    process.exitCode = code === 'EPIPE' ? 0 : 1;
    end.abort();
  });
}

await main();
