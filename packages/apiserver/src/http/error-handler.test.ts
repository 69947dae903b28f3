import type { Request, Response } from 'express';
import { recordingLogger } from '../../../../test/framework/recording-logger.ts';
import { ApiError } from '../errors.ts';
import type { Locals } from './call.ts';
import { errorHandler } from './error-handler.ts';

/** The level of the line about an error of a call. */
function levelOf(code: ConstructorParameters<typeof ApiError>[0], locals: Locals): unknown {
  const { log, lines } = recordingLogger();
  const request = { socket: { remoteAddress: '10.0.0.1' }, complete: true };
  const response = { locals, setHeader: () => undefined, writeHead: () => ({ end: () => undefined }) };
  const args = [request as unknown as Request, response as unknown as Response, () => undefined] as const;
  errorHandler(log, () => log)(new ApiError(code, 'why'), ...args);
  return (JSON.parse(lines[0] ?? '{}') as { level?: unknown }).level;
}

const admitted = { node: 'node-1', admitted: true };

it.each<readonly [string, string, Parameters<typeof levelOf>]>([
  ['debug', 'an agent waits for its shadow', ['NotFound', { ...admitted, route: 'shadow' }]],
  ['info', 'the shadow of a report is gone', ['NotFound', { ...admitted, route: 'shadow/status' }]],
  ['info', 'a stranger asks for a shadow', ['NotFound', { route: 'shadow' }]],
  ['info', 'a path is unknown', ['NotFound', {}]],
  ['debug', 'a node calls too often', ['TooManyRequests', { node: 'node-1', route: 'shadow' }]],
  ['info', 'a token is rejected', ['Unauthenticated', { route: 'shadow' }]],
  ['error', 'the apiserver fails', ['Internal', { ...admitted, route: 'drain' }]],
])('logs at level %s that %s', (level, _what, given) => {
  expect(levelOf(...given)).toBe(level);
});
