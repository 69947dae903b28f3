import { API_ERROR_CODES } from '@brupop/shared/operator-api';
import type { AgentShadow, DrainBlock, DrainResult, ExclusionResult, StreamMessage } from '@brupop/shared/operator-api';
import { SHADOW_STATES } from '@brupop/shared/shadow';
import type { LastOperation, ShadowStatus } from '@brupop/shared/shadow';

import type { ApiTrouble } from './api-error.ts';
import { ApiError } from './api-error.ts';
import { shorten } from '../host/host-status.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Parses JSON from the apiserver. Throws ApiError `Unintelligible`. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ApiError('Unintelligible', `expected JSON, found "${shorten(text, 100)}"`, { cause: error });
  }
}

/** Reads a shadow. Throws ApiError `Unintelligible`. A status of an older operator lacks the newer fields. */
export function readShadow(value: unknown): AgentShadow {
  const { uid, generation, spec, status } = fields(value, 'shadow');
  const { state } = fields(spec, 'shadow.spec');
  if (typeof uid !== 'string' || typeof generation !== 'number') {
    throw new ApiError('Unintelligible', 'shadow: expected a uid and a generation');
  }
  if (!SHADOW_STATES.some((one) => one === state)) {
    throw new ApiError('Unintelligible', `shadow.spec.state: expected one of ${SHADOW_STATES.join(', ')}`);
  }
  const known = status == null ? undefined : readStatus(fields(status, 'shadow.status'));
  const shadow = { uid, generation, spec: spec as AgentShadow['spec'] };
  return known === undefined ? shadow : { ...shadow, status: known };
}

function readStatus(status: Fields): ShadowStatus | undefined {
  const { current_version: version, lastOperation } = status;
  if (typeof version !== 'string' || typeof status['current_state'] !== 'string') return undefined;
  const { lastOperation: _last, ...rest } = status;
  const defaults = { target_version: version, crash_count: 0, observedGeneration: 0, bootID: '' };
  const known = { ...defaults, ...rest } as unknown as ShadowStatus;
  return lastOperation == null ? known : { ...known, lastOperation: lastOperation as LastOperation };
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
      return { type: 'end', reason: String(message['reason']) };
    default:
      throw new ApiError('Unintelligible', `message.type: found "${shorten(String(message['type']), 50)}"`);
  }
}

/** Reads the answer of load-balancer-exclusion. Throws ApiError `Unintelligible`. */
export function readExclusion(value: unknown): ExclusionResult {
  return { remainingMs: count(fields(value, 'answer')['remainingMs'], 'remainingMs') };
}

/** Reads the answer of drain. Throws ApiError `Unintelligible`: what is not clearly done is not done. */
export function readDrain(value: unknown): DrainResult {
  const { done, evicted, remaining, blockedBy } = fields(value, 'answer');
  if (typeof done !== 'boolean') throw new ApiError('Unintelligible', 'done: expected true or false');
  return {
    done,
    evicted: count(evicted, 'evicted'),
    remaining: count(remaining, 'remaining'),
    blockedBy: Array.isArray(blockedBy) ? (blockedBy as DrainBlock[]) : [],
  };
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
    return known === undefined ? undefined : { code: known, message: shorten(String(message), 500) };
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

function fields(value: unknown, name: string): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
  throw new ApiError('Unintelligible', `${name}: expected an object`);
}

function count(value: unknown, name: string): number {
  if (typeof value === 'number' && value >= 0 && Number.isFinite(value)) return value;
  throw new ApiError('Unintelligible', `${name}: expected a number from 0`);
}
