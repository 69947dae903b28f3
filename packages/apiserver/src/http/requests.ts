/**
 * Which bytes of an accepted connection are read as requests.
 *
 * - A connection has one request at a time. Bytes that arrive before the response are not read, and
 *   the connection is closed after the response.
 * - Node's parser counts blank lines before a request neither as headers nor as a request. Therefore
 *   a connection is closed if it sends as many bytes as headers may have without a request.
 *
 * server.ts calls both functions once.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Server } from 'node:https';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '@brupop/shared/runtime/clock';
import { dropBody, END_PARSING, parserOf } from '@brupop/shared/runtime/request-parser';
import { closeGently } from './linger.ts';

/**
 * Passes on one request of a connection at a time. With a second one before the answer, and with a body in chunks,
 * the connection is read no further, and closed after the answer to the first.
 */
export function oneAtATime(listener: RequestListener, clock: Clock): RequestListener {
  return (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request;
    const parser = parserOf(request);
    if (parser === undefined) {
      socket.destroy();
      return;
    }
    let isLast = false;
    const stop = (): number => {
      isLast = true;
      socket.pause();
      return END_PARSING;
    };
    // A chunk may be one byte, and each costs as much as a large one. Node drops them then.
    if (request.headers['transfer-encoding'] !== undefined) {
      stop();
      dropBody(request);
    }
    const { onIncoming } = parser;
    const next = (...another: unknown[]): number => {
      if (isLast || !canFollow(response)) return stop();
      parser.onIncoming = onIncoming;
      return onIncoming?.(...another) ?? END_PARSING;
    };
    parser.onIncoming = next;
    response.once('close', () => {
      // The parser may serve the next request by now, or another connection.
      if (parser.onIncoming === next) parser.onIncoming = onIncoming;
      // Node may have resumed the socket to read the rest of the request.
      if (isLast) closeGently(socket, clock);
    });
    listener(request, response);
  };
}

/**
 * True when all of the response has been sent, and the connection stays open. A client may have received it, and sent
 * the next request, before Node emits `finish` and `close`.
 */
function canFollow(response: ServerResponse): boolean {
  return response.writableEnded && response.shouldKeepAlive && response.getHeader('connection') !== 'close';
}

/** Closes connections that send more than `limit` bytes which do not belong to a request. */
export function limitBlanks(server: Server, limit: number): void {
  const latest = new WeakMap<Socket, IncomingMessage>();
  server.on('request', (request) => latest.set(request.socket, request));
  server.on('secureConnection', (socket: TLSSocket) => {
    let before: IncomingMessage | undefined;
    let hasMore = false;
    let bytes = 0;
    // Node's parser has seen this piece already, and has found what it has of a request.
    socket.on('data', (piece: Buffer) => {
      const request = latest.get(socket);
      bytes = hasMore || request !== before ? 0 : bytes + piece.length;
      before = request;
      hasMore = request?.complete === false;
      if (bytes > limit && !socket.writableEnded) socket.destroy();
    });
  });
}
