import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A proxy to a loopback port that can be cut. */
export interface Proxy {
  readonly port: number;
  /** Cuts all connections, and new ones at once, until `heal`. */
  cut(): void;
  /** Accepts connections and forwards no byte until `heal`, like a frozen server. */
  freeze(): void;
  heal(): void;
  readonly close: () => Promise<void>;
}

/** Starts a proxy to a loopback port. */
export async function startProxy(target: number): Promise<Proxy> {
  const sockets = new Set<Socket>();
  let open = true;
  let frozen = false;
  const server = createServer((socket) => {
    if (!open) return void socket.destroy();
    const onward = connect(target, '127.0.0.1');
    for (const [one, other] of [
      [socket, onward],
      [onward, socket],
    ] as const) {
      sockets.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => sockets.delete(one) && other.destroy());
      one.pipe(other);
      if (frozen) one.pause();
    }
    return undefined;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = (): void => {
    open = false;
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    freeze: () => {
      frozen = true;
      for (const socket of sockets) socket.pause();
    },
    heal: () => {
      open = true;
      frozen = false;
      for (const socket of sockets) socket.resume();
    },
    close: async () => {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
