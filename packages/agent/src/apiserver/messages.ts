import {
  API_ERROR_CODES,
  DRAIN_FAILURES,
  type DrainFailure,
  type DrainResult,
  type ExclusionResult,
  type StreamMessage,
} from '@brupop/shared/api/agent-protocol';
import type { DrainBlock } from '@brupop/shared/api/shadow';
import { shorten } from '@brupop/shared/runtime/text';
import { ApiError, type ApiTrouble } from './error.ts';
import { count, fields, flag, readShadow, unintelligible } from './read-shadow.ts';

/** Parses JSON from the apiserver. Throws ApiError `Unintelligible`. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ApiError('Unintelligible', `expected JSON, found "${shorten(text, 100)}"`, { cause: error });
  }
}

/** Reads a line of the stream. Throws ApiError `Unintelligible`. */
export function readStreamMessage(line: string): StreamMessage {
  const message = fields(parseJson(line), 'message');
  switch (message['type']) {
    case 'shadow':
      return { type: 'shadow', shadow: readShadow(message['shadow']) };
    case 'deleted':
      return { type: 'deleted' };
    case 'heartbeat':
      return { type: 'heartbeat' };
    case 'end':
      return { type: 'end', reason: typeof message['reason'] === 'string' ? shorten(message['reason'], 200) : '' };
    default:
      throw unintelligible('message.type', 'shadow, deleted, heartbeat or end', message['type']);
  }
}

/** Reads the answer of load-balancer-exclusion. Throws ApiError `Unintelligible`. */
export function readExclusion(value: unknown): ExclusionResult {
  return { remainingMs: count(fields(value, 'answer')['remainingMs'], 'remainingMs') };
}

/** Reads the answer of drain. Throws ApiError `Unintelligible`: what is not clearly done is not done. */
export function readDrain(value: unknown): DrainResult {
  const { done, evicted, remaining, blockedBy, failure, limitRemainingMs } = fields(value, 'answer');
  const result: DrainResult = {
    done: flag(done, 'done'),
    evicted: count(evicted, 'evicted'),
    remaining: count(remaining, 'remaining'),
    blockedBy: readBlocks(blockedBy),
    ...(failure === undefined ? {} : { failure: readFailure(failure) }),
    ...(limitRemainingMs === undefined ? {} : { limitRemainingMs: count(limitRemainingMs, 'limitRemainingMs') }),
  };
  if (result.done && result.remaining > 0) throw unintelligible('remaining', '0 of a drain that is done', remaining);
  if (result.done && result.failure !== undefined)
    throw unintelligible('failure', 'none of a drain that is done', failure);
  return result;
}

/** A code of another release is a failure all the same. */
function readFailure(value: unknown): DrainFailure {
  const { code, message } = fields(value, 'failure');
  const known = DRAIN_FAILURES.find((one) => one === code) ?? 'DrainTimedOut';
  return { code: known, message: shorten(typeof message === 'string' ? message : '', 500) };
}

function readBlocks(value: unknown): DrainBlock[] {
  if (!Array.isArray(value)) throw unintelligible('blockedBy', 'a list', value);
  return value.map((one: unknown) => {
    const block = fields(one, 'blockedBy');
    for (const name of ['pod', 'reason', 'message']) {
      if (typeof block[name] !== 'string') throw unintelligible(`blockedBy.${name}`, 'a text', block[name]);
    }
    return block as unknown as DrainBlock;
  });
}

/** Reads the answer of restore. Throws ApiError `Unintelligible`. */
export function readRestore(value: unknown): void {
  const { uncordoned, included } = fields(value, 'answer');
  flag(uncordoned, 'uncordoned');
  flag(included, 'included');
}

/** The error of an answer that is no success. */
export function readError(call: string, status: number, body: string): ApiError {
  const { code, message } = contractError(body) ?? { code: codeOf(status), message: shorten(body, 200) };
  return new ApiError(code, `${call}: ${status} ${code}: ${message}`);
}

function contractError(body: string): { code: ApiTrouble; message: string } | undefined {
  try {
    const { code, message } = fields(fields(JSON.parse(body), 'body')['error'], 'error');
    const known = API_ERROR_CODES.find((one) => one === code);
    return known === undefined
      ? undefined
      : { code: known, message: typeof message === 'string' ? shorten(message, 500) : '' };
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
