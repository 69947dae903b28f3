import type { ApiErrorCode } from '@brupop/shared/api/agent-protocol';

/** A code of the contract, or: no answer came, or one that cannot be understood. */
export type ApiTrouble = ApiErrorCode | 'Unreachable' | 'Unintelligible';

/** A call of our apiserver that did not succeed. The message names the call and what came back. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: ApiTrouble;

  constructor(code: ApiTrouble, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
