import type { Request, Response } from 'express';
import { type Infer, parse, type Schema } from '@brupop/shared/api/schema';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf, shorten } from '@brupop/shared/runtime/errors';
import { ApiError } from '../errors.ts';

/** What a call leaves for its log line and its metrics. */
export interface Locals {
  route?: string;
  /** The node of the caller, once it is authenticated. */
  node?: string;
  /** The node of the path, while the caller is not authenticated: anybody may name any node. */
  claimedNode?: string | undefined;
  /** The caller is authenticated and within the rate of its node. */
  admitted?: boolean;
}

export function localsOf(response: Response): Locals {
  return response.locals as Locals;
}

const BODY_LIMIT = 64 * 1024;
/** An agent's body comes in five pieces at most (TLS records of 16 KiB); each piece costs time. */
const MAX_PIECES = 256;
const JSON_TYPES: ReadonlySet<string> = new Set(['application/json', 'application/json; charset=utf-8']);

/**
 * Reads a body of JSON; undefined when there is none. Throws ApiError `TooLarge` or `BadRequest`,
 * as soon as that is known. The rest of the body is not read then.
 */
export async function readBody(request: Request): Promise<unknown> {
  const { 'content-length': announced = '0', 'content-type': type = 'none' } = request.headers;
  const { 'content-encoding': encoding, 'transfer-encoding': transfer } = request.headers;
  if (transfer !== undefined) throw new ApiError('BadRequest', 'Transfer-Encoding: expected Content-Length instead');
  if (announced === '0') return undefined;
  if (Number(announced) > BODY_LIMIT) throw tooLarge(announced);
  if (!JSON_TYPES.has(type.toLowerCase()))
    throw new ApiError('BadRequest', `Content-Type: expected application/json, found ${shorten(type, 80)}`);
  if (encoding !== undefined)
    throw new ApiError('BadRequest', `Content-Encoding: expected none, found ${shorten(encoding, 80)}`);
  const bytes = await bytesOf(request);
  if (bytes.length === 0) return undefined;
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as unknown;
  } catch (error) {
    throw new ApiError('BadRequest', `body: expected JSON: ${messageOf(error)}`, { cause: error });
  }
}

function tooLarge(found: string): ApiError {
  return new ApiError('TooLarge', `body: expected at most ${BODY_LIMIT} bytes, found ${found}`);
}

async function bytesOf(request: Request): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let length = 0;
  await new Promise<void>((resolve, reject) => {
    const stop = (error: ApiError): void => {
      request.off('data', take).pause();
      reject(error);
    };
    const take = (piece: Buffer): void => {
      length += piece.length;
      pieces.push(piece);
      if (length > BODY_LIMIT) stop(tooLarge('more'));
      else if (pieces.length > MAX_PIECES)
        stop(new ApiError('TooLarge', `body: expected at most ${MAX_PIECES} pieces, found more`));
    };
    const cut = (): void => reject(new ApiError('BadRequest', 'body: the connection was closed before its end'));
    request.on('data', take).once('end', resolve).once('error', cut).once('close', cut);
  });
  return Buffer.concat(pieces);
}

/** Answers with JSON, without those parts of express that are not in the bundle. */
export function answer(response: Response, status: number, value: unknown): void {
  const text = JSON.stringify(value);
  const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(text) };
  response.writeHead(status, headers).end(text);
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
 * Runs `work` with a signal that aborts at the limit, when the agent disconnects, or with `stop`. A limit that is over
 * already, as after SIGSTOP and SIGCONT, aborts it at once.
 */
export async function withinLimit(
  options: { what: string; response: Response; clock: Clock; stop: AbortSignal; limitMs: number },
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { what, response, clock, stop, limitMs } = options;
  const call = new AbortController();
  const abort = (why: string) => (): void => call.abort(new ApiError('Unavailable', why));
  // Without the time that was left, which differs each time: agents report other texts.
  const late = abort(`${what}: not done in time; repeat`);
  const cancel = clock.after(limitMs, late);
  const onClose = abort('the agent closed the connection');
  const onStop = abort('this replica is shutting down; repeat');
  response.once('close', onClose);
  stop.addEventListener('abort', onStop);
  if (response.closed) onClose();
  if (limitMs <= 0) late();
  try {
    await work(call.signal);
  } finally {
    cancel();
    response.off('close', onClose);
    stop.removeEventListener('abort', onStop);
  }
}
