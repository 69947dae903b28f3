import type { Server, Socket } from 'node:net';

/** Why a connection was refused: too many from one address, or too many at all. */
export type RefusedFor = 'address' | 'total';

export interface ConnectionLimits {
  /** Connections at a time; the next ones are closed at once. */
  readonly maxConnections: number;
  /** The same for each remote address, so that one node cannot use up all. */
  readonly maxConnectionsPerAddress: number;
  /** Told of each connection that is closed at once. */
  readonly refused: (limit: RefusedFor) => void;
}

/** Closes connections over the limits before their TLS handshake. */
export function limitConnections(server: Server, limits: ConnectionLimits): void {
  const { maxConnections, maxConnectionsPerAddress, refused } = limits;
  const open = new Map<string, number>();
  server.maxConnections = maxConnections;
  server.on('drop', () => refused('total'));
  server.on('connection', (socket: Socket) => {
    const { remoteAddress: address } = socket;
    // A client that has gone already has no address, and no connection either.
    if (address === undefined) return;
    const before = open.get(address) ?? 0;
    if (before >= maxConnectionsPerAddress) {
      refused('address');
      socket.destroy();
      return;
    }
    open.set(address, before + 1);
    socket.once('close', () => {
      const left = (open.get(address) ?? 1) - 1;
      if (left === 0) open.delete(address);
      else open.set(address, left);
    });
  });
}
