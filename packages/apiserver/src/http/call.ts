import type { Response } from 'express';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Identity } from '../auth/authenticator.ts';
import { ApiError } from '../errors.ts';

/** An authenticated call. */
export interface Call {
  readonly identity: Identity;
  /** Parsed JSON, not validated. */
  readonly body: unknown;
  /** Aborts when the agent goes away, time is up or the process stops. */
  readonly signal: AbortSignal;
  readonly response: Response;
}

/** What the middlewares leave for each other. */
export interface Locals {
  /** For metrics. */
  route?: string;
  /** When the call came, monotonic milliseconds. */
  started?: number;
  identity?: Identity;
}

export function localsOf(response: Response): Locals {
  return response.locals as Locals;
}

/** What `work` comes to. Throws Failure `Unavailable` when that takes longer; `work` goes on then, for the next call to find. */
export async function inTime<T>(work: Promise<T>, clock: Clock, limitMs: number): Promise<T> {
  const late = Promise.withResolvers<never>();
  const cancel = clock.after(limitMs, () =>
    late.reject(new ApiError('Unavailable', `no word on the token within ${limitMs} ms; repeat`)),
  );
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    cancel();
  }
}

/** Runs `work` with a signal that aborts `limitMs` from now, when the agent goes away, or with `stop`. */
export async function withinLimit(
  options: { response: Response; clock: Clock; stop: AbortSignal; limitMs: number },
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { response, clock, stop, limitMs } = options;
  const call = new AbortController();
  const abort = (why: string) => (): void => call.abort(new ApiError('Unavailable', why));
  const cancel = clock.after(limitMs, abort(`not done within ${limitMs} ms; repeat`));
  const onClose = abort('the agent went away');
  const onStop = abort('this replica is shutting down; repeat');
  response.once('close', onClose);
  stop.addEventListener('abort', onStop);
  if (response.closed) onClose();
  try {
    await work(call.signal);
  } finally {
    cancel();
    response.off('close', onClose);
    stop.removeEventListener('abort', onStop);
  }
}
