import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer } from 'node:tls';

interface Parties {
  /** PEM texts of the server. */
  readonly cert: string;
  readonly key: string;
  /** PEM of what the client trusts. */
  readonly ca: string;
  /** The name that the client expects. */
  readonly name: string;
}

/** Connects over the loopback interface and returns the protocol. Throws why the client refuses. */
export async function tlsHandshake({ cert, key, ca, name }: Parties): Promise<string | null> {
  const server = createServer({ cert, key, minVersion: 'TLSv1.3' });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const socket = connect({ host: '127.0.0.1', port, servername: name, ca });
  try {
    await once(socket, 'secureConnect');
    return socket.getProtocol();
  } finally {
    socket.destroy();
    server.close();
  }
}
