import type { ErrorRequestHandler, Request, RequestHandler, Response } from 'express';
import type { ApiErrorBody, ApiErrorCode } from '@brupop/shared/api/agent-protocol';
import { messageOf, shorten } from '@brupop/shared/runtime/errors';
import type { Logger, NodeLog } from '@brupop/shared/runtime/log';
import { asApiError, ApiError } from '../errors.ts';
import { answer, localsOf } from './call.ts';

const STATUS: Readonly<Record<ApiErrorCode, number>> = {
  BadRequest: 400,
  Unauthenticated: 401,
  Forbidden: 403,
  NotFound: 404,
  SpecChanged: 409,
  SpecForbids: 409,
  Conflict: 409,
  TooLarge: 413,
  TooManyRequests: 429,
  Unavailable: 503,
  Internal: 500,
};

/**
 * Responses that close the connection even of an authenticated caller, so that the next request may
 * reach another replica.
 */
const CLOSING: ReadonlySet<ApiErrorCode> = new Set(['TooLarge', 'Unavailable']);

/** Rejects paths and methods that are not part of the protocol. */
export const notFound: RequestHandler = ({ method, path }) => {
  throw new ApiError('NotFound', `no such method or path: ${method} ${shorten(path, 200)}`);
};

/** Maps every error to an {@link ApiErrorBody}. It and the log contain no token. */
export function errorHandler(log: Logger, logOf: NodeLog): ErrorRequestHandler {
  return (error: unknown, request, response, _next) => {
    const known = toApiError(error);
    const { node } = localsOf(response);
    report(node === undefined ? log : logOf(node), known, request, response);
    if (response.headersSent || response.destroyed) response.destroy();
    else respond(known, request, response);
  };
}

function report(log: Logger, error: ApiError, request: Request, response: Response): void {
  const { route = 'other', claimedNode, admitted = false } = localsOf(response);
  const { code } = error;
  // An agent repeats this call until the controller has created its shadow.
  const isExpected = code === 'TooManyRequests' || (code === 'NotFound' && admitted && route === 'shadow');
  const fields = { route, claimedNode, address: request.socket.remoteAddress, code, error: messageOf(error) };
  if (code === 'Internal') log.error('request failed', fields);
  else if (isExpected) log.debug('request rejected', fields);
  else log.info('request rejected', fields);
}

function respond({ code, message }: ApiError, { complete }: Request, response: Response): void {
  const { admitted = false } = localsOf(response);
  // The rest of an unread body would stand in the way of the next request.
  if (!admitted || CLOSING.has(code) || !complete) response.setHeader('connection', 'close');
  if (code === 'Unauthenticated') response.setHeader('www-authenticate', 'Bearer');
  if (code === 'TooManyRequests') response.setHeader('retry-after', '5');
  const body: ApiErrorBody = { error: { code, message } };
  answer(response, STATUS[code], body);
}

function toApiError(error: unknown): ApiError {
  const known = asApiError(error);
  if (known instanceof ApiError) return known;
  // Express gives a status to errors of the client.
  const { status } = (error ?? {}) as { status?: unknown };
  if (typeof status === 'number' && status >= 400 && status < 500)
    return new ApiError('BadRequest', messageOf(error), { cause: error });
  return new ApiError('Internal', 'internal error; see the log of the apiserver', { cause: error });
}
