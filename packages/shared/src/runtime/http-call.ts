/**
 * One request to a server of users, such as a receiver of notifications. It follows no redirect, has a time limit, and
 * reads no more of a body than asked for. No message has the address or a header: both may be secrets.
 */
import { EnvHttpProxyAgent, request } from 'undici';
import type { Clock } from './clock.ts';
import { readText } from './http-credentials.ts';

/** Addresses as in the environment variables `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`; empty: none. */
export interface Proxies {
  readonly http: string;
  readonly https: string;
  readonly no: string;
}

export interface HttpCall {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly address: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** The authorities of the server as PEM, instead of those of Node.js. */
  readonly ca?: string;
}

interface CallOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly proxies: Proxies;
  /** For the whole exchange. */
  readonly timeoutMs: number;
  /** Of the body. Of one that is larger, nothing is returned. */
  readonly maxBytes: number;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Undefined: it was larger than `maxBytes`, or did not end in time. */
  readonly body: string | undefined;
}

export type CallFailure = 'Timeout' | 'Unreachable' | 'TLS' | 'Proxy';

/** There was no response. */
export class CallError extends Error {
  override readonly name = 'CallError';
  readonly reason: CallFailure;

  constructor(reason: CallFailure, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Throws CallError, or the reason of `signal`. */
export async function call(
  { method, address, headers, body, ca }: HttpCall,
  { clock, signal, proxies, timeoutMs, maxBytes }: CallOptions,
): Promise<HttpAnswer> {
  const dispatcher = dispatcherFor(address, proxies, ca);
  const limit = new AbortController();
  const tooLate = new CallError('Timeout', `no response within ${timeoutMs / 1000} s`);
  const cancel = clock.after(timeoutMs, () => limit.abort(tooLate));
  const until = AbortSignal.any([signal, limit.signal]);
  try {
    const answer = await request(address, { method, headers, dispatcher, signal: until, body: body ?? null });
    const text = await readText(answer.body, maxBytes).catch(() => undefined);
    signal.throwIfAborted();
    return { status: answer.statusCode, headers: answer.headers, body: text };
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof CallError ? error : new CallError(...failureOf(error));
  } finally {
    cancel();
    await dispatcher.destroy();
  }
}

/** An address with https goes through `HTTPS_PROXY` alone, as with curl and Go; the agent would fall back to `HTTP_PROXY`. */
function dispatcherFor(address: string, { http, https, no }: Proxies, ca: string | undefined): EnvHttpProxyAgent {
  const tls = { ...(ca !== undefined && { ca }) };
  try {
    return new EnvHttpProxyAgent({
      httpProxy: URL.parse(address)?.protocol === 'https:' ? '' : http,
      httpsProxy: https,
      noProxy: no,
      // On HTTP/2, a body that is not read to its end would be waited for.
      allowH2: false,
      connect: tls,
      requestTls: tls,
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  } catch {
    throw new CallError(
      'Proxy',
      'HTTP_PROXY and HTTPS_PROXY of the controller: expected addresses such as http://proxy.example.com:3128, found another text',
    );
  }
}

const CODES: Readonly<Record<string, string>> = {
  ENOTFOUND: 'the name of its host cannot be resolved',
  EAI_AGAIN: 'the name of its host cannot be resolved now',
  ECONNREFUSED: 'nothing listens on its port',
  ECONNRESET: 'the connection was closed without a response',
  UND_ERR_SOCKET: 'the connection was closed without a response',
  EHOSTUNREACH: 'there is no route to its host',
  ENETUNREACH: 'there is no route to its network',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is not for its host',
};
const OF_TLS = /CERT|SIGNED|SIGNATURE|TLS|SSL|EPROTO|PEM/u;

/** By the code alone: a message may have the address. */
function failureOf(error: unknown): [CallFailure, string] {
  const { code = 'unknown' } = error as { readonly code?: unknown };
  const name = typeof code === 'string' && /^\w{1,60}$/u.test(code) ? code : 'unknown';
  if (name === 'UND_ERR_CONNECT_TIMEOUT') return ['Timeout', 'no connection in time'];
  if (error instanceof Error && error.message.startsWith('Proxy response'))
    return ['Proxy', 'the proxy refused the connection'];
  const isTLS = OF_TLS.test(name);
  const what = CODES[name] ?? (isTLS ? 'its certificate is not trusted' : 'the request failed');
  return [isTLS ? 'TLS' : 'Unreachable', `${what} (${name})`];
}
