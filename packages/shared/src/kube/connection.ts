import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Dispatcher, Pool } from 'undici';
import type { Clock } from '../runtime/clock.ts';
import { type Env, integer, requiredText, text } from '../runtime/env.ts';
import { messageOf } from '../runtime/errors.ts';
import type { Logger } from '../runtime/log.ts';

/** Where the Kubernetes API is, and the folder with `token` and `ca.crt` of the service account. */
export interface ClusterAccess {
  readonly host: string;
  readonly port: number;
  readonly serviceAccountDir: string;
}

export interface KubeClientOptions {
  readonly userAgent: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly access: ClusterAccess;
}

/** They are opened when they are needed. A drain of an API server holds up to four of them. */
const MAX_CONNECTIONS = 1_024;
const CONNECT_LIMIT_MS = 5_000;
/** Keeps quiet watches open in NAT and load balancers, which drop idle connections after a minute. */
const TCP_KEEPALIVE_MS = 20_000;
const RELOAD_INTERVAL_MS = 1_000;
/** The kubelet replaces the token long before it expires. */
const TOKEN_MS = 60_000;

/** When a response was sent, epoch milliseconds by the API server's clock, and received, by this process' monotonic clock. */
interface ServerDate {
  readonly serverTime: number;
  readonly seenAt: number;
}

/** One pool of kept-alive connections, recreated when the certificate authority has changed. */
export class KubeConnection {
  readonly origin: string;
  readonly #options: KubeClientOptions;
  #ca: string;
  #pool: Pool;
  #reloadedAt = -Infinity;
  /** Those of the latest responses. */
  readonly latestDates: ServerDate[] = [];
  #token: { readonly text: string; readonly until: number } | undefined;

  private constructor(options: KubeClientOptions, ca: string) {
    const { host, port } = options.access;
    this.origin = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
    this.#options = options;
    this.#ca = ca;
    this.#pool = createPool(this.origin, ca);
  }

  /** Reads the credentials. Throws a file error when there are none. */
  static async open(options: KubeClientOptions): Promise<KubeConnection> {
    return new KubeConnection(options, await readCredential(options, 'ca.crt'));
  }

  get dispatcher(): Dispatcher {
    return this.#pool;
  }

  /** Read at least once a minute, because the kubelet replaces it. Throws a file error. */
  async token(): Promise<string> {
    const now = this.#options.clock.monotonic();
    if (this.#token !== undefined && now < this.#token.until) return this.#token.text;
    const text = (await readCredential(this.#options, 'token')).trim();
    this.#token = { text, until: now + TOKEN_MS };
    return text;
  }

  /** Call when a token was rejected: the next request reads the token again. */
  rejected(token: string): void {
    if (this.#token?.text === token) this.#token = undefined;
  }

  /** Reads the certificate authority in the background, and reconnects if it was replaced. */
  reloadSoon(): void {
    const { clock, log } = this.#options;
    const now = clock.monotonic();
    if (now - this.#reloadedAt < RELOAD_INTERVAL_MS) return;
    this.#reloadedAt = now;
    this.#reload().catch((error: unknown) =>
      log.warn('cannot reload the credentials of the Kubernetes API', { error: messageOf(error) }),
    );
  }

  /** Closes all connections and cancels pending requests. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async #reload(): Promise<void> {
    const ca = await readCredential(this.#options, 'ca.crt');
    if (ca === this.#ca) return;
    const old = this.#pool;
    this.#ca = ca;
    this.#pool = createPool(this.origin, ca);
    this.#options.log.info('reloaded the credentials of the Kubernetes API', { server: this.origin });
    await old.destroy();
  }
}

/** Reads the environment of a pod. Throws ConfigError. */
export function clusterAccess(env: Env): ClusterAccess {
  return {
    host: requiredText(env, 'KUBERNETES_SERVICE_HOST'),
    port: integer(env, 'KUBERNETES_SERVICE_PORT', { min: 1, max: 65_535, fallback: 443 }),
    serviceAccountDir: text(env, 'SERVICE_ACCOUNT_DIR', '/var/run/secrets/kubernetes.io/serviceaccount'),
  };
}

async function readCredential({ access }: KubeClientOptions, name: 'token' | 'ca.crt'): Promise<string> {
  return await readFile(join(access.serviceAccountDir, name), 'utf8');
}

function createPool(origin: string, ca: string): Pool {
  return new Pool(origin, {
    connections: MAX_CONNECTIONS,
    pipelining: 1,
    // On HTTP/2 later requests would share a half-open connection with one that timed out.
    allowH2: false,
    keepAliveTimeout: 30_000,
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: { timeout: CONNECT_LIMIT_MS, ca, keepAliveInitialDelay: TCP_KEEPALIVE_MS },
  });
}
