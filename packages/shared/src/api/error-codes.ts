/** What the controller does after a failed attempt. */
export type Recovery =
  /** Retry after a short backoff: the cause passes by itself. */
  | 'RetrySoon'
  /** Retry after a backoff that doubles with each failure in a row. */
  | 'RetryAfterBackoff'
  /** No failure: start again at once with the version that the host offers now, if any. */
  | 'RetryWithOffered'
  /** Do not retry this version on this node until a user asks for it; try a newer version. */
  | 'NeverThisVersion'
  /** Wait until a user has fixed the host. */
  | 'Manual';

/**
 * The failures of an update (`status.lastOperation.errorCode`) and how each recovers.
 * `docs/error-codes.md` is checked against this table.
 */
export const ERROR_CODES = {
  HostUnreachable: 'RetrySoon',
  HostBusy: 'RetrySoon',
  HostUnsupported: 'Manual',
  HostStatusUnreadable: 'Manual',
  UpdateCheckFailed: 'RetrySoon',
  RefreshFailed: 'RetryAfterBackoff',
  VersionNotOffered: 'RetryWithOffered',
  PrepareFailed: 'RetryAfterBackoff',
  WrongVersionStaged: 'RetryAfterBackoff',
  StagedImageLost: 'RetrySoon',
  SettingsFailed: 'RetryAfterBackoff',
  DrainTimedOut: 'RetryAfterBackoff',
  CordonRemoved: 'Manual',
  ActivateFailed: 'RetryAfterBackoff',
  RebootRefused: 'RetryAfterBackoff',
  RebootTimedOut: 'RetryAfterBackoff',
  RolledBack: 'NeverThisVersion',
  WrongVersionBooted: 'Manual',
  StepTimedOut: 'RetryAfterBackoff',
} as const satisfies Record<string, Recovery>;
export type ErrorCode = keyof typeof ERROR_CODES;

export function isErrorCode(value: string): value is ErrorCode {
  return Object.hasOwn(ERROR_CODES, value);
}

export class OperationError extends Error {
  override readonly name = 'OperationError';
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
