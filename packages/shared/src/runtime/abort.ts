import { addAbortListener } from 'node:events';

/** Undefined if `signal` aborts first; what was waited for goes on. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  const listener = addAbortListener(signal, () => resolve(undefined));
  return await Promise.race([promise, aborted]).finally(() => listener[Symbol.dispose]());
}
