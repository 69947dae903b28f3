import type { ApiErrorCode } from '@brupop/shared/api/agent-protocol';
import { messageOf } from '@brupop/shared/runtime/errors';
import { KubeError } from '@brupop/shared/kube/client';

/** A request that is rejected or fails. The message goes to the caller's log. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: ApiErrorCode;

  constructor(code: ApiErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Maps a KubeError to what it means to an agent; returns every other error as it is. */
export function asApiError(error: unknown): unknown {
  if (!(error instanceof KubeError)) return error;
  return new ApiError(codeOf(error.status), messageOf(error), { cause: error });
}

/** 401 and 403 concern the apiserver's own credentials, never the agent's. */
function codeOf(status: number): 'Unavailable' | 'Conflict' | 'Internal' {
  if (status === 409) return 'Conflict';
  const repeat = status === 0 || status === 401 || status === 429 || status >= 500;
  return repeat ? 'Unavailable' : 'Internal';
}
