/**
 * One record per line, as JSON or as text for people. Fields often quote agents, hosts and users, so
 * nothing in them can end a line, reach a terminal or look like another field. A logger of a node
 * adds `node` and `attempt` to each of its lines: one grep for the node shows what happened to it.
 */
import { type Clock, rfc3339Milli, systemClock } from './clock.ts';
import { escapeInvisible } from './errors.ts';

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
export const LOG_FORMATS = ['json', 'text'] as const;
type LogFormat = (typeof LOG_FORMATS)[number];
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** Writes `time`, `level`, `msg`, then the fields; those that are undefined are left out. */
export interface Logger {
  debug(msg: string, fields?: LogFields): void;
  info(msg: string, fields?: LogFields): void;
  warn(msg: string, fields?: LogFields): void;
  error(msg: string, fields?: LogFields): void;
  /** @param fields - a function is called for each line */
  with(fields: LogFields | (() => LogFields)): Logger;
}

/** The logger of a node, with `node` and, during an update, `attempt` in each line. */
export type NodeLog = (node: string) => Logger;

interface LoggerOptions {
  readonly level?: LogLevel;
  readonly format?: LogFormat;
  readonly fields?: LogFields | (() => LogFields);
  readonly clock?: Clock;
  /** Receives each line with its newline; default standard output. */
  readonly write?: (line: string) => void;
}

export function createLogger({
  level = 'info',
  format = 'json',
  fields = {},
  clock = systemClock,
  write = (line) => void process.stdout.write(line),
}: LoggerOptions = {}): Logger {
  const lowest = LOG_LEVELS.indexOf(level);
  const at =
    (severity: LogLevel) =>
    (msg: string, more: LogFields = {}): void => {
      if (LOG_LEVELS.indexOf(severity) < lowest) return;
      const record = { time: rfc3339Milli(clock.now()), level: severity, msg, ...valuesOf(fields), ...more };
      write(`${escapeInvisible(LINES[format](record))}\n`);
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    with: (more) =>
      createLogger({ level, format, fields: () => ({ ...valuesOf(fields), ...valuesOf(more) }), clock, write }),
  };
}

function valuesOf(fields: LogFields | (() => LogFields)): LogFields {
  return typeof fields === 'function' ? fields() : fields;
}

interface LogRecord extends LogFields {
  readonly time: string;
  readonly level: LogLevel;
  readonly msg: string;
}

const LINES: Readonly<Record<LogFormat, (record: LogRecord) => string>> = {
  json: (record) => JSON.stringify(record),
  text: ({ time, level, msg, ...fields }) => {
    const known = Object.entries(fields).filter(([, value]) => value !== undefined);
    return [time, level.toUpperCase().padEnd(5), msg, ...known.map(([name, value]) => `${name}=${plain(value)}`)].join(
      ' ',
    );
  },
};

/** Quoted unless it is one word that cannot be mistaken for another field. */
function plain(value: LogFields[string]): string {
  return typeof value === 'string' && !/^[\w./:@+-]+$/u.test(value) ? JSON.stringify(value) : String(value);
}

/** A problem that is retried and lasts this long is a warning: a rolling upgrade ends sooner. */
const LASTING_MS = 60_000;

/**
 * The level of a problem that is retried: `info` when it appears, `warn` once when it has lasted, `debug`
 * in between and afterwards. One that no retry ends is a warning at once.
 */
export class RetriedProblem {
  readonly #clock: Pick<Clock, 'monotonic'>;
  #since: number | undefined;
  #kind = '';
  #hasWarned = false;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  levelOf(kind: string, { isLasting = false } = {}): LogLevel {
    const now = this.#clock.monotonic();
    this.#since ??= now;
    const isNew = kind !== this.#kind;
    this.#kind = kind;
    if (isLasting ? isNew || !this.#hasWarned : !this.#hasWarned && now - this.#since >= LASTING_MS) {
      this.#hasWarned = true;
      return 'warn';
    }
    return isNew ? 'info' : 'debug';
  }

  /** Whether it was a warning, and is not over. */
  get hasLasted(): boolean {
    return this.#hasWarned;
  }

  /** Returns whether the problem that is over was a warning. */
  ended(): boolean {
    const hasWarned = this.#hasWarned;
    this.#since = undefined;
    this.#kind = '';
    this.#hasWarned = false;
    return hasWarned;
  }
}
