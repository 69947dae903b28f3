import { messageOf, shorten } from '../runtime/errors.ts';

/** metav1.Status, as far as it is read. */
interface StatusBody {
  readonly code?: number;
  readonly reason?: string;
  readonly message?: unknown;
  readonly details?: { readonly retryAfterSeconds?: number };
}

/** Of a rejection by a schema or a webhook, which quotes what it rejects. */
const MAX_MESSAGE = 2_000;

export class KubeError extends Error {
  override readonly name = 'KubeError';
  /** HTTP status; 0 when there was no usable response. */
  readonly status: number;
  /** Of metav1.Status; `Unreachable`, `MalformedAnswer` or `ResponseTooLarge` without a usable response. */
  readonly reason: string;
  /** `Retry-After`, milliseconds. */
  readonly retryAfterMs: number | undefined;
  /** metav1.Status, when the server sent one. */
  readonly body?: unknown;

  constructor(
    status: number,
    reason: string,
    message: string,
    more: { retryAfterMs?: number; body?: unknown; cause?: unknown } = {},
  ) {
    super(message, more.cause === undefined ? {} : { cause: more.cause });
    this.status = status;
    this.reason = reason;
    this.retryAfterMs = Number.isFinite(more.retryAfterMs) ? more.retryAfterMs : undefined;
    if (more.body !== undefined) this.body = more.body;
  }
}

export function hasStatus(error: unknown, status: number): error is KubeError {
  return error instanceof KubeError && error.status === status;
}

/** True when admission has denied a request. It may do so with any status. */
export function isDenial(error: unknown): boolean {
  return (
    error instanceof KubeError &&
    /admission webhook .* denied the request|ValidatingAdmissionPolicy .* denied request/u.test(error.message)
  );
}

/** True for the message of a 403 by RBAC: it is the same for each object of a namespace. Admission answers 403 with other words. */
export function isOfRBAC(message: string): boolean {
  return /is forbidden: User ".*" cannot /u.test(message);
}

/** True when the object of a write has changed since it was read, or is gone. */
export function isConflict(error: unknown): boolean {
  return (hasStatus(error, 409) || hasStatus(error, 404)) && !isDenial(error);
}

/** True for what a retry may end: no response, an overloaded or restarting server, a resourceVersion that is too old. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof KubeError)) return false;
  const { status } = error;
  return status < 400 || status >= 500 || status === 429 || status === 410;
}

/** What stays the same while a request fails for the same reason. */
export function kindOf(error: unknown): string {
  return error instanceof KubeError ? `${error.status} ${error.reason}` : messageOf(error);
}

/** The reason of a KubeError for a response that was not read to its end. */
export const TOO_LARGE = 'ResponseTooLarge';

export function isTooLarge(error: unknown): boolean {
  return error instanceof KubeError && error.reason === TOO_LARGE;
}

export function errorFromAnswer(
  request: { readonly method: string; readonly path: string },
  status: number,
  headers: Readonly<Record<string, string | string[] | undefined>>,
  body: string,
): KubeError {
  const parsed = parseStatus(body);
  const said = typeof parsed?.message === 'string' ? shorten(parsed.message, MAX_MESSAGE) : shorten(body, 300);
  const message = `${request.method} ${request.path}: ${status} ${said}`;
  const retryAfterMs = Number(headers['retry-after'] ?? parsed?.details?.retryAfterSeconds) * 1000;
  return new KubeError(status, parsed?.reason ?? String(status), message, { retryAfterMs, body: parsed });
}

/** The error for an ERROR event of a watch. `status` is its object, a metav1.Status. */
export function errorFromStatus(what: string, status: unknown): KubeError {
  const { code = 0, reason = 'Unknown', message, details } = (status ?? {}) as StatusBody;
  const said = typeof message === 'string' ? shorten(message, MAX_MESSAGE) : 'an error';
  return new KubeError(code, reason, `${what}: ${said}`, {
    retryAfterMs: Number(details?.retryAfterSeconds) * 1000,
  });
}

function parseStatus(body: string): StatusBody | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
