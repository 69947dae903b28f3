import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type * as ClientNode from '@kubernetes/client-node';
import { type Dispatcher, Pool } from 'undici';
import type { Clock } from '../runtime/clock.ts';
import { type Env, integer, requiredText, text } from '../runtime/env.ts';
import { ConfigError, messageOf } from '../runtime/errors.ts';
import type { Logger } from '../runtime/log.ts';

/** Where the Kubernetes API is, and where its credentials are. */
export type ClusterAccess =
  | { readonly kubeconfig: string }
  | { readonly host: string; readonly port: number; readonly serviceAccountDir: string };

/** The content of those files at one moment. */
interface Credentials {
  /** `https://host:port`, with a path prefix when the kubeconfig has one. */
  readonly server: string;
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  /** Bearer token of a kubeconfig. A pod's token is read for each request instead. */
  readonly token?: string;
}

export interface KubeConnectionOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly access: ClusterAccess;
}

const MAX_CONNECTIONS = 256;
const CONNECT_LIMIT_MS = 5_000;
/** Credentials are reloaded at most this often. */
const RELOAD_INTERVAL_MS = 1_000;

/** One pool of kept-alive connections to the Kubernetes API. It is recreated when the credentials on disk have changed. */
export class KubeConnection {
  readonly #options: KubeConnectionOptions;
  #credentials: Credentials;
  #pool: Pool;
  #reloadedAt = -Infinity;

  private constructor(options: KubeConnectionOptions, credentials: Credentials) {
    this.#options = options;
    this.#credentials = credentials;
    this.#pool = createPool(credentials);
  }

  /** Reads the credentials. Throws ConfigError or a file error when there are none. */
  static async open(options: KubeConnectionOptions): Promise<KubeConnection> {
    return new KubeConnection(options, await readCredentials(options.access));
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

/** Reads the environment of a pod or, outside of pods, KUBECONFIG. Throws ConfigError. */
export function clusterAccess(env: Env): ClusterAccess {
  const kubeconfig = text(env, 'KUBECONFIG', '');
  if (kubeconfig !== '') return { kubeconfig };
  return {
    host: requiredText(env, 'KUBERNETES_SERVICE_HOST'),
    port: integer(env, 'KUBERNETES_SERVICE_PORT', { min: 1, max: 65_535, fallback: 443 }),
    serviceAccountDir: text(env, 'SERVICE_ACCOUNT_DIR', '/var/run/secrets/kubernetes.io/serviceaccount'),
  };
}

/** Reads addresses and certificates. Throws ConfigError when they are missing. */
async function readCredentials(access: ClusterAccess): Promise<Credentials> {
  if ('kubeconfig' in access) return fromKubeconfig(access.kubeconfig);
  const host = access.host.includes(':') ? `[${access.host}]` : access.host;
  const ca = await readFile(join(access.serviceAccountDir, 'ca.crt'), 'utf8');
  return { server: `https://${host}:${access.port}`, ca };
}

/** Reads the bearer token: in a pod for each request, because the kubelet replaces it. Undefined when a certificate is the identity. */
async function readToken(access: ClusterAccess, credentials: Credentials): Promise<string | undefined> {
  if ('kubeconfig' in access) return credentials.token;
  return (await readFile(join(access.serviceAccountDir, 'token'), 'utf8')).trim();
}

async function fromKubeconfig(path: string): Promise<Credentials> {
  const { KubeConfig } = await kubeconfigLibrary();
  const config = new KubeConfig();
  config.loadFromFile(path);
  const server = config.getCurrentCluster()?.server;
  if (server === undefined) throw new ConfigError(`${path}: expected a current context with a cluster, found none`);
  const options: { ca?: unknown; cert?: unknown; key?: unknown; headers?: Record<string, unknown> } = {};
  await config.applyToHTTPSOptions(options as Parameters<typeof config.applyToHTTPSOptions>[0]);
  const [ca, cert, key] = [pem(options.ca), pem(options.cert), pem(options.key)];
  const token = bearer(options.headers?.['Authorization']);
  return { server, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }), ...(token && { token }) };
}

/** The bundles in the image leave the library out, because pods never need it. */
async function kubeconfigLibrary(): Promise<typeof ClientNode> {
  try {
    return await import('@kubernetes/client-node');
  } catch (error) {
    const message =
      'KUBECONFIG: kubeconfig files can be read only where the package @kubernetes/client-node is installed, found none';
    throw new ConfigError(message, { cause: error });
  }
}

function bearer(authorization: unknown): string | undefined {
  return typeof authorization === 'string' ? authorization.replace(/^Bearer /u, '') : undefined;
}

function pem(value: unknown): string | undefined {
  if (Buffer.isBuffer(value)) return value.toString('utf8');
  return typeof value === 'string' ? value : undefined;
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
