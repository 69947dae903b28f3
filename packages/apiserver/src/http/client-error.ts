import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ApiErrorBody, ApiErrorCode } from '@brupop/shared/api/agent-protocol';
import type { Logger } from '@brupop/shared/runtime/log';
import type { Metrics } from '../metrics.ts';

interface Reply {
  readonly status: string;
  readonly code: ApiErrorCode;
  readonly message: string;
}

/** What the parser reports of a client that sends something else than HTTP, or too much of it, or too slowly. */
type ClientError = Error & { readonly code?: string };

/**
 * Answers what cannot be read as a request, in the form of the contract, and closes the connection. Requests that came whole before it on the
 * same connection are answered first. The log has the reason and nothing of what was sent.
 */
export function answerUnreadable(server: Server, metrics: Pick<Metrics, 'requests'>, log: Logger): void {
  const latest = new WeakMap<Duplex, { request: IncomingMessage; response: ServerResponse }>();
  const seen = new WeakSet<Duplex>();
  server.on('request', (request: IncomingMessage, response: ServerResponse) =>
    latest.set(request.socket, { request, response }),
  );
  server.on('clientError', (error: ClientError, socket: Duplex) => {
    if (seen.has(socket)) return;
    seen.add(socket);
    const reply = replyTo(error);
    if (reply === undefined) {
      socket.destroy();
      return;
    }
    const { code, message, status } = reply;
    const address = (socket as Partial<IncomingMessage['socket']>).remoteAddress;
    log.info('a call was refused', { route: 'other', address, code, error: message });
    metrics.requests.inc({ route: 'other', code: status.slice(0, 3) });
    const { request, response } = latest.get(socket) ?? {};
    const earlier = request?.complete === true && response?.writableFinished === false;
    if (earlier && response.headersSent) socket.destroy();
    else if (earlier) response.once('close', () => send(socket, reply));
    else send(socket, reply);
  });
}

/** Undefined: the client is gone, so nobody reads an answer. */
function replyTo({ code = '', message }: ClientError): Reply | undefined {
  if (code === 'HPE_HEADER_OVERFLOW')
    return { status: '431 Request Header Fields Too Large', code: 'TooLarge', message: 'the headers are too large' };
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW')
    return { status: '413 Payload Too Large', code: 'TooLarge', message: 'the chunk extensions are too large' };
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return { status: '408 Request Timeout', code: 'BadRequest', message: 'the request was not sent in time' };
  if (code === 'HPE_INVALID_EOF_STATE' || !code.startsWith('HPE_')) return undefined;
  return { status: '400 Bad Request', code: 'BadRequest', message: `expected HTTP/1.1: ${message}` };
}

function send(socket: Duplex, { status, code, message }: Reply): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const body = JSON.stringify({ error: { code, message } } satisfies ApiErrorBody);
  const head = `HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-type: application/json; charset=utf-8\r\n`;
  socket.end(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`, () => socket.destroy());
}
