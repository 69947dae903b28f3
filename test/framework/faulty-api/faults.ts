import type { IncomingMessage } from 'node:http';

/** As the API server's audit log names them. */
export type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete';

/** One request that has reached the proxy. */
export interface SeenRequest {
  readonly verb: Verb;
  /** Without its query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly userAgent: string;
  /** The bearer token. */
  readonly token: string;
  /** On the monotonic clock, milliseconds. */
  readonly atMs: number;
  /** The fault that replaced the response of the API server. */
  readonly answer?: Answer;
}

/** Which requests; all of them when empty. */
export interface Match {
  readonly verbs?: readonly Verb[];
  readonly path?: RegExp;
  /** Of the query, as it is in the URL. */
  readonly query?: RegExp;
}

/**
 * What replaces the response of the API server.
 * - `status`: an error of the API, with `Retry-After` if given; the API server does not get the
 *   request
 * - `error-event`: a watch with an ERROR event of that status
 * - `malformed`: a body that is not JSON; in a watch a line that is not JSON
 * - `truncated`: half of the body, or half an event; then a regular end if `clean`, else a cut
 *   connection
 * - `drip`: the API server's response, one byte at a time
 * - `silent`: no response; the API server does not get the request
 * - `mute`: the head of the API server's response, then nothing
 * - `lost`: no response, although the API server has processed the request
 * - `reset`: the connection ends
 * - `shortened`: a watch that the API server ends after a number of seconds
 */
export type Answer =
  | { readonly kind: 'status'; readonly status: number; readonly retryAfterSeconds?: number }
  | { readonly kind: 'error-event'; readonly status: number }
  | { readonly kind: 'malformed' | 'silent' | 'mute' | 'lost' | 'reset' }
  | { readonly kind: 'truncated'; readonly clean: boolean }
  | { readonly kind: 'drip'; readonly everyMs: number }
  | { readonly kind: 'shortened'; readonly seconds: number };

export interface Fault {
  readonly match?: Match;
  readonly answer: Answer;
  /** Number of requests that match and pass before; default none. */
  readonly after?: number;
  /** Number of requests that get it; default all until `clear`. */
  readonly times?: number;
}

const REASONS: Readonly<Record<number, string>> = {
  403: 'Forbidden',
  410: 'Expired',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
};

/** metav1.Status, as the API server would send it. */
export function statusBody(code: number, retryAfterSeconds?: number): string {
  const details = retryAfterSeconds === undefined ? {} : { details: { retryAfterSeconds } };
  const message = `the test answers ${code}`;
  return JSON.stringify({
    kind: 'Status',
    apiVersion: 'v1',
    status: 'Failure',
    message,
    reason: REASONS[code],
    ...details,
    code,
  });
}

export function matches({ verbs, path, query }: Match, request: Pick<SeenRequest, 'verb' | 'path' | 'query'>): boolean {
  return (
    (verbs?.includes(request.verb) ?? true) &&
    (path?.test(request.path) ?? true) &&
    (query?.test(String(request.query)) ?? true)
  );
}

/** A request as the API server would name it. */
export function seen({ method = 'GET', url = '/', headers }: IncomingMessage): SeenRequest {
  const { pathname, searchParams } = new URL(url, 'https://proxy');
  const verb = method === 'GET' ? readVerb(pathname, searchParams) : WRITES[method];
  const userAgent = headers['user-agent'] ?? '';
  const token = headers.authorization?.replace(/^Bearer /u, '') ?? '';
  return { verb: verb ?? 'get', path: pathname, query: searchParams, userAgent, token, atMs: performance.now() };
}

const WRITES: Readonly<Record<string, Verb>> = { POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' };

function readVerb(path: string, query: URLSearchParams): Verb {
  if (query.get('watch') === 'true') return 'watch';
  const [, rest] = /^\/(?:api\/v1|apis\/[^/]+\/[^/]+)\/(.+)$/u.exec(path) ?? [];
  const parts = rest?.split('/') ?? [];
  const resource = parts[0] === 'namespaces' && parts.length > 2 ? parts.slice(2) : parts;
  return resource.length === 1 ? 'list' : 'get';
}
