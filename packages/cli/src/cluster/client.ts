/** Requests with the credentials of a kubeconfig: certificates, tokens, and programs that print credentials. */
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import type { KubeRequest } from '@brupop/shared/kube/client';
import { errorFromAnswer, hasStatus, KubeError, TOO_LARGE } from '@brupop/shared/kube/error';
import { type Clock, parseTime } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import { readText } from '@brupop/shared/runtime/http-credentials';
import { Credentials } from './credentials.ts';
import { type Kubeconfig, readAccess } from './kubeconfig.ts';

/** For the whole exchange; of a stream until its end. */
const LIMIT_MS = 30_000;
/** More than one object can take. */
const MAX_BYTES = 16 * 1024 * 1024;

const NEVER = new AbortController().signal;

export interface TextRequest extends KubeRequest {
  /** Default: JSON. */
  readonly accept?: string;
}

export interface Client {
  readonly context: string;
  readonly server: string;
  /** Of the operator, as the user has named it; undefined: that of its shadows. */
  readonly namespace: string | undefined;
  /** Throws KubeError, with status 0 without a usable response, and UsageError without credentials. */
  request<T>(request: TextRequest): Promise<T>;
  /** The clock of the API server, by its response to a GET, epoch milliseconds; undefined: it has none. Throws as `request`. */
  time(path: string): Promise<number | undefined>;
  /** The response as it is, of at most `maxBytes`. Throws as `request`. */
  text(request: TextRequest): Promise<string>;
  /** The response as it comes, for at most `timeoutMs`. Throws as `request`; what is read throws when the limit is reached. */
  stream(request: TextRequest): Promise<AsyncIterable<Uint8Array>>;
}

/** Which cluster, and which operator. */
export interface Target extends Kubeconfig {
  readonly namespace?: string | undefined;
}

export interface ConnectOptions extends Target {
  readonly clock: Pick<Clock, 'now'>;
  /** A program that prints credentials may ask something. */
  readonly hasTerminal: boolean;
  /** Ends all requests. */
  readonly signal: AbortSignal;
}

/** Throws UsageError for a file or a context that does not exist. */
export function connect({ clock, hasTerminal, signal, namespace, ...from }: ConnectOptions): Client {
  const access = readAccess(from);
  const { context, cluster } = access;
  const calls = new Calls(cluster.server, new Credentials(access, { clock, hasTerminal, signal }), signal);
  const text = async (request: TextRequest): Promise<string> =>
    await calls.read(request, await calls.open(request), request.maxBytes ?? MAX_BYTES);
  return {
    context,
    server: cluster.server,
    namespace,
    text,
    request: async <T>(request: TextRequest): Promise<T> => parsed(request, await text(request), cluster.server) as T,
    time: async (path) => {
      const request = { method: 'GET', path } as const;
      const message = await calls.open(request);
      await calls.read(request, message, MAX_BYTES);
      return parseTime(message.headers.date);
    },
    stream: async (request) => calls.chunks(request, await calls.open(request)),
  };
}

function parsed({ method, path }: KubeRequest, body: string, server: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw new KubeError(0, 'MalformedAnswer', `${method} ${path}: the response of ${server} is not JSON`);
  }
}

class Calls {
  readonly #server: string;
  readonly #credentials: Credentials;
  readonly #end: AbortSignal;

  constructor(server: string, credentials: Credentials, end: AbortSignal) {
    this.#server = server;
    this.#end = end;
    this.#credentials = credentials;
  }

  /** The API server has done nothing of a request that it refused with 401, so that one is sent again. */
  async open(request: TextRequest): Promise<IncomingMessage> {
    let used = 0;
    try {
      return await this.#openOnce(request, () => (used = this.#credentials.runs));
    } catch (error) {
      if (!hasStatus(error, 401) || !this.#credentials.canRenew) throw error;
      this.#credentials.discard(used);
      return await this.#openOnce(request);
    }
  }

  /** Throws KubeError when the response ends too early. */
  async *chunks(request: TextRequest, message: IncomingMessage): AsyncGenerator<Uint8Array> {
    try {
      yield* message as AsyncIterable<Uint8Array>;
    } catch (error) {
      throw this.#noResponse(request, error);
    }
  }

  async read(request: TextRequest, message: IncomingMessage, maxBytes: number): Promise<string> {
    const why = `${request.method} ${request.path}: the response is over ${maxBytes} bytes`;
    return await readText(this.chunks(request, message), maxBytes, () => new KubeError(0, TOO_LARGE, why));
  }

  /** @param onSend - called when the credentials are known */
  async #openOnce(request: TextRequest, onSend?: () => void): Promise<IncomingMessage> {
    const options = await this.#credentials.apply(optionsOf(request, this.#end));
    onSend?.();
    const message = await exchange(this.#urlOf(request), options, request).catch((error: unknown) => {
      throw this.#noResponse(request, error);
    });
    const { statusCode: status = 0, headers } = message;
    if (status >= 200 && status < 300) return message;
    throw errorFromAnswer(request, status, headers, await this.read(request, message, MAX_BYTES));
  }

  #noResponse({ method, path, timeoutMs = LIMIT_MS }: KubeRequest, error: unknown): KubeError {
    const isLate = error instanceof Error && error.name === 'AbortError';
    const why = isLate ? `not complete within ${timeoutMs / 1000} s` : messageOf(error);
    return new KubeError(0, 'Unreachable', `${method} ${path}: no response from ${this.#server}: ${why}`);
  }

  /** The server of a kubeconfig may have a path. */
  #urlOf({ path, query = {} }: KubeRequest): URL {
    const url = new URL(`${this.#server.replace(/\/+$/u, '')}${path}`);
    for (const [key, value] of Object.entries(query)) url.searchParams.set(key, value);
    return url;
  }
}

function optionsOf(
  { method, contentType, body, accept, signal = NEVER, timeoutMs = LIMIT_MS }: TextRequest,
  end: AbortSignal,
): RequestOptions {
  return {
    method,
    signal: AbortSignal.any([signal, end, AbortSignal.timeout(timeoutMs)]),
    headers: {
      accept: accept ?? 'application/json',
      'user-agent': 'kubectl-brupop',
      ...(body !== undefined && { 'content-type': contentType ?? 'application/json' }),
    },
  };
}

async function exchange(url: URL, options: RequestOptions, { body }: KubeRequest): Promise<IncomingMessage> {
  const start = url.protocol === 'http:' ? httpRequest : httpsRequest;
  return await new Promise<IncomingMessage>((resolve, reject) => {
    const sent = start(url, options, resolve);
    sent.on('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
