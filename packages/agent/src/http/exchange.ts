import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Clock } from '@brupop/shared/runtime/clock';

/** A request that was sent, to be answered. */
export interface Pending {
  readonly request: ClientRequest;
  readonly body?: string | undefined;
  /** The exchange is given up after so long, in milliseconds. */
  readonly limitMs: number;
  /** Bytes of the answer's body that are taken at most. */
  readonly maxBytes: number;
  /** Called right before the first byte goes out; what it throws ends the exchange without one. */
  readonly guard?: (() => void) | undefined;
}

export interface Answer {
  readonly status: number;
  readonly body: string;
}

/** Waits for the head of the answer. Rejects on a broken connection, and when `limitMs` runs out before. */
export function responseOf(pending: Pending, clock: Clock): Promise<IncomingMessage> {
  const { request, limitMs } = pending;
  return new Promise((resolve, reject) => {
    const cancel = clock.after(limitMs, () => request.destroy(new Error(`no answer within ${limitMs} ms`)));
    request.once('response', (response) => {
      cancel();
      resolve(response);
    });
    // Stays for the whole life of the request: an error event that nobody hears ends the process.
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
  // Until it is connected nothing goes out, and then at once.
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
 * Waits for the whole answer. Rejects on a broken connection, a body over the limit, and when `limitMs` runs out. A process that was stopped for a
 * while finds the answer before its timer fires: what it says may be long past, so it does not count.
 */
export async function exchange(pending: Pending, clock: Clock): Promise<Answer> {
  const { request, limitMs, maxBytes } = pending;
  const endsAt = clock.monotonic() + limitMs;
  const limit = new AbortController();
  const late = new Error(`no whole answer within ${limitMs} ms`);
  const cancel = clock.after(limitMs, () => {
    limit.abort(late);
    request.destroy(late);
  });
  try {
    const response = await responseOf(pending, clock);
    const body = await bodyOf(response, maxBytes);
    // A body without a length looks whole when we cut it off ourselves.
    limit.signal.throwIfAborted();
    if (clock.monotonic() > endsAt) throw late;
    return { status: response.statusCode ?? 0, body };
  } finally {
    cancel();
  }
}

/** Reads a body. Rejects when it breaks off or is longer than `maxBytes`. */
export function bodyOf(response: IncomingMessage, maxBytes: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > maxBytes) response.destroy(new Error(`the answer is longer than ${maxBytes} bytes`));
      else chunks.push(chunk);
    });
    response.once('end', () => resolve(Buffer.concat(chunks).toString('utf8')));
    response.once('error', reject);
    response.once('close', () => reject(new Error('the answer broke off')));
  });
}
