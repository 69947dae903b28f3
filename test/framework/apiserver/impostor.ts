import { once } from 'node:events';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { APISERVER } from '../../../packages/shared/src/api/names.ts';
import { makeServingCertificate } from '../certificates.ts';
import type { Address } from '../kubelet/service-environment.ts';

/**
 * What stands behind an endpoint of the apiserver's Service without its private key: `forges` does
 * the TLS handshake with a certificate of the same name from an authority of its own, `hangs`
 * accepts connections and never answers, and `resets` ends each at once.
 */
export type Imposture = 'forges' | 'hangs' | 'resets';

export interface Impostor {
  /** PEM text of the authority that it has made up; of no use unless it forges. */
  readonly caCert: string;
  readonly address: Address;
  /** Connections so far. */
  readonly connections: number;
  /** What clients sent inside TLS; nothing when all of them refused the certificate. */
  readonly received: string;
  stop(): Promise<void>;
}

/** Starts one at an address, by default a free port of 127.0.0.1. */
export async function startImpostor(
  how: Imposture,
  names: readonly string[],
  { host, port }: Address = { host: '127.0.0.1', port: 0 },
): Promise<Impostor> {
  const sockets = new Set<Socket>();
  let connections = 0;
  let received = '';
  const { key, cert, caCert } = makeServingCertificate({ commonName: APISERVER, dnsNames: names });
  const server = how === 'forges' ? forger({ key, cert }, (text) => (received += text)) : createTcpServer();
  server.on('connection', (socket: Socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => sockets.delete(socket));
    if (how === 'resets') socket.resetAndDestroy();
  });
  server.listen(port, host);
  await once(server, 'listening');
  return {
    caCert,
    address: { host, port: (server.address() as AddressInfo).port },
    get connections() {
      return connections;
    },
    get received() {
      return received;
    },
    stop: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

function forger(pair: { key: string; cert: string }, receive: (text: string) => void): Server {
  const server = createTlsServer(pair, (socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (bytes: Buffer) => receive(bytes.toString('latin1')));
  });
  server.on('tlsClientError', () => undefined);
  return server;
}
