import { isDeepStrictEqual } from 'node:util';
import { type ApiErrorCode, apiErrorBody } from '@brupop/shared/api/agent-protocol';
import type { Infer, Schema } from '@brupop/shared/api/schema';
import { AGENT_STATUS, type AgentStatus, type ShadowStatus } from '@brupop/shared/api/shadow';
import { shorten } from '@brupop/shared/runtime/errors';
import { readJson } from '../http/exchange.ts';

/** A code of the protocol. Without a response: `Unreachable`. With a malformed one: `Unintelligible`. */
type ClientErrorCode = ApiErrorCode | 'Unreachable' | 'Unintelligible';

export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: ClientErrorCode;

  constructor(code: ClientErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Reads a message of the protocol. Throws ApiError `Unintelligible`, which names the field. */
export function readMessage<S extends Schema>(schema: S, text: string, name = 'answer'): Infer<S> {
  return readJson(schema, text, name, (message, options) => new ApiError('Unintelligible', message, options));
}

const CODES: Readonly<Record<number, ClientErrorCode>> = {
  401: 'Unauthenticated',
  403: 'Forbidden',
  429: 'TooManyRequests',
};

export function readError(call: string, status: number, body: string): ApiError {
  let code = CODES[status] ?? (status >= 500 ? 'Unavailable' : 'Unintelligible');
  let message = shorten(body, 200);
  try {
    ({ code, message } = readMessage(apiErrorBody, body).error);
  } catch {
    // Not sent by the apiserver itself.
  }
  return new ApiError(code, `${call}: ${status} ${code}: ${message}`);
}

export function sameStatus(known: ShadowStatus | undefined, next: AgentStatus): boolean {
  return known !== undefined && isDeepStrictEqual(reported(known), reported(next));
}

/** The fields that an agent reports; null and an empty record count as absent. */
function reported({ settings = {}, ...others }: ShadowStatus | AgentStatus): unknown {
  const status = { ...others, settings };
  const fields = Object.keys(AGENT_STATUS).map((name) => [name, status[name as keyof AgentStatus]]);
  return JSON.parse(JSON.stringify(Object.fromEntries(fields), (_name, value: unknown) => value ?? undefined));
}
