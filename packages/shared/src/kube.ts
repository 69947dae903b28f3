import { Pool } from 'undici';
import type { Clock } from './clock.ts';
import { messageOf } from './errors.ts';
import type { ClusterAccess, Credentials } from './kube-access.ts';
import { readCredentials, readToken } from './kube-access.ts';
import { KubeError, errorFromAnswer } from './kube-error.ts';
import type { Logger } from './log.ts';

export { KubeError } from './kube-error.ts';
export { clusterAccess } from './kube-access.ts';
export type { ClusterAccess } from './kube-access.ts';

const MAX_CONNECTIONS = 256;
const CONNECT_LIMIT_MS = 5_000;
const REQUEST_LIMIT_MS = 10_000;
/** A stream without a byte for so long is dead: the API server sends a bookmark about once a minute. */
export const STREAM_SILENCE_LIMIT_MS = 100_000;
/** After a failed connection, certificates are read again at most this often. */
const RELOAD_INTERVAL_MS = 5_000;
const UNAUTHORIZED = 401;

export interface KubeRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly signal?: AbortSignal;
  /** For the whole exchange; for a stream until its head. Default 10 s. */
  readonly timeoutMs?: number;
}

interface WriteOptions {
  readonly query?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export interface KubeClientOptions {
  readonly userAgent: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly access: ClusterAccess;
}

type Answer = Awaited<ReturnType<Pool['request']>>;

/** A thin client of the Kubernetes API on one pool of kept-alive connections. It retries nothing: callers know what is safe. */
export class KubeClient {
  readonly #options: KubeClientOptions;
  #credentials: Credentials;
  #pool: Pool;
  #reloadedAt = 0;

  constructor(options: KubeClientOptions, credentials: Credentials) {
    this.#options = options;
    this.#credentials = credentials;
    this.#pool = createPool(credentials);
  }

  /** One call. Answers the parsed body. Throws KubeError; status 0 means that there was no answer. */
  async request<T>(request: KubeRequest): Promise<T> {
    return this.#limited(request, async (signal) => {
      const answer = await this.#send(request, signal);
      const body = await answer.body.text();
      if (answer.statusCode === UNAUTHORIZED) this.#reloadSoon();
      if (answer.statusCode >= 300) throw errorFromAnswer(request, answer.statusCode, answer.headers, body);
      return parse(request, body) as T;
    });
  }

  /** A call whose body is read as it comes. Only the reflector uses it. Throws KubeError as `request` does; a dead stream throws while it is read. */
  async stream(request: KubeRequest): Promise<AsyncIterable<Uint8Array>> {
    const answer = await this.#send(request, request.signal, STREAM_SILENCE_LIMIT_MS).catch((error: unknown) => {
      throw this.#unanswered(request, error);
    });
    if (answer.statusCode < 300) return answer.body;
    const body = await answer.body.text();
    throw errorFromAnswer(request, answer.statusCode, answer.headers, body);
  }

  /** JSON merge patch. A `metadata.resourceVersion` in the body makes it fail with 409 when the object has changed since. */
  mergePatch<T>(path: string, body: unknown, options: WriteOptions = {}): Promise<T> {
    return this.request({ method: 'PATCH', path, body, contentType: 'application/merge-patch+json', ...options });
  }

  /** Server-side apply. */
  apply<T>(
    path: string,
    body: unknown,
    options: { fieldManager: string; force?: boolean; signal?: AbortSignal },
  ): Promise<T> {
    const { fieldManager, force = false, ...rest } = options;
    const query = { fieldManager, force: String(force) };
    return this.request({ method: 'PATCH', path, body, query, contentType: 'application/apply-patch+yaml', ...rest });
  }

  /** Ends all connections, calls under way included. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async #limited<T>(request: KubeRequest, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const limit = new AbortController();
    const limitMs = request.timeoutMs ?? REQUEST_LIMIT_MS;
    const cancel = this.#options.clock.after(limitMs, () => limit.abort(new Error(`no answer within ${limitMs} ms`)));
    const signal = request.signal === undefined ? limit.signal : AbortSignal.any([limit.signal, request.signal]);
    try {
      return await call(signal);
    } catch (error) {
      throw this.#unanswered(request, error);
    } finally {
      cancel();
    }
  }

  async #send(request: KubeRequest, signal: AbortSignal | undefined, silenceLimitMs = 0): Promise<Answer> {
    signal?.throwIfAborted();
    const token = await readToken(this.#options.access, this.#credentials);
    const body = request.body === undefined ? null : JSON.stringify(request.body);
    return this.#pool.request({
      method: request.method,
      path: pathAndQuery(this.#credentials.server, request),
      headers: {
        accept: 'application/json, */*',
        'user-agent': this.#options.userAgent,
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== null && { 'content-type': request.contentType ?? 'application/json' }),
      },
      body,
      signal: signal ?? null,
      headersTimeout: request.timeoutMs ?? REQUEST_LIMIT_MS,
      bodyTimeout: silenceLimitMs,
    });
  }

  #unanswered(request: KubeRequest, error: unknown): unknown {
    if (error instanceof KubeError) return error;
    if (request.signal?.aborted === true) return request.signal.reason;
    this.#reloadSoon();
    const message = `${request.method} ${request.path}: no answer from the Kubernetes API: ${messageOf(error)}`;
    return new KubeError(0, 'Unreachable', message, { cause: error });
  }

  /** Certificates may have been replaced since they were read: read them again, in the background, and use them if they differ. */
  #reloadSoon(): void {
    const now = this.#options.clock.monotonic();
    if (now - this.#reloadedAt < RELOAD_INTERVAL_MS) return;
    this.#reloadedAt = now;
    this.#reload().catch((error: unknown) => {
      this.#options.log.warn('cannot read the credentials of the Kubernetes API again', { error: messageOf(error) });
    });
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

/** Reads the credentials and makes a client. Throws ConfigError or a file error when there are none. */
export async function createKubeClient(options: KubeClientOptions): Promise<KubeClient> {
  return new KubeClient(options, await readCredentials(options.access));
}

function createPool({ server, ca, cert, key }: Credentials): Pool {
  return new Pool(new URL(server).origin, {
    connections: MAX_CONNECTIONS,
    pipelining: 1,
    keepAliveTimeout: 30_000,
    connect: { timeout: CONNECT_LIMIT_MS, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) },
  });
}

function pathAndQuery(server: string, { path, query = {} }: KubeRequest): string {
  const prefix = new URL(server).pathname.replace(/\/$/u, '');
  const search = new URLSearchParams(query).toString();
  return `${prefix}${path}${search === '' ? '' : `?${search}`}`;
}

function parse(request: KubeRequest, body: string): unknown {
  try {
    return JSON.parse(body);
  } catch (error) {
    throw new KubeError(0, 'MalformedAnswer', `${request.method} ${request.path}: the answer is not JSON`, {
      cause: error,
    });
  }
}
