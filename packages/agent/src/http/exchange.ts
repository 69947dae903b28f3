import type { ClientRequest, IncomingMessage } from 'node:http';
import { type Infer, parse, type Schema } from '@brupop/shared/api/schema';
import type { Clock } from '@brupop/shared/runtime/clock';
import { shorten } from '@brupop/shared/runtime/errors';

export interface Pending {
  readonly request: ClientRequest;
  readonly body?: string | undefined;
  readonly limitMs: number;
  readonly maxBytes: number;
  /** Called right before the first byte is sent; it may throw to send nothing. */
  readonly guard?: (() => void) | undefined;
}

export interface Answer {
  readonly status: number;
  readonly body: string;
}

/** Waits for the head of the answer. Rejects when the connection breaks or `limitMs` passes. */
export function responseOf(pending: Pending, clock: Clock): Promise<IncomingMessage> {
  const { request, limitMs } = pending;
  return new Promise((resolve, reject) => {
    const cancel = clock.after(limitMs, () => request.destroy(new Error(`no answer within ${limitMs} ms`)));
    request.once('response', (response) => {
      cancel();
      resolve(response);
    });
    // Stays for the whole life of the request: an unhandled error event ends the process.
    request.on('error', (error) => {
      cancel();
      reject(error);
    });
    request.once('close', () => {
      cancel();
      reject(new Error('the connection was closed without an answer'));
    });
    send(pending);
  });
}

function send({ request, body, guard }: Pending): void {
  if (guard === undefined) {
    request.end(body);
    return;
  }
  // Nothing is sent before the connection is there, and the request right after.
  request.once('socket', (socket) => {
    if (socket.connecting) socket.once('connect', () => sendGuarded(request, body, guard));
    else sendGuarded(request, body, guard);
  });
}

function sendGuarded(request: ClientRequest, body: string | undefined, guard: () => void): void {
  try {
    guard();
    request.end(body);
  } catch (error) {
    request.destroy(error as Error);
  }
}

/**
 * Waits for the complete answer. Rejects on a broken connection, a body over the limit, and when
 * `limitMs` passes. After SIGSTOP and SIGCONT an answer can be read before the timer fires: it is
 * discarded as stale.
 */
export async function exchange(pending: Pending, clock: Clock): Promise<Answer> {
  const { request, limitMs, maxBytes } = pending;
  const endsAt = clock.monotonic() + limitMs;
  const limit = new AbortController();
  const late = new Error(`no complete answer within ${limitMs} ms`);
  const cancel = clock.after(limitMs, () => {
    limit.abort(late);
    request.destroy(late);
  });
  try {
    const response = await responseOf(pending, clock);
    const body = await bodyOf(response, maxBytes);
    // A body without a length looks complete when the limit cut it off.
    limit.signal.throwIfAborted();
    if (clock.monotonic() > endsAt) throw late;
    return { status: response.statusCode ?? 0, body };
  } finally {
    cancel();
  }
}

/** Reads a body. Throws when it is incomplete or longer than `maxBytes`. */
export async function bodyOf(response: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new Error(`the answer is longer than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Reads JSON by its schema. `fail` returns the error to throw; its message names the field. */
export function readJson<S extends Schema>(
  schema: S,
  text: string,
  name: string,
  fail: (message: string, options?: ErrorOptions) => Error,
): Infer<S> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw fail(`${name}: expected JSON, found "${shorten(text, 100)}"`, { cause: error });
  }
  return parse(schema, value, name, fail);
}
