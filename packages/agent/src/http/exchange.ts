import type { ClientRequest, IncomingMessage } from 'node:http';
import { type Infer, parse, type Schema } from '@brupop/shared/api/schema';
import type { Clock } from '@brupop/shared/runtime/clock';
import { shorten } from '@brupop/shared/runtime/errors';
import { readText } from '@brupop/shared/runtime/http-credentials';

interface Request {
  readonly request: ClientRequest;
  readonly body?: string | undefined;
  /** Called right before the first byte is sent; it may throw to send nothing. */
  readonly guard?: (() => void) | undefined;
}

export interface Answer {
  readonly status: number;
  readonly body: string;
}

const MAX_ANSWER_BYTES = 256 * 1024;

/** Sends the request and waits for the head of the answer. Rejects when the connection breaks. */
export function responseOf({ request, body, guard }: Request): Promise<IncomingMessage> {
  if (body !== undefined) request.setHeader('content-type', 'application/json');
  return new Promise((resolve, reject) => {
    const send = (): void => {
      try {
        guard?.();
        request.end(body);
      } catch (error) {
        request.destroy(error as Error);
      }
    };
    request.once('response', resolve);
    // Stays for the whole life of the request: an unhandled error event ends the process.
    request.on('error', reject);
    request.once('close', () => reject(new Error('the connection was closed without an answer')));
    // A guard is called when a new connection is there, and the request is sent right after.
    if (guard === undefined) send();
    else request.once('socket', (socket) => socket.once('connect', send));
  });
}

/**
 * Waits for the complete answer. Rejects on a broken connection, a body over the limit, and when
 * `limitMs` passes. After SIGSTOP and SIGCONT an answer can be read before the timer fires: it is
 * discarded as stale.
 */
export async function exchange(sent: Request, limitMs: number, clock: Clock): Promise<Answer> {
  const endsAt = clock.monotonic() + limitMs;
  const limit = new AbortController();
  const late = new Error(`no complete answer within ${limitMs} ms`);
  const cancel = clock.after(limitMs, () => {
    limit.abort(late);
    sent.request.destroy(late);
  });
  try {
    const response = await responseOf(sent);
    const body = await bodyOf(response);
    // A body without a length looks complete when the limit cut it off.
    limit.signal.throwIfAborted();
    if (clock.monotonic() > endsAt) throw late;
    return { status: response.statusCode ?? 0, body };
  } finally {
    cancel();
  }
}

/** Reads a body. Throws when it is incomplete or too long. */
export async function bodyOf(response: IncomingMessage): Promise<string> {
  return readText(response, MAX_ANSWER_BYTES, () => new Error(`the answer is longer than ${MAX_ANSWER_BYTES} bytes`));
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
