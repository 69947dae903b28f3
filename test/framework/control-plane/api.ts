import { Agent, request } from 'undici';

/** A status other than 2xx. */
export class ApiError extends Error {
  readonly status: number;
  /** The reason of the Kubernetes Status, or undefined. */
  readonly reason: string | undefined;

  constructor(what: string, status: number, reason: string | undefined, message: string) {
    super(`${what}: ${status} ${reason ?? ''} ${message}`);
    this.name = 'ApiError';
    this.status = status;
    this.reason = reason;
  }
}

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export interface DiscoveredGroup {
  metadata: { name: string };
  versions: { resources: { resource: string }[] }[];
}

/** A client for tests: plain requests, one at a time, each with a limit of 20 s. */
export interface Api {
  /** Returns the parsed body. Throws `ApiError` for a status other than 2xx. */
  request<T>(method: Method, path: string, body?: unknown, contentType?: string): Promise<T>;
  get<T>(path: string): Promise<T>;
  /** The resources of all API groups, as kubectl discovers them. */
  discover(): Promise<{ items: DiscoveredGroup[] }>;
  create<T>(path: string, body: unknown): Promise<T>;
  /** A merge patch (RFC 7386). */
  patch<T>(path: string, body: unknown): Promise<T>;
  /** Succeeds also when the object does not exist. */
  delete(path: string, options?: unknown): Promise<void>;
  /** The same server with another token, or with none. */
  as(token: string | undefined): Api;
  close(): Promise<void>;
}

const limit = 20_000;

const discovery = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';

/** Makes a client for `url` that trusts `ca` (PEM) and shows `token`. Close it when done. */
export function connectApi(url: string, ca: string, token: string | undefined): Api {
  return clientOn(
    new Agent({ allowH2: false, connect: { ca }, headersTimeout: limit, bodyTimeout: limit }),
    url,
    token,
  );
}

function clientOn(agent: Agent, url: string, token: string | undefined): Api {
  const send = async <T>(
    method: Method,
    path: string,
    body?: unknown,
    contentType = 'application/json',
    accept = 'application/json',
  ): Promise<T> => {
    const response = await request(`${url}${path}`, {
      method,
      dispatcher: agent,
      headers: {
        accept,
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': contentType }),
      },
      body: body === undefined ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(limit),
    });
    const parsed = parse(await response.body.text());
    if (response.statusCode < 300) return parsed as T;
    const status = parsed as { reason?: string; message?: string };
    throw new ApiError(`${method} ${path}`, response.statusCode, status.reason, status.message ?? String(parsed));
  };
  return {
    request: send,
    get: async (path) => await send('GET', path),
    discover: async () => await send('GET', '/apis', undefined, undefined, `${discovery},application/json`),
    create: async (path, body) => await send('POST', path, body),
    patch: async (path, body) => await send('PATCH', path, body, 'application/merge-patch+json'),
    delete: async (path, options) => {
      await send('DELETE', path, options).catch((error: unknown) => {
        if (!(error instanceof ApiError && error.status === 404)) throw error;
      });
    },
    as: (other) => clientOn(agent, url, other),
    close: async () => await agent.destroy(),
  };
}

/** JSON where it is JSON; `/readyz` and the like answer with plain text. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
