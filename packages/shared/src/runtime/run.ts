import { RELEASE, REVISION } from './build.ts';
import { messageOf } from './errors.ts';
import { type Clock, systemClock } from './clock.ts';
import { type Env, oneOf, processEnv } from './env.ts';
import { createLogger, LOG_FORMATS, LOG_LEVELS, type LogFields, type Logger } from './log.ts';

export interface RunContext {
  /** Aborts on SIGTERM or SIGINT. `main` then cleans up and returns. */
  readonly signal: AbortSignal;
  readonly log: Logger;
  readonly clock: Clock;
  readonly env: Env;
}

/** The reason of the signal of a program that shuts down. */
class Stopped extends Error {
  override readonly name = 'Stopped';
}

const STOP_LIMIT_MS = 10_000;

/**
 * Runs a program. The process ends with 0 after a clean shutdown and with 1 after an unhandled
 * error, at the latest `stopLimitMs` (default 10 s) after the first signal. Each of its log lines has `fields`.
 */
export function run(
  name: string,
  main: (context: RunContext) => Promise<void>,
  options: { readonly stopLimitMs?: number; readonly fields?: (env: Env) => LogFields } = {},
): void {
  const env = processEnv();
  const clock = systemClock;
  const level = oneOf(env, 'LOG_LEVEL', LOG_LEVELS, 'info');
  const format = oneOf(env, 'LOG_FORMAT', LOG_FORMATS, 'json');
  const fields = { component: name, ...options.fields?.(env) };
  const log = createLogger({ level, format, fields, clock });
  log.info('starting', { release: RELEASE, commit: REVISION, nodejs: process.version });
  const stop = new AbortController();
  const fail = (error: unknown): void => {
    if (error instanceof Stopped) return process.exit(0);
    log.error('exiting with an error', {
      error: messageOf(error),
      stack: error instanceof Error ? error.stack : undefined,
    });
    return process.exit(1);
  };
  const onSignal = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) return;
    log.info('shutting down', { signal });
    stop.abort(new Stopped(`received ${signal}`));
    clock.after(options.stopLimitMs ?? STOP_LIMIT_MS, () => fail(new Error('did not stop in time')));
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  // A log that cannot be written, for example on a full disk, does not end the program.
  process.stdout.on('error', () => undefined);
  process.on('uncaughtException', fail);
  process.on('unhandledRejection', fail);
  main({ signal: stop.signal, log, clock, env }).then(() => process.exit(0), fail);
}
