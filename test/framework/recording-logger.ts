import { createLogger, type Logger } from '../../packages/shared/src/runtime/log.ts';

/** A logger that keeps its lines for a test to look at instead of printing them. */
export function recordingLogger(): { log: Logger; lines: string[] } {
  const lines: string[] = [];
  return { log: createLogger({ level: 'debug', write: (line) => lines.push(line) }), lines };
}
