import { type Clock, rfc3339Milli, systemClock } from './clock.ts';
import { escapeInvisible } from './errors.ts';

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
type LogLevel = (typeof LOG_LEVELS)[number];
type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** Writes one JSON object per line: `time`, `level`, `msg`, then the fields. */
export interface Logger {
  debug(msg: string, fields?: LogFields): void;
  info(msg: string, fields?: LogFields): void;
  warn(msg: string, fields?: LogFields): void;
  error(msg: string, fields?: LogFields): void;
  with(fields: LogFields): Logger;
}

interface LoggerOptions {
  readonly level?: LogLevel;
  readonly fields?: LogFields;
  readonly clock?: Clock;
  /** Receives each line with its newline; default standard output. */
  readonly write?: (line: string) => void;
}

export function createLogger({
  level = 'info',
  fields = {},
  clock = systemClock,
  write = (line) => void process.stdout.write(line),
}: LoggerOptions = {}): Logger {
  const lowest = LOG_LEVELS.indexOf(level);
  const at =
    (severity: LogLevel) =>
    (msg: string, more: LogFields = {}): void => {
      if (LOG_LEVELS.indexOf(severity) < lowest) return;
      const line = { time: rfc3339Milli(clock.now()), level: severity, msg, ...fields, ...more };
      write(`${escapeInvisible(JSON.stringify(line))}\n`);
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    with: (more) => createLogger({ level, fields: { ...fields, ...more }, clock, write }),
  };
}
