import { createServer } from 'node:http';
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
      void answer(options, request.url)
        .catch((error: unknown): Answer => ({ status: 500, body: messageOf(error) }))
        .then(({ status, contentType = TEXT, body }) =>
          response
            .writeHead(status, { 'content-type': contentType, 'content-length': Buffer.byteLength(body) })
            .end(body),
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
