import type { ApiErrorCode } from '@brupop/shared/operator-api';

/** A call that is refused or cannot be served. It knows the contract's codes and nothing of HTTP; the message is for the caller's log. */
export class Failure extends Error {
  override readonly name = 'Failure';
  readonly code: ApiErrorCode;

  constructor(code: ApiErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
