/**
 * Closes connections on which TLS carries next to nothing.
 *
 * OpenSSL accepts any number of KeyUpdates (RFC 8446, 4.6.3), and derives keys for each of these 27 bytes. Neither
 * Node's parser nor a limit of requests sees them, so a single node could occupy the event loop with them.
 *
 * server.ts calls it once.
 */
import type { Server } from 'node:https';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Connections } from './connections.ts';

/** A handshake takes 2 KiB, and a record that has not arrived as a whole up to 16 KiB. Each record adds 22 bytes. */
const OVERHEAD_LIMIT = 32 * 1024;
const CHECK_MS = 250;
const WHY = `TLS records with more than ${OVERHEAD_LIMIT} bytes beyond twice their content, such as many KeyUpdates`;

/** Checks all connections every 250 ms until the server is closed. */
export function limitOverhead(
  server: Server,
  connections: Pick<Connections, 'transportOf' | 'expel'>,
  clock: Pick<Clock, 'after'>,
): void {
  const open = new Map<TLSSocket, Socket>();
  server.on('secureConnection', (socket: TLSSocket) => {
    const transport = connections.transportOf(socket);
    if (transport === undefined) return;
    open.set(socket, transport);
    socket.once('close', () => open.delete(socket));
  });
  const check = (): (() => void) => {
    for (const [socket, transport] of open)
      if (transport.bytesRead - 2 * socket.bytesRead > OVERHEAD_LIMIT) connections.expel(socket, WHY);
    return clock.after(CHECK_MS, () => (cancel = check()));
  };
  let cancel = check();
  server.once('close', () => cancel());
}
