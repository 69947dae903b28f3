import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { messageOf } from './errors.ts';

/** Returns undefined when healthy, else the reason. */
type Check = () => string | undefined;

interface HealthOptions {
  readonly host: string;
  readonly port: number;
  readonly live: Check;
  readonly ready: Check;
  readonly metrics?: () => Promise<{ readonly contentType: string; readonly body: string }>;
  readonly signal: AbortSignal;
}

const LIMIT_MS = 5_000;
const MAX_CONNECTIONS = 64;
const TEXT = 'text/plain; charset=utf-8';

/** Resolves when the server listens, rejects when it cannot; closes it when `signal` aborts. */
export async function serveHealth(options: HealthOptions): Promise<void> {
  const server = createServer(
    { headersTimeout: LIMIT_MS, requestTimeout: LIMIT_MS, keepAliveTimeout: 1_000 },
    (request, response) => {
      answer(options, request).then(
        ({ status, contentType = TEXT, body }) => send(response, status, contentType, body),
        (error: unknown) => send(response, 500, TEXT, messageOf(error)),
      );
    },
  );
  server.maxConnections = MAX_CONNECTIONS;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, options.host, resolve);
  });
  options.signal.addEventListener('abort', () => {
    server.close();
    server.closeAllConnections();
  });
}

interface Answer {
  readonly status: number;
  readonly contentType?: string;
  readonly body: string;
}

async function answer(options: HealthOptions, request: IncomingMessage): Promise<Answer> {
  switch (request.url) {
    case '/livez':
      return checked(options.live);
    case '/readyz':
      return checked(options.ready);
    case '/metrics':
      if (options.metrics !== undefined) return { status: 200, ...(await options.metrics()) };
      break;
    default:
  }
  return { status: 404, body: 'not found; try /livez, /readyz or /metrics\n' };
}

function checked(check: Check): Answer {
  const problem = check();
  return problem === undefined ? { status: 200, body: 'ok\n' } : { status: 503, body: `${problem}\n` };
}

function send(response: ServerResponse, status: number, contentType: string, body: string): void {
  response.writeHead(status, { 'content-type': contentType, 'content-length': Buffer.byteLength(body) });
  response.end(body);
}
