import type { ErrorRequestHandler, Request, RequestHandler, Response } from 'express';
import type { ApiErrorBody, ApiErrorCode } from '@brupop/shared/api/agent-protocol';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { Logger } from '@brupop/shared/runtime/log';
import { asApiError, ApiError } from '../errors.ts';
import { localsOf } from './call.ts';

/** The only place that knows which HTTP status a code has. */
const STATUS: Readonly<Record<ApiErrorCode, number>> = {
  BadRequest: 400,
  Unauthenticated: 401,
  Forbidden: 403,
  NotFound: 404,
  SpecChanged: 409,
  SpecForbids: 409,
  Conflict: 409,
  TooLarge: 413,
  ReplicaOnSameNode: 421,
  TooManyRequests: 429,
  Unavailable: 503,
  Internal: 500,
};

/** Answers that a client must not follow up on the same connection: another replica may do better. */
const CLOSING: ReadonlySet<ApiErrorCode> = new Set(['ReplicaOnSameNode', 'TooLarge', 'Unavailable']);

/** For paths and methods that there are not. */
export const notFound: RequestHandler = ({ method, path }) => {
  throw new ApiError('NotFound', `no such call: ${method} ${path.slice(0, 200)}`);
};

/** Maps everything thrown to an {@link ApiErrorBody}; neither it nor the log ever has a token, and the client no stack. */
export function errorHandler(log: Logger): ErrorRequestHandler {
  return (error: unknown, request, response, _next) => {
    const failure = toFailure(error);
    report(log, failure, request, response);
    if (response.headersSent || response.destroyed) response.destroy();
    else answer(failure, request, response);
  };
}

function report(log: Logger, failure: ApiError, request: Request, response: Response): void {
  const { route = 'other', identity } = localsOf(response);
  const { code } = failure;
  const address = request.socket.remoteAddress;
  const fields = { route, node: identity?.node, address, code, error: messageOf(failure) };
  if (code === 'Internal') log.error('a call failed', fields);
  else if (code === 'TooManyRequests') log.debug('a call was refused', fields);
  else log.info('a call was refused', fields);
}

function answer({ code, message }: ApiError, { complete }: Request, response: Response): void {
  // Nobody waits for the end of a body that will not be read.
  if (CLOSING.has(code) || !complete) response.setHeader('connection', 'close');
  if (code === 'Unauthenticated') response.setHeader('www-authenticate', 'Bearer');
  if (code === 'TooManyRequests') response.setHeader('retry-after', '5');
  const body: ApiErrorBody = { error: { code, message } };
  response.status(STATUS[code]).json(body);
}

function toFailure(error: unknown): ApiError {
  const known = asApiError(error);
  if (known instanceof ApiError) return known;
  const status = statusOf(error);
  if (status !== undefined && status >= 400 && status < 500)
    return new ApiError('BadRequest', messageOf(error), { cause: error });
  return new ApiError('Internal', 'internal error; the log of the apiserver says more', { cause: error });
}

/** Express marks what the client did wrong with a status. */
function statusOf(error: unknown): number | undefined {
  const status = error instanceof Error ? (error as { status?: unknown }).status : undefined;
  return typeof status === 'number' ? status : undefined;
}
