/**
 * The HTTPS listener for agents. It limits connections (connections.ts), their requests
 * (requests.ts), what TLS adds to them (overhead.ts), the time for the handshake, the headers and the whole request,
 * and connections on which no byte moves. Requests that cannot be parsed are answered in the form of the protocol.
 */
import { type IncomingMessage, type RequestListener, type ServerResponse, STATUS_CODES } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContextOptions } from 'node:tls';
import type { ApiErrorBody, ApiErrorCode } from '@brupop/shared/api/agent-protocol';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { Metrics } from '../metrics.ts';
import type { Connections } from './connections.ts';
import { closeGently } from './linger.ts';
import { limitOverhead } from './overhead.ts';
import { limitBlanks, oneAtATime } from './requests.ts';
import type { KeyPair } from './tls.ts';

export interface ServerOptions {
  readonly listener: RequestListener;
  readonly certificate: KeyPair;
  readonly connections: Connections;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'requests'>;
  readonly log: Logger;
}

/** An agent sends about 1.5 KiB, most of it the token. */
const HEADER_LIMIT = 8 * 1024;
/**
 * The groups of a default client, without those in which a key exchange costs milliseconds. The
 * first one is what a Node.js client offers.
 */
const GROUPS = 'X25519MLKEM768:X25519:P-256:P-384';
const HANDSHAKE_MS = 10_000;
const HEADERS_MS = 10_000;
const REQUEST_MS = 15_000;
const KEEP_ALIVE_MS = 60_000;
/** A connection is closed when no byte moves on it for this long; streams have heartbeats. */
const INACTIVITY_MS = 90_000;
/** How long answers under way may take after the server was asked to stop. */
const CLOSE_MS = 3_000;

export function createHttpsServer(options: ServerOptions): Server {
  const server = createServer(
    {
      ...secureContext(options.certificate),
      handshakeTimeout: HANDSHAKE_MS,
      maxHeaderSize: HEADER_LIMIT,
      headersTimeout: HEADERS_MS,
      requestTimeout: REQUEST_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: 5_000,
      // Otherwise Node answers by itself a request that names no host, and those that follow it.
      requireHostHeader: false,
    },
    oneAtATime(options.listener, options.clock),
  );
  server.setTimeout(INACTIVITY_MS);
  // The same for an expectation that Node does not know.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  options.connections.limit(server);
  limitBlanks(server, HEADER_LIMIT);
  limitOverhead(server, options.connections, options.clock);
  answerUnparsable(server, options);
  return server;
}

/** What `Server.setSecureContext` takes to serve new connections with another certificate. */
export function secureContext({ cert, key }: KeyPair): SecureContextOptions {
  return { cert, key, minVersion: 'TLSv1.3', ecdhCurve: GROUPS };
}

/** Resolves with the port when the server listens; rejects when it cannot. */
export async function listen(server: Server, host: string, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  return (server.address() as AddressInfo).port;
}

/** Accepts no more connections, lets answers finish for 3 s, then closes what is left. */
export async function close(server: Server, connections: Connections, clock: Clock): Promise<void> {
  const cancel = clock.after(CLOSE_MS, () => connections.closeAll());
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeIdleConnections();
  });
  cancel();
}

type Reply = readonly [status: number, code: ApiErrorCode, message: string];

/** Answers to errors of the parser and of the time limits; those to others are 400. */
const REPLIES: Readonly<Record<string, Reply>> = {
  HPE_HEADER_OVERFLOW: [431, 'TooLarge', 'the headers are too large'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, 'TooLarge', 'the chunk extensions are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'BadRequest', 'the request was not sent in time'],
};

/**
 * Answers what cannot be parsed as a request and closes the connection, after the answer to a whole
 * request before it on the same connection. The log has the reason and nothing of what was sent.
 */
function answerUnparsable(server: Server, { clock, metrics, log }: ServerOptions): void {
  const latest = new WeakMap<Duplex, { request: IncomingMessage; response: ServerResponse }>();
  const seen = new WeakSet<Duplex>();
  server.on('request', (request, response) => latest.set(request.socket, { request, response }));
  server.on('clientError', (error, socket) => {
    if (seen.has(socket)) return;
    seen.add(socket);
    const reply = replyTo(error);
    if (reply === undefined) {
      socket.destroy();
      return;
    }
    const [status, code, message] = reply;
    const address = (socket as Partial<Socket>).remoteAddress;
    log.info('request rejected', { route: 'other', address, code, error: message });
    metrics.requests.inc({ route: 'other', code: String(status) });
    const { request, response } = latest.get(socket) ?? {};
    const earlier = request?.complete === true && response?.writableFinished === false;
    if (earlier && response.headersSent) socket.destroy();
    else if (earlier) response.once('close', () => send(socket, clock, reply));
    else send(socket, clock, reply);
  });
}

/** Undefined when the client has closed the connection, so that no answer reaches it. */
function replyTo({ code = '', message }: NodeJS.ErrnoException): Reply | undefined {
  if (code === 'HPE_INVALID_EOF_STATE') return undefined;
  return REPLIES[code] ?? (code.startsWith('HPE_') ? [400, 'BadRequest', `expected HTTP/1.1: ${message}`] : undefined);
}

function send(socket: Duplex, clock: Clock, [status, code, message]: Reply): void {
  const body = JSON.stringify({ error: { code, message } } satisfies ApiErrorBody);
  const line = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
  const head = `${line}connection: close\r\ncontent-type: application/json; charset=utf-8\r\n`;
  closeGently(socket as Socket, clock, `${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}
