import type { Dispatcher } from 'undici';
import { messageOf } from '../runtime/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { KubeConnection } from './connection.ts';
import { type ClusterAccess, readCredentials } from './credentials.ts';
import { errorFromAnswer, KubeError } from './error.ts';

export { KubeError } from './error.ts';
export { clusterAccess } from './credentials.ts';
export type { ClusterAccess } from './credentials.ts';

const APPLY = 'application/apply-patch+yaml';
const REQUEST_LIMIT_MS = 10_000;
const UNAUTHORIZED = 401;

export interface KubeRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly signal?: AbortSignal;
  /** For the whole exchange; for a stream until it begins or is refused. Default 10 s. */
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

type Answer = Dispatcher.ResponseData;

/** A thin client of the Kubernetes API on one pool of kept-alive connections. It retries nothing: callers know what is safe. */
export class KubeClient {
  readonly #options: KubeClientOptions;
  readonly #connection: KubeConnection;
  readonly #mayWrite: (() => boolean) | undefined;

  constructor(options: KubeClientOptions, connection: KubeConnection, mayWrite?: () => boolean) {
    this.#options = options;
    this.#connection = connection;
    this.#mayWrite = mayWrite;
  }

  /**
   * The same client for a writer that may lose its right to write: `mayWrite` is asked in the very instant in which a request other than GET
   * goes out, after any wait for a token or a connection, so that a process that was frozen in between sends nothing. A request that is not
   * sent fails with a KubeError with the reason `Fenced`.
   */
  fenced(mayWrite: () => boolean): KubeClient {
    return new KubeClient(this.#options, this.#connection, mayWrite);
  }

  /** One call. Answers the parsed body. Throws KubeError; status 0 means that there was no answer. */
  async request<T>(request: KubeRequest): Promise<T> {
    return this.#limited(request, async (signal) => {
      const answer = await this.#send(request, signal);
      if (answer.statusCode >= 300) throw await this.#refusal(request, answer);
      return parse(request, await answer.body.text()) as T;
    });
  }

  /** A call whose body is read as it comes, for as long as it comes. Only the reflector uses it. Throws KubeError as `request` does. */
  async stream(request: KubeRequest): Promise<AsyncIterable<Uint8Array>> {
    return this.#limited(request, async (signal) => {
      const answer = await this.#send(request, signal);
      if (answer.statusCode >= 300) throw await this.#refusal(request, answer);
      return answer.body;
    });
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
    return this.request({ method: 'PATCH', path, body, query, contentType: APPLY, ...rest });
  }

  /** Ends all connections, calls under way included. */
  async close(): Promise<void> {
    await this.#connection.close();
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

  async #send(request: KubeRequest, signal: AbortSignal): Promise<Answer> {
    signal.throwIfAborted();
    const token = await this.#connection.token();
    const body = bodyOf(request);
    return this.#dispatcher(request).request({
      origin: new URL(this.#connection.server).origin,
      method: request.method,
      path: pathAndQuery(this.#connection.server, request),
      headers: {
        accept: 'application/json, */*',
        'user-agent': this.#options.userAgent,
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== null && { 'content-type': request.contentType ?? 'application/json' }),
      },
      body,
      signal,
    });
  }

  #dispatcher(request: KubeRequest): Dispatcher {
    const mayWrite = this.#mayWrite;
    const { dispatcher } = this.#connection;
    if (mayWrite === undefined || request.method === 'GET') return dispatcher;
    return dispatcher.compose(
      checkedBeforeStart(() => {
        if (!mayWrite())
          throw new KubeError(0, 'Fenced', `${request.method} ${request.path}: not sent: the right to write is lost`);
      }),
    );
  }

  async #refusal(request: KubeRequest, answer: Answer): Promise<KubeError> {
    if (answer.statusCode === UNAUTHORIZED) this.#connection.reloadSoon();
    return errorFromAnswer(request, answer.statusCode, answer.headers, await answer.body.text());
  }

  #unanswered(request: KubeRequest, error: unknown): unknown {
    if (error instanceof KubeError) return error;
    if (request.signal?.aborted === true) return request.signal.reason;
    this.#connection.reloadSoon();
    const message = `${request.method} ${request.path}: no answer from the Kubernetes API: ${messageOf(error)}`;
    return new KubeError(0, 'Unreachable', message, { cause: error });
  }
}

/** Reads the credentials and makes a client. Throws ConfigError or a file error when there are none. */
export async function createKubeClient(options: KubeClientOptions): Promise<KubeClient> {
  return new KubeClient(options, new KubeConnection(options, await readCredentials(options.access)));
}

/** undici starts a request in the same synchronous step in which it writes it to a connection; what `check` throws there fails it unsent. */
function checkedBeforeStart(check: () => void): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) => {
    const start = handler.onRequestStart?.bind(handler);
    handler.onRequestStart = (controller, context) => {
      check();
      start?.(controller, context);
    };
    return dispatch(options, handler);
  };
}

function bodyOf({ body, contentType }: KubeRequest): string | null {
  if (body === undefined) return null;
  return contentType === APPLY ? applyBody(body) : JSON.stringify(body);
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

/** Line breaks of YAML that are none of JSON, and what YAML forbids (YAML 1.1, 5.1 and 5.4). */
const OTHER_THAN_JSON = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/gu;
/** Half a surrogate pair, as JSON.stringify writes it; an even number of backslashes before it are none of its own. */
const LONE_SURROGATE = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/gu;

/**
 * JSON that means the same when it is read as YAML, which the API server does with what is applied: a text that has a line separator would come
 * out with spaces instead, and one with a control character would be refused. Half a surrogate pair becomes U+FFFD, as everywhere in Kubernetes.
 */
export function applyBody(value: unknown): string {
  return JSON.stringify(value)
    .replaceAll(OTHER_THAN_JSON, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .replaceAll(LONE_SURROGATE, '$1\\ufffd');
}
