import { setTimeout as sleep } from 'node:timers/promises';

/** Takes turns until it is ended. Returns what ends it, and rejects if a turn has failed. */
export function again(turn: (count: number) => Promise<unknown>, pauseMs: number): () => Promise<void> {
  const end = new AbortController();
  const ended = (async (): Promise<void> => {
    for (let count = 0; !end.signal.aborted; count += 1) {
      await turn(count);
      await sleep(pauseMs);
    }
  })();
  ended.catch(() => undefined);
  return async () => {
    end.abort();
    await ended;
  };
}
