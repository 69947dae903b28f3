interface StatusBody {
  readonly reason?: string;
  readonly message?: string;
  readonly details?: { readonly retryAfterSeconds?: number };
}

/** A call to the Kubernetes API failed. */
export class KubeError extends Error {
  override readonly name = 'KubeError';
  /** HTTP status; 0 when there was no (usable) answer. */
  readonly status: number;
  /** metav1.Status reason such as `NotFound`, `Conflict`, `Expired`; `Unreachable` or `MalformedAnswer` when there was no answer. */
  readonly reason: string;
  /** How long the server asks to wait (`Retry-After`), milliseconds. */
  readonly retryAfterMs?: number;
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
    if (more.retryAfterMs !== undefined) this.retryAfterMs = more.retryAfterMs;
    if (more.body !== undefined) this.body = more.body;
  }
}

/** True when `error` is a KubeError with this HTTP status. */
export function hasStatus(error: unknown, status: number): error is KubeError {
  return error instanceof KubeError && error.status === status;
}

/** The error of an answer with a status of 300 or above, as a metav1.Status or any other body tells it. */
export function errorFromAnswer(
  request: { readonly method: string; readonly path: string },
  status: number,
  headers: Readonly<Record<string, string | string[] | undefined>>,
  body: string,
): KubeError {
  const parsed = parseStatus(body);
  const said = parsed?.message ?? body.slice(0, 300).trim();
  const seconds = Number(headers['retry-after'] ?? parsed?.details?.retryAfterSeconds);
  return new KubeError(
    status,
    parsed?.reason ?? String(status),
    `${request.method} ${request.path}: ${status} ${said}`,
    {
      ...(Number.isFinite(seconds) && { retryAfterMs: seconds * 1000 }),
      ...(parsed && { body: parsed }),
    },
  );
}

function parseStatus(body: string): StatusBody | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
