/** Requests with the credentials of a kubeconfig: certificates, tokens, and programs that print credentials. */
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { text } from 'node:stream/consumers';
import { KubeConfig } from '@kubernetes/client-node/dist/config.js';
import type { KubeRequest } from '@brupop/shared/kube/client';
import { errorFromAnswer, KubeError } from '@brupop/shared/kube/error';
import { messageOf } from '@brupop/shared/runtime/errors';
import { UsageError } from './errors.ts';

const LIMIT_MS = 30_000;

export interface Kubeconfig {
  /** Undefined: KUBECONFIG, or else ~/.kube/config. */
  readonly kubeconfig?: string | undefined;
  /** Undefined: the current one. */
  readonly context?: string | undefined;
}

export interface Client {
  readonly context: string;
  readonly server: string;
  request<T>(request: KubeRequest): Promise<T>;
}

/** Throws UsageError for a file or a context that does not exist. */
export function connect({ kubeconfig, context }: Kubeconfig): Client {
  const config = read(kubeconfig);
  if (context !== undefined) {
    const names = config.getContexts().map(({ name }) => name);
    if (!names.includes(context))
      throw new UsageError(`--context: expected one of ${names.join(', ') || 'none'}, found "${context}"`);
    config.setCurrentContext(context);
  }
  const cluster = config.getCurrentCluster();
  if (cluster === null)
    throw new UsageError('the kubeconfig has no current context: name one with --context, or set KUBECONFIG');
  const { server } = cluster;
  return {
    context: config.getCurrentContext(),
    server,
    request: async <T>(request: KubeRequest): Promise<T> => (await send(config, server, request)) as T,
  };
}

function read(path: string | undefined): KubeConfig {
  const config = new KubeConfig();
  try {
    if (path === undefined) config.loadFromDefault();
    else config.loadFromFile(path);
  } catch (error) {
    throw new UsageError(`the kubeconfig cannot be read: ${problemIn(error)}`);
  }
  return config;
}

/** The message of an error of YAML quotes the lines around it, which may have a token. */
function problemIn(error: unknown): string {
  const { reason, mark } = error as { readonly reason?: unknown; readonly mark?: { readonly line?: unknown } };
  if (typeof reason !== 'string') return messageOf(error);
  return typeof mark?.line === 'number' ? `${reason}, in line ${mark.line + 1}` : reason;
}

/** Throws KubeError, with status 0 when there was no response, and UsageError without credentials. */
async function send(config: KubeConfig, server: string, request: KubeRequest): Promise<unknown> {
  const options = await optionsOf(config, request);
  const { method, path } = request;
  const answer = await exchange(urlOf(server, request), options, request).catch((error: unknown) => {
    throw new KubeError(0, 'Unreachable', `${method} ${path}: no response from ${server}: ${messageOf(error)}`);
  });
  if (answer.status >= 300) throw errorFromAnswer(request, answer.status, answer.headers, answer.body);
  try {
    return JSON.parse(answer.body);
  } catch {
    throw new KubeError(0, 'MalformedAnswer', `${method} ${path}: the response of ${server} is not JSON`);
  }
}

async function optionsOf(config: KubeConfig, { method, contentType, body }: KubeRequest): Promise<RequestOptions> {
  const options: RequestOptions = {
    method,
    timeout: LIMIT_MS,
    headers: {
      accept: 'application/json',
      'user-agent': 'kubectl-brupop',
      ...(body !== undefined && { 'content-type': contentType ?? 'application/json' }),
    },
  };
  try {
    await config.applyToHTTPSOptions(options);
  } catch (error) {
    throw new UsageError(`context ${config.getCurrentContext()}: no credentials: ${messageOf(error)}`);
  }
  return options;
}

/** The server of a kubeconfig may have a path. */
function urlOf(server: string, { path, query = {} }: KubeRequest): URL {
  const url = new URL(`${server.replace(/\/+$/u, '')}${path}`);
  for (const [key, value] of Object.entries(query)) url.searchParams.set(key, value);
  return url;
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

async function exchange(url: URL, options: RequestOptions, { body }: KubeRequest): Promise<Answer> {
  const start = url.protocol === 'http:' ? httpRequest : httpsRequest;
  const message = await new Promise<IncomingMessage>((resolve, reject) => {
    const sent = start(url, options, resolve);
    sent.on('timeout', () => sent.destroy(new Error(`no response within ${LIMIT_MS} ms`)));
    sent.on('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
  return { status: message.statusCode ?? 0, headers: message.headers, body: await text(message) };
}
