import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Agent, createServer, request, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { ServingCertificate } from '../certificates.ts';
import type { CallWatcher } from '../host/host.ts';
import type { Address } from '../kubelet/service-environment.ts';

/** The serving certificate of the operator's API server. */
export interface Apiserver {
  readonly serverName: string;
  readonly certificate: ServingCertificate;
}

/**
 * A TLS proxy between the agent of one node and the operator's API server. It reports each call
 * when it is sent and when its response is ready; the call waits for the receiver. Each connection
 * of the agent has one connection to the server.
 */
export class AgentCalls {
  readonly #watcher: CallWatcher;
  readonly #server: Server;
  readonly #onward = new WeakMap<Socket, Agent>();
  readonly #open = new Set<Agent>();
  readonly #apiserver: Apiserver;
  readonly #target: Address;

  private constructor(apiserver: Apiserver, target: Address, watcher: CallWatcher) {
    this.#watcher = watcher;
    this.#apiserver = apiserver;
    this.#target = target;
    const { key, cert } = apiserver.certificate;
    this.#server = createServer({ key, cert }, (call, answer) => {
      this.#pass(call, answer).catch(() => answer.destroy());
    });
    this.#server.on('secureConnection', (socket: Socket) => this.#connected(socket));
  }

  static async start(apiserver: Apiserver, target: Address, watcher: CallWatcher): Promise<AgentCalls> {
    const calls = new AgentCalls(apiserver, target, watcher);
    calls.#server.listen(0, '127.0.0.1');
    await once(calls.#server, 'listening');
    return calls;
  }

  get address(): Address {
    return { host: '127.0.0.1', port: (this.#server.address() as AddressInfo).port };
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    for (const agent of this.#open) agent.destroy();
    await once(this.#server, 'close');
  }

  #connected(socket: Socket): void {
    const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: this.#apiserver.certificate.caCert });
    this.#onward.set(socket, agent);
    this.#open.add(agent);
    socket.once('close', () => {
      agent.destroy();
      this.#open.delete(agent);
    });
  }

  async #pass(call: IncomingMessage, answer: ServerResponse): Promise<void> {
    const { method = '', url: path = '', headers } = call;
    if ((await this.#watcher({ moment: 'sent', method, path })) === 'drop') return void answer.destroy();
    const { serverName: servername } = this.#apiserver;
    const onward = request({
      ...this.#target,
      servername,
      method,
      path,
      headers,
      agent: this.#onward.get(call.socket),
    });
    onward.once('error', () => answer.destroy());
    answer.once('close', () => onward.destroy());
    call.pipe(onward);
    const [response] = (await once(onward, 'response')) as [IncomingMessage];
    if ((await this.#watcher({ moment: 'answered', method, path })) === 'drop') return void answer.destroy();
    response.once('error', () => answer.destroy());
    response.once('aborted', () => answer.destroy());
    answer.writeHead(response.statusCode ?? 0, response.headers);
    answer.flushHeaders();
    response.pipe(answer);
  }
}
