import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import type { Address } from './service-environment.ts';

/** `reset`: connections end with RST, new ones too. `hang`: nothing passes in either direction, and nobody is told. */
export type Cut = 'reset' | 'hang';

interface Pair {
  readonly client: Socket;
  server: Socket | undefined;
}

/** A listener on loopback that forwards each new connection to an address chosen at that moment, and that can be cut. */
export class TcpForwarder {
  readonly #server: Server;
  readonly #target: () => Address | undefined;
  readonly #pairs = new Set<Pair>();
  #cut: Cut | undefined;

  private constructor(target: () => Address | undefined) {
    this.#target = target;
    this.#server = createServer({ pauseOnConnect: true, allowHalfOpen: true }, (client) => this.#accept(client));
  }

  /** @param target - undefined resets the connection */
  static async start(target: () => Address | undefined): Promise<TcpForwarder> {
    const forwarder = new TcpForwarder(target);
    forwarder.#server.listen(0, '127.0.0.1');
    await once(forwarder.#server, 'listening');
    return forwarder;
  }

  get address(): Address {
    return { host: '127.0.0.1', port: (this.#server.address() as AddressInfo).port };
  }

  /** Connections that are open. */
  get connections(): number {
    return this.#pairs.size;
  }

  cut(how: Cut): void {
    this.#cut = how;
    for (const pair of this.#pairs) {
      if (how === 'reset') reset(pair);
      else hold(pair);
    }
  }

  /** Connections that hung go on. */
  heal(): void {
    this.#cut = undefined;
    for (const pair of this.#pairs) {
      if (pair.server === undefined) this.#join(pair);
      else flow(pair.client, pair.server);
    }
  }

  async stop(): Promise<void> {
    this.#server.close();
    for (const pair of this.#pairs) reset(pair);
    await once(this.#server, 'close');
  }

  #accept(client: Socket): void {
    const pair: Pair = { client, server: undefined };
    this.#pairs.add(pair);
    client.on('error', () => undefined);
    client.once('close', () => {
      this.#pairs.delete(pair);
      pair.server?.destroy();
    });
    if (this.#cut === 'reset') reset(pair);
    else if (this.#cut === undefined) this.#join(pair);
  }

  #join(pair: Pair): void {
    const target = this.#target();
    if (target === undefined) {
      reset(pair);
      return;
    }
    const server = connect({ ...target, allowHalfOpen: true });
    pair.server = server;
    server.on('error', () => pair.client.resetAndDestroy());
    server.once('close', () => pair.client.destroy());
    if (this.#cut === undefined) flow(pair.client, server);
  }
}

function flow(client: Socket, server: Socket): void {
  client.pipe(server);
  server.pipe(client);
}

function hold({ client, server }: Pair): void {
  if (server === undefined) return;
  client.unpipe(server);
  server.unpipe(client);
  client.pause();
  server.pause();
}

function reset({ client, server }: Pair): void {
  client.resetAndDestroy();
  server?.resetAndDestroy();
}
