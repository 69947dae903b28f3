/**
 * Node's parser of the requests of a connection. Unless it is stopped, it goes through all that is received already, thousands
 * of requests at 30 µs each, and makes a response for each. Node has no public interface to stop it.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

export interface RequestParser {
  /** Called with each request that it finds. */
  onIncoming: ((...request: unknown[]) => number) | null;
}

/** What `onIncoming` returns to end the parsing. */
export const END_PARSING = 2;

/** The parser of the request's connection; undefined when it is closed. */
export function parserOf({ socket }: IncomingMessage): RequestParser | undefined {
  const connection: Socket & { readonly parser?: RequestParser | null } = socket;
  return connection.parser ?? undefined;
}

/** Node drops what still arrives of the body. */
export function dropBody(request: IncomingMessage): void {
  Object.assign(request, { _dumped: true });
}
