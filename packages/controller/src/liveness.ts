/** Longer than any single request or write may take. */
const LIMIT_MS = 120_000;

/**
 * Why the leader's loop hangs, or undefined: a turn has been under way for too long and no write of it has ended meanwhile. A large fleet makes
 * long turns, and a loop that waits for changes makes none.
 */
export function stalled(turningForMs: number, sinceWriteMs: number): string | undefined {
  const ms = Math.min(turningForMs, sinceWriteMs);
  return ms <= LIMIT_MS ? undefined : `a turn of the loop hangs: nothing has come of it for ${Math.round(ms / 1000)} s`;
}
