import { type Dispatcher, Pool } from 'undici';
import { messageOf } from '../runtime/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { type ClusterAccess, type Credentials, readCredentials, readToken } from './credentials.ts';

const MAX_CONNECTIONS = 256;
const CONNECT_LIMIT_MS = 5_000;
/** After a failure, credentials are read again at most this often. */
const RELOAD_INTERVAL_MS = 1_000;

export interface KubeConnectionOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly access: ClusterAccess;
}

/** One pool of kept-alive connections to the Kubernetes API, made anew when the credentials on disk have changed. */
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

  /** The bearer token to show now, or undefined. Throws when its file cannot be read. */
  async token(): Promise<string | undefined> {
    return readToken(this.#options.access, this.#credentials);
  }

  /** Certificates or tokens may have been replaced since they were read: reads them again, in the background, and uses them if they differ. */
  reloadSoon(): void {
    const now = this.#options.clock.monotonic();
    if (now - this.#reloadedAt < RELOAD_INTERVAL_MS) return;
    this.#reloadedAt = now;
    this.#reload().catch((error: unknown) => {
      this.#options.log.warn('cannot read the credentials of the Kubernetes API again', { error: messageOf(error) });
    });
  }

  /** Ends all connections, calls under way included. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async #reload(): Promise<void> {
    const credentials = await readCredentials(this.#options.access);
    if (JSON.stringify(credentials) === JSON.stringify(this.#credentials)) return;
    const old = this.#pool;
    this.#credentials = credentials;
    this.#pool = createPool(credentials);
    this.#options.log.info('the credentials of the Kubernetes API have changed', { server: credentials.server });
    await old.destroy();
  }
}

function createPool({ server, ca, cert, key }: Credentials): Pool {
  return new Pool(new URL(server).origin, {
    connections: MAX_CONNECTIONS,
    pipelining: 1,
    // On HTTP/2 a call that is given up leaves its connection in use, and with it one that is half-open, for every later call.
    allowH2: false,
    keepAliveTimeout: 30_000,
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: { timeout: CONNECT_LIMIT_MS, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) },
  });
}
