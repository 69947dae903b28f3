import type { Dispatcher } from 'undici';
import { WRITE_LIMIT_MS } from '../api/deadlines.ts';
import { parseTime } from '../runtime/clock.ts';
import { escapeOf, messageOf } from '../runtime/errors.ts';
import { readText } from '../runtime/http-credentials.ts';
import { type KubeClientOptions, KubeConnection } from './connection.ts';
import { errorFromAnswer, hasStatus, KubeError, TOO_LARGE } from './error.ts';

export { KubeError } from './error.ts';
export { type ClusterAccess, clusterAccess } from './connection.ts';

const APPLY = 'application/apply-patch+yaml';
const READ_LIMIT_MS = 10_000;
const UNAUTHORIZED = 401;
/** How many dates of responses are kept. Connections are kept, too, so all may be of one kube-apiserver. */
const DATES = 16;
/** More than one object can take; a character may take six bytes in JSON. */
const MAX_RESPONSE_BYTES = 16 * 1024 * 1024;

export interface KubeRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly signal?: AbortSignal | undefined;
  /** For the whole exchange; for a stream until the response headers. Default 10 s, for writes 15 s. */
  readonly timeoutMs?: number | undefined;
  /** Of the response, which is not read any further; not of a stream. Default 16 MiB. */
  readonly maxBytes?: number | undefined;
}

type Answer = Dispatcher.ResponseData;

/** Retries nothing: callers know what is safe to retry. */
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
   * A client for the leader, on the same connections. It asks `mayWrite` right before each request
   * other than GET is sent, after the token was read, so that a process that was frozen in between
   * sends nothing. A request that is not sent fails with the reason `Fenced`.
   */
  fenced(mayWrite: () => boolean): KubeClient {
    return new KubeClient(this.#options, this.#connection, mayWrite);
  }

  /**
   * Returns the parsed body. Throws KubeError, with status 0 when there was no response or one that
   * is too large.
   */
  async request<T>(request: KubeRequest): Promise<T> {
    return this.#limited(request, async ({ body }) => parse(request, await textOf(request, body)) as T);
  }

  /** Reads an object; undefined when there is none. Throws KubeError. */
  async find<T>(path: string, signal?: AbortSignal): Promise<T | undefined> {
    try {
      return await this.request<T>({ method: 'GET', path, signal });
    } catch (error) {
      if (hasStatus(error, 404)) return undefined;
      throw error;
    }
  }

  /** Returns the body as it arrives, for watches. Throws KubeError as `request` does. */
  async stream(request: KubeRequest): Promise<AsyncIterable<Uint8Array>> {
    return this.#limited(request, async ({ body }) => body);
  }

  /** Fails with 409 when the object no longer has the `metadata.resourceVersion` of the body. */
  mergePatch<T>(path: string, body: unknown, options: { signal: AbortSignal; timeoutMs?: number }): Promise<T> {
    return this.request({ method: 'PATCH', path, body, contentType: 'application/merge-patch+json', ...options });
  }

  /** Server-side apply; takes fields over from other field managers. */
  apply<T>(path: string, body: unknown, options: { fieldManager: string; signal: AbortSignal }): Promise<T> {
    const { fieldManager, signal } = options;
    const query = { fieldManager, force: 'true' };
    return this.request({ method: 'PATCH', path, body, query, contentType: APPLY, signal });
  }

  /**
   * By how much this machine's clock is ahead of the API server's now, also if it was set since the latest answer;
   * undefined if that is unknown. Of the latest responses the one counts that differs least: one of several
   * kube-apiservers may have a wrong clock, and drains would end by it.
   */
  clockSkewMs(): number | undefined {
    const { clock } = this.#options;
    const [now, monotonic] = [clock.now(), clock.monotonic()];
    const skews = this.#connection.latestDates.map(({ serverTime, seenAt }) => now - (serverTime + monotonic - seenAt));
    const least = Math.min(...skews.map(Math.abs));
    return skews.find((skew) => Math.abs(skew) === least);
  }

  async close(): Promise<void> {
    await this.#connection.close();
  }

  async #limited<T>(request: KubeRequest, read: (answer: Answer) => Promise<T>): Promise<T> {
    const limit = new AbortController();
    const isRead = request.method === 'GET';
    const limitMs = request.timeoutMs ?? (isRead ? READ_LIMIT_MS : WRITE_LIMIT_MS);
    const hint = isRead ? '' : '; an admission webhook may not answer';
    const tooLate = (): void => limit.abort(new Error(`no response within ${limitMs} ms${hint}`));
    const cancel = this.#options.clock.after(limitMs, tooLate);
    const signal = request.signal === undefined ? limit.signal : AbortSignal.any([limit.signal, request.signal]);
    try {
      const token = await this.#connection.token();
      const answer = await this.#send(request, token, signal);
      this.#noteDate(answer);
      if (answer.statusCode === UNAUTHORIZED) {
        this.#connection.rejected(token);
        this.#connection.reloadSoon();
      }
      if (answer.statusCode >= 300)
        throw errorFromAnswer(request, answer.statusCode, answer.headers, await textOf(request, answer.body));
      return await read(answer);
    } catch (error) {
      throw this.#unanswered(request, error);
    } finally {
      cancel();
    }
  }

  async #send(request: KubeRequest, token: string, signal: AbortSignal): Promise<Answer> {
    signal.throwIfAborted();
    const body = bodyOf(request);
    if (request.method !== 'GET' && this.#mayWrite?.() === false)
      throw new KubeError(0, 'Fenced', `${request.method} ${request.path}: not sent: leadership was lost`);
    return this.#connection.dispatcher.request({
      origin: this.#connection.origin,
      method: request.method,
      path: request.path,
      ...(request.query && { query: request.query }),
      headers: {
        accept: 'application/json, */*',
        'user-agent': this.#options.userAgent,
        authorization: `Bearer ${token}`,
        ...(body !== null && { 'content-type': request.contentType ?? 'application/json' }),
      },
      body,
      signal,
    });
  }

  #noteDate({ headers: { date } }: Answer): void {
    const serverTime = typeof date === 'string' ? parseTime(date) : undefined;
    if (serverTime === undefined) return;
    const { latestDates } = this.#connection;
    latestDates.push({ serverTime, seenAt: this.#options.clock.monotonic() });
    if (latestDates.length > DATES) latestDates.shift();
  }

  #unanswered(request: KubeRequest, error: unknown): unknown {
    if (error instanceof KubeError) return error;
    if (request.signal?.aborted === true) return request.signal.reason;
    this.#connection.reloadSoon();
    const message = `${request.method} ${request.path}: no response from the Kubernetes API: ${messageOf(error)}`;
    return new KubeError(0, 'Unreachable', message, { cause: error });
  }
}

/** Reads the credentials and creates a client. Throws a file error when there are none. */
export async function createKubeClient(options: KubeClientOptions): Promise<KubeClient> {
  return new KubeClient(options, await KubeConnection.open(options));
}

function bodyOf({ body, contentType }: KubeRequest): string | null {
  if (body === undefined) return null;
  return contentType === APPLY ? applyBody(body) : JSON.stringify(body);
}

/** Closes the connection when the body is larger than allowed. */
function textOf({ method, path, maxBytes = MAX_RESPONSE_BYTES }: KubeRequest, body: Answer['body']): Promise<string> {
  return readText(body, maxBytes, (message) => new KubeError(0, TOO_LARGE, `${method} ${path}: ${message}`));
}

function parse(request: KubeRequest, body: string): unknown {
  try {
    return JSON.parse(body);
  } catch (error) {
    throw new KubeError(0, 'MalformedAnswer', `${request.method} ${request.path}: the response is not JSON`, {
      cause: error,
    });
  }
}

/** Line breaks that only YAML has, and characters that it forbids (YAML 1.1, 5.1 and 5.4). */
const YAML_ONLY = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/gu;
/** Half a surrogate pair, as JSON.stringify writes it, after an even number of backslashes. */
const LONE_SURROGATE = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/gu;

/**
 * Writes JSON that means the same when it is read as YAML, as the API server reads applied objects:
 * YAML would turn a line separator into spaces and refuse a control character. Half a surrogate
 * pair becomes U+FFFD, as everywhere in Kubernetes.
 */
export function applyBody(value: unknown): string {
  return JSON.stringify(value).replaceAll(YAML_ONLY, escapeOf).replaceAll(LONE_SURROGATE, '$1\\ufffd');
}
