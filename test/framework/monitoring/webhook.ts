/** A server on loopback that receives notifications, and behaves as a test wants it to. */
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { createServer as createTLSServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { ServingCertificate } from '../certificates.ts';

export interface ReceivedRequest {
  readonly method: string | undefined;
  readonly path: string | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export type Behavior = (response: ServerResponse, request: ReceivedRequest) => void;

/** What a receiver may do, by name. */
export const BEHAVIORS = {
  accepts: (response) => response.end('ok'),
  /** It never answers. */
  hangs: () => undefined,
  /** It answers, and never ends its answer. */
  hangsInBody: (response) => void response.writeHead(200).write('o'),
  redirects: (response) => response.writeHead(307, { location: '/elsewhere' }).end(),
  fails: (response) => response.writeHead(500).end('https://hooks.example.com/hidden'),
  isBusy: (response) => response.writeHead(429, { 'retry-after': '30' }).end(),
  refuses: (response) => response.writeHead(404).end('no_service'),
  refusesContent: (response) => response.writeHead(400).end('invalid_payload'),
  closes: (response) => response.destroy(),
  answersTooMuch: (response) => flood(response.writeHead(200)),
  failsWithTooMuch: (response) => flood(response.writeHead(503)),
} satisfies Record<string, Behavior>;

const CHUNK = Buffer.alloc(64 * 1024, 'x');

/** Writes for as long as the other side reads. */
function flood(response: ServerResponse): void {
  const write = (): void => {
    while (!response.destroyed && response.write(CHUNK));
  };
  response.on('drain', write);
  write();
}

export class Webhook {
  readonly received: ReceivedRequest[] = [];
  behavior: Behavior = BEHAVIORS.accepts;
  readonly #server: Server;
  readonly #scheme: string;
  readonly #sockets = new Set<Socket>();

  private constructor(tls: ServingCertificate | undefined) {
    const listener: RequestListener = (request, response) => void this.#receive(request, response);
    this.#scheme = tls === undefined ? 'http' : 'https';
    this.#server =
      tls === undefined ? createServer(listener) : createTLSServer({ cert: tls.cert, key: tls.key }, listener);
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  /** @param tls - for HTTPS */
  static async start(tls?: ServingCertificate): Promise<Webhook> {
    const webhook = new Webhook(tls);
    await new Promise<void>((resolve) => {
      webhook.#server.listen(0, '127.0.0.1', resolve);
    });
    return webhook;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** With a path that must not be shown. */
  get address(): string {
    return `${this.#scheme}://127.0.0.1:${this.port}/services/hidden`;
  }

  /** Connections that are open now. */
  get open(): number {
    return this.#sockets.size;
  }

  /** The field `id` of what was received as JSON. */
  get ids(): string[] {
    return this.received.map(({ body }) => (JSON.parse(body) as { readonly id: string }).id);
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch {
      return;
    }
    const { method, url: path, headers } = request;
    const received = { method, path, headers, body: Buffer.concat(chunks).toString('utf8') };
    this.received.push(received);
    this.behavior(response, received);
  }
}
