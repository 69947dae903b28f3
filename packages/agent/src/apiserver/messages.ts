import {
  agentShadow,
  type AgentShadow,
  apiErrorBody,
  type DrainResult,
  drainResult,
  type ExclusionResult,
  exclusionResult,
  restoreResult,
  streamMessage,
  type StreamMessage,
} from '@brupop/shared/api/agent-protocol';
import { parse } from '@brupop/shared/api/schema';
import { shorten } from '@brupop/shared/runtime/text';
import { ApiError, type ApiTrouble } from './error.ts';

/**
 * Readers of what the apiserver sends. All but `readError` throw ApiError `Unintelligible`, which
 * names the field.
 */

const unintelligible = (message: string): ApiError => new ApiError('Unintelligible', message);

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ApiError('Unintelligible', `expected JSON, found "${shorten(text, 100)}"`, { cause: error });
  }
}

export function readShadow(value: unknown): AgentShadow {
  return parse(agentShadow, value, 'shadow', unintelligible);
}

/** Reads a line of the stream. */
export function readStreamMessage(line: string): StreamMessage {
  return parse(streamMessage, parseJson(line), 'message', unintelligible);
}

/** Reads the answer of load-balancer-exclusion. */
export function readExclusion(value: unknown): ExclusionResult {
  return parse(exclusionResult, value, 'answer', unintelligible);
}

/** Reads the answer of drain. A drain that is not clearly done is not done. */
export function readDrain(value: unknown): DrainResult {
  return parse(drainResult, value, 'answer', unintelligible);
}

/** Reads the answer of restore. */
export function readRestore(value: unknown): void {
  parse(restoreResult, value, 'answer', unintelligible);
}

/** Returns the error for an answer that is no success, whatever its body is. */
export function readError(call: string, status: number, body: string): ApiError {
  const { code, message } = contractError(body) ?? { code: codeOf(status), message: shorten(body, 200) };
  return new ApiError(code, `${call}: ${status} ${code}: ${message}`);
}

function contractError(body: string): { code: ApiTrouble; message: string } | undefined {
  try {
    return parse(apiErrorBody, JSON.parse(body), 'body', unintelligible).error;
  } catch {
    return undefined;
  }
}

const CODES: Readonly<Record<number, ApiTrouble>> = {
  401: 'Unauthenticated',
  403: 'Forbidden',
  429: 'TooManyRequests',
};

function codeOf(status: number): ApiTrouble {
  return CODES[status] ?? (status >= 500 ? 'Unavailable' : 'Unintelligible');
}
