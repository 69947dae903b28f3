import express, { type Request, type Response } from 'express';
import { type Infer, parse, type Schema } from '@brupop/shared/api/schema';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import { ApiError } from '../errors.ts';

/** What a call leaves for its log line and its metrics. */
export interface Locals {
  route?: string;
  /** The node of the caller, once it is authenticated. */
  node?: string;
}

export function localsOf(response: Response): Locals {
  return response.locals as Locals;
}

const BODY_LIMIT = 64 * 1024;
const parseJson = express.json({ limit: BODY_LIMIT, inflate: false });

/**
 * Reads a body of JSON; undefined when there is none or it has another content type. Throws
 * ApiError `TooLarge` or `BadRequest`. express.json reads a body that is too large to its end
 * before it says so; here it is rejected as soon as that is known.
 */
export async function readBody(request: Request, response: Response): Promise<unknown> {
  const tooLarge = (found: string): ApiError =>
    new ApiError('TooLarge', `body: expected at most ${BODY_LIMIT} bytes, found ${found}`);
  const announced = request.headers['content-length'] ?? '0';
  if (Number(announced) > BODY_LIMIT) throw tooLarge(announced);
  await new Promise<void>((resolve, reject) => {
    let length = 0;
    request.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length > BODY_LIMIT) reject(tooLarge('more'));
    });
    parseJson(request, response, (error?: unknown) => {
      if (error === undefined) resolve();
      else reject(new ApiError('BadRequest', `body: expected JSON: ${messageOf(error)}`, { cause: error }));
    });
  });
  return request.body;
}

/** Validates a body. Throws ApiError `BadRequest`: the field, what was expected, what was found. */
export function readAs<S extends Schema>(schema: S, body: unknown): Infer<S> {
  return parse(schema, body, 'body', (message) => new ApiError('BadRequest', message));
}

/** Throws ApiError `Unavailable` when `work` takes longer; it continues then. */
export async function inTime<T>(work: Promise<T>, clock: Clock, limitMs: number): Promise<T> {
  const late = Promise.withResolvers<never>();
  const cancel = clock.after(limitMs, () =>
    late.reject(new ApiError('Unavailable', `the token was not reviewed within ${limitMs} ms; repeat`)),
  );
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    cancel();
  }
}

/**
 * Runs `work` with a signal that aborts at the limit, when the agent disconnects, or with `stop`.
 */
export async function withinLimit(
  options: { response: Response; clock: Clock; stop: AbortSignal; limitMs: number },
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { response, clock, stop, limitMs } = options;
  const call = new AbortController();
  const abort = (why: string) => (): void => call.abort(new ApiError('Unavailable', why));
  const cancel = clock.after(limitMs, abort(`not done within ${limitMs} ms; repeat`));
  const onClose = abort('the agent closed the connection');
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
