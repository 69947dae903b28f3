import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Agent, createServer, request as httpsRequest, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream';
import { makeServingCertificate, type ServingCertificate } from '../certificates.ts';
import type { Connection } from '../control-plane/connection.ts';
import { TcpForwarder } from '../kubelet/tcp-forwarder.ts';
import { Exchange } from './exchange.ts';
import { type Answer, type Fault, type Match, matches, seen, type SeenRequest, type Verb } from './faults.ts';

/**
 * A proxy on loopback to a real kube-apiserver that can replace responses. It ends TLS with its own
 * certificate and forwards tokens. `wire` cuts whole connections.
 */
export class FaultyApi {
  readonly wire: TcpForwarder;
  readonly #server: Server;
  readonly #target: Pick<Connection, 'url'>;
  readonly #agent: Agent;
  #certificate: ServingCertificate;
  readonly #faults: { fault: Fault; passing: number; left: number }[] = [];
  readonly #requests: SeenRequest[] = [];
  readonly #open = new Set<Exchange>();
  #replaced = 0;

  private constructor(
    target: Pick<Connection, 'url' | 'ca'>,
    server: Server,
    wire: TcpForwarder,
    certificate: ServingCertificate,
  ) {
    this.#target = target;
    this.#agent = new Agent({ keepAlive: true, ca: target.ca });
    this.#server = server;
    this.wire = wire;
    this.#certificate = certificate;
    server.on('request', (request: IncomingMessage, response: ServerResponse) => void this.#serve(request, response));
    server.on('tlsClientError', () => undefined);
  }

  static async start(target: Pick<Connection, 'url' | 'ca'>): Promise<FaultyApi> {
    const certificate = newCertificate();
    const server = createServer({ ...certificate, keepAliveTimeout: 60_000, requestTimeout: 0 });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const wire = await TcpForwarder.start(() => ({ host: '127.0.0.1', port }));
    return new FaultyApi(target, server, wire, certificate);
  }

  get url(): string {
    return `https://127.0.0.1:${this.wire.address.port}`;
  }

  /** PEM text of the authority that clients must trust. */
  get ca(): string {
    return this.#certificate.caCert;
  }

  /** The requests so far, in order. */
  get requests(): readonly SeenRequest[] {
    return this.#requests;
  }

  /** The number of responses that faults have replaced; of those that are lost, once the API server has answered. */
  get replaced(): number {
    return this.#replaced;
  }

  count(verb: Verb, path?: RegExp): number {
    return this.#requests.filter((request) => matches({ verbs: [verb], ...(path && { path }) }, request)).length;
  }

  /** Adds a fault for later requests. The first added fault that matches applies. */
  set(fault: Fault): void {
    this.#faults.push({ fault, passing: fault.after ?? 0, left: fault.times ?? Infinity });
  }

  /** Removes all faults. Responses that have started stay faulty. */
  clear(): void {
    this.#faults.length = 0;
  }

  /** Number of watches that the API server has accepted and not ended. */
  get openWatches(): number {
    return this.#watches().length;
  }

  /** Continues all open watches with `answer`. */
  interrupt(answer: Answer, match: Match = {}): void {
    for (const exchange of this.#watches()) if (matches(match, exchange.request)) exchange.interrupt(answer);
  }

  #watches(): Exchange[] {
    return [...this.#open].filter(({ request, open }) => open && request.verb === 'watch');
  }

  /** Shows a certificate of another authority to new connections. */
  replaceCertificate(): void {
    this.#certificate = newCertificate();
    this.#server.setSecureContext(this.#certificate);
  }

  async stop(): Promise<void> {
    await this.wire.stop();
    this.#server.closeAllConnections();
    this.#server.close();
    this.#agent.destroy();
    await once(this.#server, 'close');
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const unanswered = seen(request);
    const answer = this.#answerFor(unanswered);
    const named = { ...unanswered, ...(answer && { answer }) };
    this.#requests.push(named);
    const exchange = new Exchange(named, response, (query) =>
      this.#ask(request, `${named.path}?${query.toString()}`, response),
    );
    this.#open.add(exchange);
    response.once('close', () => this.#open.delete(exchange));
    await exchange.answer(answer).catch(() => response.destroy());
    if (answer !== undefined) this.#replaced += 1;
  }

  #answerFor(request: SeenRequest): Answer | undefined {
    const found = this.#faults.find(({ fault, left }) => left > 0 && matches(fault.match ?? {}, request));
    if (found === undefined) return undefined;
    if (found.passing > 0) {
      found.passing -= 1;
      return undefined;
    }
    found.left -= 1;
    return found.fault.answer;
  }

  #ask(request: IncomingMessage, path: string, response: ServerResponse): Promise<IncomingMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const { method, headers } = request;
    const onward = httpsRequest(`${this.#target.url}${path}`, {
      method: method ?? 'GET',
      headers: { ...headers, host: new URL(this.#target.url).host },
      agent: this.#agent,
    });
    onward.once('response', resolve);
    pipeline(request, onward, (error) => error && reject(error));
    response.once('close', () => response.writableFinished || onward.destroy(new Error('the client has gone')));
    onward.once('error', reject);
    return promise;
  }
}

function newCertificate(): ServingCertificate {
  return makeServingCertificate({ commonName: 'kube-apiserver', dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] });
}
