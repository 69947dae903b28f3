import { type Dispatcher, Pool } from 'undici';
import { messageOf } from '../runtime/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { type ClusterAccess, type Credentials, readCredentials, readToken } from './credentials.ts';

const MAX_CONNECTIONS = 256;
const CONNECT_LIMIT_MS = 5_000;
/** Credentials are reloaded at most this often. */
const RELOAD_INTERVAL_MS = 1_000;

export interface KubeConnectionOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly access: ClusterAccess;
}

/** One pool of kept-alive connections to the Kubernetes API. It is recreated when the credentials on disk have changed. */
export class KubeConnection {
  readonly #options: KubeConnectionOptions;
  #credentials: Credentials;
  #pool: Pool;
  #reloadedAt = -Infinity;

  constructor(options: KubeConnectionOptions, credentials: Credentials) {
    this.#options = options;
    this.#credentials = credentials;
    this.#pool = createPool(credentials);
  }

  /** `https://host:port`, with a path prefix when the kubeconfig has one. */
  get server(): string {
    return this.#credentials.server;
  }

  get dispatcher(): Dispatcher {
    return this.#pool;
  }

  /** The current bearer token, or undefined. Throws when its file cannot be read. */
  async token(): Promise<string | undefined> {
    return readToken(this.#options.access, this.#credentials);
  }

  /** Reads certificates and tokens again, in the background, and uses them if they were replaced. */
  reloadSoon(): void {
    const now = this.#options.clock.monotonic();
    if (now - this.#reloadedAt < RELOAD_INTERVAL_MS) return;
    this.#reloadedAt = now;
    this.#reload().catch((error: unknown) => {
      this.#options.log.warn('cannot reload the credentials of the Kubernetes API', { error: messageOf(error) });
    });
  }

  /** Closes all connections and cancels pending requests. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async #reload(): Promise<void> {
    const credentials = await readCredentials(this.#options.access);
    if (JSON.stringify(credentials) === JSON.stringify(this.#credentials)) return;
    const old = this.#pool;
    this.#credentials = credentials;
    this.#pool = createPool(credentials);
    this.#options.log.info('reloaded the credentials of the Kubernetes API', { server: credentials.server });
    await old.destroy();
  }
}

function createPool({ server, ca, cert, key }: Credentials): Pool {
  return new Pool(new URL(server).origin, {
    connections: MAX_CONNECTIONS,
    pipelining: 1,
    // On HTTP/2 every later request would share a half-open connection with the request that timed out on it.
    allowH2: false,
    keepAliveTimeout: 30_000,
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: { timeout: CONNECT_LIMIT_MS, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) },
  });
}
