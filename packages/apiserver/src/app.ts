import type { RequestListener } from 'node:http';
import express, { type Express, type Request, type RequestHandler, type Response } from 'express';
import type { AgentAction } from '@brupop/shared/api/agent-protocol';
import { HOST_CALLS_HEADER, readHostCalls } from '@brupop/shared/api/host-calls';
import {
  ANSWER_LIMIT_MS,
  AUTHENTICATION_LIMIT_MS,
  DRAIN_ANSWER_LIMIT_MS,
  RESTORE_ANSWER_LIMIT_MS,
} from '@brupop/shared/api/deadlines';
import { MAX_NODE_NAME } from '@brupop/shared/api/names';
import type { Clock } from '@brupop/shared/runtime/clock';
import { describe } from '@brupop/shared/runtime/errors';
import type { Logger, NodeLog } from '@brupop/shared/runtime/log';
import type { Authenticator, Identity } from './auth/authenticator.ts';
import { ApiError } from './errors.ts';
import { answer, inTime, localsOf, readBody, withinLimit } from './http/call.ts';
import type { Connections } from './http/connections.ts';
import { errorHandler, notFound } from './http/error-handler.ts';
import { RateLimit } from './http/limits.ts';
import type { Metrics } from './metrics.ts';
import type { Call, Routes } from './routes.ts';

export interface AppOptions {
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  readonly connections: Pick<Connections, 'admit'>;
  readonly routes: Routes;
  /** Undefined when ready, else why not. */
  readonly ready: () => string | undefined;
  readonly metrics: Pick<Metrics, 'requests' | 'duration' | 'hostCalls'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly logOf: NodeLog;
  /** Aborts when the process is asked to stop. */
  readonly stop: AbortSignal;
}

/** Calls of one node: an agent makes a few per minute, some more around an update. */
const NODE_RATE = { burst: 30, perSecond: 3, keys: 20_000 };
/** RFC 1123 subdomain, which the Kubernetes API requires of a Node's name. */
const NODE_NAME = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;

export function createApp(options: AppOptions): RequestListener {
  const { routes, log, logOf } = options;
  const rate = new RateLimit(options.clock, NODE_RATE);
  const app = express();
  app.disable('x-powered-by');
  app.set('etag', false);
  app.set('query parser', false);
  app.enable('case sensitive routing');
  app.enable('strict routing');
  app.use(measure(options));
  const handle = (
    method: 'get' | 'put' | 'post',
    action: AgentAction,
    limitMs: number,
    work: (call: Call) => Promise<object | void>,
  ): void => {
    app[method](`/v1/nodes/:node/${action}`, async (request: Request, response: Response) => {
      const started = options.clock.monotonic();
      localsOf(response).route = action;
      const identity = await authenticate(request, response, options);
      const { node } = identity;
      Object.assign(localsOf(response), { node, claimedNode: undefined });
      if (!rate.take(node)) throw new ApiError('TooManyRequests', `too many calls of node ${node}; wait some seconds`);
      localsOf(response).admitted = true;
      options.connections.admit(request.socket, node);
      countHostCalls(request, options.metrics);
      const body = await readBody(request);
      const { clock, stop } = options;
      const leftMs = limitMs - (clock.monotonic() - started);
      await withinLimit(
        { what: `${action} of Node ${node}`, response, clock, stop, limitMs: leftMs },
        async (signal) => {
          const result = await work({ identity, body, userAgent: request.headers['user-agent'], signal, response });
          if (result !== undefined) answer(response, 200, result);
        },
      );
    });
  };
  handle('put', 'shadow', ANSWER_LIMIT_MS, (call) => routes.shadow(call));
  handle('get', 'shadow/stream', ANSWER_LIMIT_MS, (call) => routes.stream(call));
  handle('put', 'shadow/status', ANSWER_LIMIT_MS, (call) => routes.status(call));
  handle('post', 'load-balancer-exclusion', ANSWER_LIMIT_MS, (call) => routes.exclude(call));
  handle('post', 'drain', DRAIN_ANSWER_LIMIT_MS, (call) => routes.drain(call));
  handle('post', 'restore', RESTORE_ANSWER_LIMIT_MS, (call) => routes.restore(call));
  app.use(notFound);
  app.use(errorHandler(log, logOf));
  return withPath(app);
}

/** For a target in which Express finds no path, such as `a://b`, it would answer by itself, and keep the connection open. */
function withPath(app: Express): RequestListener {
  return (request, response) =>
    app(request as Request, response as Response, () => {
      request.url = '/';
      app(request, response);
    });
}

/** An agent reports what it called; several headers are none. */
function countHostCalls({ headersDistinct }: Request, { hostCalls }: Pick<Metrics, 'hostCalls'>): void {
  const [header = '', ...more] = headersDistinct[HOST_CALLS_HEADER] ?? [];
  if (more.length > 0) return;
  for (const { count, ...labels } of readHostCalls(header)) hostCalls.inc(labels, count);
}

/** Counts each answer under its route; requests that match no route share one label. */
function measure({ metrics, clock }: AppOptions): RequestHandler {
  return (_request, response, next) => {
    const started = clock.monotonic();
    response.once('close', () => {
      const { route = 'other' } = localsOf(response);
      metrics.requests.inc({ route, code: response.headersSent ? String(response.statusCode) : '0' });
      if (route !== 'shadow/stream') metrics.duration.observe({ route }, (clock.monotonic() - started) / 1000);
    });
    next();
  };
}

/** Throws ApiError `Unavailable` unless ready, `BadRequest`, and as the authenticator. */
async function authenticate(
  request: Request,
  response: Response,
  { authenticator, ready, clock, stop }: AppOptions,
): Promise<Identity> {
  const problem = stop.aborted ? 'shutting down' : ready();
  if (problem !== undefined) throw new ApiError('Unavailable', `this replica is not ready: ${problem}`);
  const node = String(request.params['node']);
  if (node.length > MAX_NODE_NAME)
    throw new ApiError(
      'BadRequest',
      `path: a Node needs a name of at most ${MAX_NODE_NAME} characters to be managed, found ${node.length}`,
    );
  if (!NODE_NAME.test(node))
    throw new ApiError('BadRequest', `path: expected the name of a Node, found ${describe(node)}`);
  localsOf(response).claimedNode = node;
  // With two of them, another reader could take another one (RFC 6750, 3.1).
  const [authorization, ...more] = request.headersDistinct['authorization'] ?? [];
  if (more.length > 0)
    throw new ApiError('BadRequest', `Authorization: expected one such header, found ${more.length + 1}`);
  const address = request.socket.remoteAddress ?? '';
  return inTime(authenticator.authenticate({ authorization, address, node }), clock, AUTHENTICATION_LIMIT_MS);
}
