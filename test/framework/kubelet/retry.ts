import { KubeError } from '@brupop/shared/kube/client';
import { backoff } from '@brupop/shared/runtime/backoff';
import type { Clock } from '@brupop/shared/runtime/clock';

/**
 * Calls until there is an answer other than "try again" (no answer, 429, 5xx, concurrent writes),
 * with backoff; every other error is thrown. Ends with the signal's reason when it aborts.
 */
export async function persistently<T>(clock: Clock, signal: AbortSignal, call: () => Promise<T>): Promise<T> {
  const pause = backoff({ baseMs: 50, capMs: 2_000 });
  for (;;) {
    signal.throwIfAborted();
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof KubeError) || !isPassing(error)) throw error;
    }
    await clock.sleep(pause.next(), signal);
  }
}

/**
 * A 409 passes when others wrote at the same time, but not when the object is another one (UID
 * precondition).
 */
function isPassing({ status, message }: KubeError): boolean {
  if (status === 409) return message.includes('has been modified');
  return status === 0 || status === 429 || status >= 500;
}

/** Waits for all, also when some fail, then throws the first failure. */
export async function allSettled(promises: readonly Promise<unknown>[]): Promise<void> {
  const results = await Promise.allSettled(promises);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}
