import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import type { Address } from './service-environment.ts';

/**
 * `reset`: connections end with RST, new ones too. `hang`: nothing passes in either direction, and
 * no side is told; `requests lost` and `answers lost`: in one direction only.
 */
export type Cut = 'reset' | 'hang' | 'requests lost' | 'answers lost';

interface Pair {
  readonly client: Socket;
  server: Socket | undefined;
  /** The other machine is lost: nothing comes back on this connection, not even its end. */
  stranded?: true;
}

/**
 * A listener on loopback that forwards each new connection to an address chosen at that moment, and
 * that can be cut.
 */
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
      else steer(pair, how);
    }
  }

  /**
   * Makes open connections hang without an end, as when the other machine is lost; new connections
   * pass.
   */
  strand(): void {
    for (const pair of this.#pairs) {
      pair.stranded = true;
      steer(pair, 'hang');
      pair.server?.destroy();
    }
  }

  /** Hanging connections continue, unless they are stranded. */
  heal(): void {
    this.#cut = undefined;
    for (const pair of this.#pairs) {
      if (pair.stranded === true) continue;
      if (pair.server === undefined) this.#join(pair);
      else steer(pair, undefined);
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
    else if (this.#cut !== 'hang') this.#join(pair);
  }

  #join(pair: Pair): void {
    const target = this.#target();
    if (target === undefined) {
      reset(pair);
      return;
    }
    const server = connect({ ...target, allowHalfOpen: true });
    pair.server = server;
    server.on('error', () => pair.stranded !== true && pair.client.resetAndDestroy());
    server.once('close', () => pair.stranded !== true && pair.client.destroy());
    steer(pair, this.#cut);
  }
}

/** Lets pass what the cut leaves. */
function steer({ client, server }: Pair, cut: Cut | undefined): void {
  if (server === undefined) return;
  pass(client, server, cut === undefined || cut === 'answers lost');
  pass(server, client, cut === undefined || cut === 'requests lost');
}

function pass(from: Socket, to: Socket, open: boolean): void {
  from.unpipe(to);
  if (open) from.pipe(to);
  else from.pause();
}

function reset({ client, server }: Pair): void {
  client.resetAndDestroy();
  server?.resetAndDestroy();
}
