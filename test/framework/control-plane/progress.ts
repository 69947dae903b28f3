/** Gets one line of text, without a newline. */
export type Say = (line: string) => void;

export const sayOnStderr: Say = (line) => void process.stderr.write(`control plane: ${line}\n`);

/** 72_000 ms as `1m12s`. */
export function duration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${String(seconds % 60).padStart(2, '0')}s`;
}

/** Says `line()` now and every 15 s until `work` is done. */
export async function saying<T>(say: Say, line: () => string, work: () => Promise<T>): Promise<T> {
  say(line());
  const timer = setInterval(() => say(line()), 15_000);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
