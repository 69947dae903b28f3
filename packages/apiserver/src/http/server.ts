import type { RequestListener } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { SecureContextOptions } from 'node:tls';
import type { Clock } from '@brupop/shared/runtime/clock';
import { type ConnectionLimits, limitConnections } from './connections.ts';
import type { ServingCertificate } from './tls.ts';

export interface ServerOptions {
  readonly listener: RequestListener;
  readonly certificate: ServingCertificate;
  readonly limits: ConnectionLimits;
}

const HEADER_LIMIT = 16 * 1024;
/** How long a client gets for its handshake, its headers, its whole request. */
const HANDSHAKE_MS = 10_000;
const HEADERS_MS = 10_000;
const REQUEST_MS = 15_000;
const KEEP_ALIVE_MS = 60_000;
/** A connection that moves no byte for so long is cut; streams have heartbeats. */
const SILENCE_MS = 90_000;
/** After this, what is still open at a stop is cut. */
const CLOSE_MS = 3_000;

/** An HTTPS listener with limits on everything that a client could draw out. */
export function createHttpsServer({ listener, certificate, limits }: ServerOptions): Server {
  const server = createServer(
    {
      ...secureContext(certificate),
      handshakeTimeout: HANDSHAKE_MS,
      maxHeaderSize: HEADER_LIMIT,
      headersTimeout: HEADERS_MS,
      requestTimeout: REQUEST_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: 5_000,
    },
    listener,
  );
  limitConnections(server, limits);
  server.setTimeout(SILENCE_MS);
  return server;
}

/** What `Server.setSecureContext` takes to serve new connections with another certificate. */
export function secureContext({ cert, key }: ServingCertificate): SecureContextOptions {
  return { cert, key, minVersion: 'TLSv1.2' };
}

/** Resolves with the port when the server listens; rejects when it cannot. */
export async function listen(server: Server, host: string, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  return (server.address() as AddressInfo).port;
}

/** Takes no more connections, lets answers under way finish for 3 s, then cuts what is left. */
export async function close(server: Server, clock: Clock): Promise<void> {
  const cancel = clock.after(CLOSE_MS, () => server.closeAllConnections());
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeIdleConnections();
  });
  cancel();
}
