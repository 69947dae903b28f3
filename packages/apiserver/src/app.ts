import express, { type Express, type NextFunction, type Request, type RequestHandler, type Response } from 'express';
import type { AgentAction } from '@brupop/shared/api/agent-protocol';
import { ANSWER_LIMIT_MS, AUTHENTICATION_LIMIT_MS, DRAIN_ANSWER_LIMIT_MS } from '@brupop/shared/api/deadlines';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { Authenticator } from './auth/authenticator.ts';
import { ApiError } from './errors.ts';
import { readBody } from './http/body.ts';
import { type Call, inTime, localsOf, withinLimit } from './http/call.ts';
import { errorHandler, notFound } from './http/error-handler.ts';
import type { RateLimit } from './http/rate-limit.ts';
import type { Metrics } from './metrics.ts';
import type { Routes } from './routes.ts';

export interface AppOptions {
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  readonly routes: Routes;
  /** Calls per node. */
  readonly rate: RateLimit;
  /** Undefined when ready, else why not. */
  readonly ready: () => string | undefined;
  readonly metrics: Pick<Metrics, 'requests' | 'duration'>;
  readonly clock: Clock;
  readonly log: Logger;
  /** The process stops. */
  readonly stop: AbortSignal;
}

const BODY_LIMIT = 64 * 1024;
/** RFC 1123 subdomain, as the API server demands of a Node's name. */
const NODE_NAME = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;
const MAX_NODE_NAME = 253;

/** The HTTP side of the contract in `operator-api`. */
export function createApp(options: AppOptions): Express {
  const { routes } = options;
  const app = express();
  app.disable('x-powered-by');
  app.set('etag', false);
  app.set('query parser', false);
  app.enable('case sensitive routing');
  app.enable('strict routing');
  app.use(measure(options));
  const call = (action: AgentAction, limitMs: number, work: (call: Call) => Promise<void>): RequestHandler[] => [
    name(action),
    requireReady(options),
    authenticate(options),
    handle(options, limitMs, work),
  ];
  app.put(
    path('shadow'),
    call('shadow', ANSWER_LIMIT_MS, (one) => routes.ensure(one)),
  );
  app.get(
    path('shadow/stream'),
    call('shadow/stream', ANSWER_LIMIT_MS, (one) => routes.stream(one)),
  );
  app.put(
    path('shadow/status'),
    call('shadow/status', ANSWER_LIMIT_MS, (one) => routes.status(one)),
  );
  const exclusion = 'load-balancer-exclusion';
  app.post(
    path(exclusion),
    call(exclusion, ANSWER_LIMIT_MS, (one) => routes.exclude(one)),
  );
  app.post(
    path('drain'),
    call('drain', DRAIN_ANSWER_LIMIT_MS, (one) => routes.drain(one)),
  );
  app.post(
    path('restore'),
    call('restore', ANSWER_LIMIT_MS, (one) => routes.restore(one)),
  );
  app.use(notFound);
  app.use(errorHandler(options.log));
  return app;
}

function path(action: AgentAction): string {
  return `/v1/nodes/:node/${action}`;
}

function name(action: AgentAction): RequestHandler {
  return (_request, response, next) => {
    localsOf(response).route = action;
    next();
  };
}

/** Counts each answer under its route; what matches none shares one label. */
function measure({ metrics, clock }: AppOptions): RequestHandler {
  return (_request, response, next) => {
    const started = clock.monotonic();
    localsOf(response).started = started;
    response.once('close', () => {
      const { route = 'other' } = localsOf(response);
      metrics.requests.inc({ route, code: response.headersSent ? String(response.statusCode) : '0' });
      if (route !== 'shadow/stream') metrics.duration.observe({ route }, (clock.monotonic() - started) / 1000);
    });
    next();
  };
}

function requireReady({ ready, stop }: AppOptions): RequestHandler {
  return (_request, _response, next) => {
    const problem = stop.aborted ? 'shutting down' : ready();
    if (problem !== undefined) throw new ApiError('Unavailable', `this replica is not ready: ${problem}`);
    next();
  };
}

function authenticate({ authenticator, rate, clock }: AppOptions): RequestHandler {
  return async (request: Request, response: Response, next: NextFunction) => {
    const node = String(request.params['node']);
    if (node.length > MAX_NODE_NAME || !NODE_NAME.test(node))
      throw new ApiError('BadRequest', `path: expected the name of a Node, found ${JSON.stringify(node.slice(0, 80))}`);
    const authorization = authorizationOf(request);
    const address = request.socket.remoteAddress ?? '';
    const identity = authenticator.authenticate({ authorization, address, node });
    localsOf(response).identity = await inTime(identity, clock, AUTHENTICATION_LIMIT_MS);
    if (!rate.take(node)) throw new ApiError('TooManyRequests', `too many calls of node ${node}; wait some seconds`);
    next();
  };
}

/** Throws Failure `BadRequest` when there are two (RFC 6750, 3.1): who reads the other one would see another caller. */
function authorizationOf({ headersDistinct }: Request): string | undefined {
  const [authorization, ...more] = headersDistinct['authorization'] ?? [];
  if (more.length === 0) return authorization;
  throw new ApiError('BadRequest', `Authorization: expected one such header, found ${more.length + 1}`);
}

function handle(options: AppOptions, limitMs: number, work: (call: Call) => Promise<void>): RequestHandler {
  const { clock, stop } = options;
  return async (request: Request, response: Response) => {
    const { identity, started = 0 } = localsOf(response);
    if (identity === undefined) throw new ApiError('Unauthenticated', 'no identity');
    const body = await readBody(request, BODY_LIMIT);
    const leftMs = limitMs - (clock.monotonic() - started);
    await withinLimit({ response, clock, stop, limitMs: leftMs }, (signal) =>
      work({ identity, body, signal, response }),
    );
  };
}
