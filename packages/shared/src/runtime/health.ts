/**
 * The plain HTTP listener for probes and metrics, which any pod can reach.
 *
 * A new connection is always accepted: above the limit, another one is closed. Connections without a
 * complete request are closed first, then those of the address with the most connections, then the
 * oldest. A connection serves one request, and is read no further than to the next one.
 */
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { systemClock } from './clock.ts';
import { messageOf } from './errors.ts';
import { dropBody, END_PARSING, parserOf } from './request-parser.ts';

/** Returns undefined when healthy, else the reason. */
type Check = () => string | undefined;

interface HealthOptions {
  readonly host: string;
  readonly port: number;
  readonly live: Check;
  readonly ready: Check;
  readonly metrics?: () => Promise<Metrics>;
  readonly signal: AbortSignal;
}

interface Metrics {
  readonly contentType: string;
  readonly body: string;
}

/** Time limit of a whole request, and of sending its response. */
const LIMIT_MS = 5_000;
const CHECK_MS = 2_500;
const MAX_CONNECTIONS = 64;
const HEADER_LIMIT = 4 * 1024;
/** Between two responses with metrics: one takes 8 ms of the processor with 5,000 open files, which it counts. */
const METRICS_PAUSE_MS = 250;
const TEXT = 'text/plain; charset=utf-8';

/** Resolves when the server listens, rejects when it cannot; closes it when `signal` aborts. */
export async function serveHealth(options: HealthOptions): Promise<void> {
  const served = { ...options, ...(options.metrics && { metrics: shared(options.metrics) }) };
  const connections = new Connections();
  const server = createServer(
    {
      headersTimeout: LIMIT_MS,
      requestTimeout: LIMIT_MS,
      connectionsCheckingInterval: CHECK_MS,
      maxHeaderSize: HEADER_LIMIT,
      // Otherwise Node answers by itself a request that names no host, and those that follow it.
      requireHostHeader: false,
    },
    (request, response) => {
      if (!connections.answers(request.socket)) return;
      readNoOther(request);
      void answer(served, request.url)
        .catch((error: unknown): Answer => ({ status: 500, body: messageOf(error) }))
        .then(({ status, contentType = TEXT, body }) =>
          response
            .writeHead(status, {
              'content-type': contentType,
              'content-length': Buffer.byteLength(body),
              connection: 'close',
            })
            .end(body),
        );
    },
  );
  server.setTimeout(LIMIT_MS);
  // The same for an expectation that Node does not know.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  connections.limit(server);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, options.host, resolve);
  });
  options.signal.addEventListener('abort', () => {
    server.close();
    server.closeAllConnections();
  });
}

/** Closes the connection at its next request, and drops a body. */
function readNoOther(request: IncomingMessage): void {
  const { socket } = request;
  const parser = parserOf(request);
  const next = (): number => {
    socket.destroy();
    return END_PARSING;
  };
  if (parser !== undefined) parser.onIncoming = next;
  // A chunk may be one byte, and each costs as much as a large one.
  if (request.headers['transfer-encoding'] !== undefined) socket.pause();
  dropBody(request);
}

class Connections {
  /** By remote address, oldest first; true when a request is complete. */
  readonly #open = new Map<string, Map<Socket, boolean>>();
  #count = 0;

  limit(server: Server): void {
    server.on('connection', (socket: Socket) => {
      const { remoteAddress = '' } = socket;
      if (this.#count >= MAX_CONNECTIONS) this.#closeOne();
      const sockets = this.#open.get(remoteAddress) ?? new Map<Socket, boolean>();
      this.#open.set(remoteAddress, sockets.set(socket, false));
      this.#count += 1;
      socket.once('close', () => this.#forget(remoteAddress, socket));
    });
  }

  /** False for a second request of the connection, which is closed then. */
  answers(socket: Socket): boolean {
    const sockets = this.#open.get(socket.remoteAddress ?? '');
    if (sockets?.get(socket) !== false) {
      socket.destroy();
      return false;
    }
    sockets.set(socket, true);
    return true;
  }

  #closeOne(): void {
    const largestFirst = [...this.#open].toSorted(([, one], [, other]) => other.size - one.size);
    const oldest = (complete: boolean): [string, Socket] | undefined => {
      for (const [address, sockets] of largestFirst)
        for (const [socket, answers] of sockets) if (answers === complete) return [address, socket];
      return undefined;
    };
    const [address, socket] = oldest(false) ?? oldest(true) ?? [];
    if (address === undefined || socket === undefined) return;
    this.#forget(address, socket);
    socket.destroy();
  }

  #forget(address: string, socket: Socket): void {
    const sockets = this.#open.get(address);
    if (sockets?.delete(socket) !== true) return;
    this.#count -= 1;
    if (sockets.size === 0) this.#open.delete(address);
  }
}

/** Callers share a response that is being computed, or that waits for METRICS_PAUSE_MS. */
function shared(make: () => Promise<Metrics>): () => Promise<Metrics> {
  let making: Promise<Metrics> | undefined;
  let madeAt = -Infinity;
  const makeNext = async (): Promise<Metrics> => {
    const waitMs = madeAt + METRICS_PAUSE_MS - systemClock.monotonic();
    if (waitMs > 0) await systemClock.sleep(waitMs);
    try {
      return await make();
    } finally {
      madeAt = systemClock.monotonic();
      making = undefined;
    }
  };
  return () => (making ??= makeNext());
}

interface Answer {
  readonly status: number;
  readonly contentType?: string;
  readonly body: string;
}

async function answer({ live, ready, metrics }: HealthOptions, path: string | undefined): Promise<Answer> {
  if (path === '/livez') return checked(live);
  if (path === '/readyz') return checked(ready);
  if (path === '/metrics' && metrics !== undefined) return { status: 200, ...(await metrics()) };
  return { status: 404, body: 'not found; try /livez, /readyz or /metrics\n' };
}

function checked(check: Check): Answer {
  const problem = check();
  return problem === undefined ? { status: 200, body: 'ok\n' } : { status: 503, body: `${problem}\n` };
}
