/** One request to a server of users: a notification to its receiver, or what Alertmanager is asked. Its Secret is read before. */
import type { KubeClient } from '@brupop/shared/kube/client';
import { hasStatus } from '@brupop/shared/kube/error';
import { canBeName, corePath } from '@brupop/shared/kube/paths';
import type { Clock } from '@brupop/shared/runtime/clock';
import { call, CallError, type HttpAnswer, type HttpCall, type Proxies } from '@brupop/shared/runtime/http-call';
import {
  type Addressed,
  DeliveryError,
  secretData,
  type SecretData,
  secretOf,
  type Target,
  targetOf,
} from './target.ts';

export interface DeliveryOptions {
  readonly client: Pick<KubeClient, 'find'>;
  readonly clock: Clock;
  /** Of the operator, with the Secrets. */
  readonly namespace: string;
  /** Names of Secrets that this process may read. */
  readonly secrets: readonly string[];
  readonly proxies: Proxies;
  /** Asked right before each request, so that a process that was frozen since sends nothing. */
  readonly isLeading: () => boolean;
}

const TIMEOUT_MS = 10_000;
/** What a server says of an error is not read any further. */
const MAX_BODY_BYTES = 4_096;
const MAX_RETRY_AFTER_MS = 600_000;
/** The content is refused, whatever is repeated: bad request, too large, unsupported, unprocessable. */
const FINAL: ReadonlySet<number> = new Set([400, 413, 415, 422]);

/** Finds where the receiver is. Throws DeliveryError, or the reason of `signal`. */
export async function findTarget(receiver: Addressed, options: DeliveryOptions, signal: AbortSignal): Promise<Target> {
  return targetOf(receiver, await readSecret(receiver, options, signal), options);
}

/** Returns undefined if there is none, or if it does not exist. Throws DeliveryError, or the reason of `signal`. */
export async function readSecret(
  addressed: Pick<Addressed, 'secretName'>,
  options: Pick<DeliveryOptions, 'client' | 'namespace' | 'secrets'>,
  signal: AbortSignal,
): Promise<SecretData | undefined> {
  const name = secretOf(addressed, options);
  if (name === undefined) return undefined;
  const { client, namespace } = options;
  if (!canBeName(name))
    throw new DeliveryError('Secret', 'secretName: expected the name of a Secret, found another text');
  try {
    const secret = await client.find<object>(corePath('secrets', { namespace, name }), signal);
    return secret && secretData(secret);
  } catch (error) {
    signal.throwIfAborted();
    throw unreadable(error, name, namespace);
  }
}

/** The error of the request is not quoted: it may have what the response has. */
function unreadable(error: unknown, name: string, namespace: string): DeliveryError {
  const why = hasStatus(error, 403)
    ? 'the controller has no right to read it; run helm upgrade with notifications.secrets'
    : 'the Kubernetes API did not return it';
  return new DeliveryError('Secret', `Secret "${name}" in the namespace ${namespace}: ${why}`);
}

export type ExchangeOptions = Pick<DeliveryOptions, 'clock' | 'proxies' | 'isLeading'>;

/** Throws DeliveryError, or the reason of `signal`. */
export async function post(target: Target, body: string, options: ExchangeOptions, signal: AbortSignal): Promise<void> {
  await exchange({ ...target, method: 'POST', body }, options, signal);
}

/**
 * Returns the body of a response with status 2xx; undefined: it was larger than `maxBytes`, or did not end in time. Throws
 * DeliveryError for every other status and without a response, or the reason of `signal`.
 */
export async function exchange(
  request: HttpCall,
  { clock, proxies, isLeading }: ExchangeOptions,
  signal: AbortSignal,
  maxBytes = MAX_BODY_BYTES,
): Promise<string | undefined> {
  const headers = { ...request.headers, 'content-type': 'application/json', 'user-agent': 'brupop-controller' };
  if (!isLeading()) throw new DeliveryError('Unknown', 'not sent: leadership was lost');
  try {
    const answer = await call({ ...request, headers }, { clock, proxies, signal, timeoutMs: TIMEOUT_MS, maxBytes });
    if (answer.status >= 200 && answer.status <= 299) return answer.body;
    throw refusal(answer);
  } catch (error) {
    if (error instanceof CallError) throw new DeliveryError(error.reason, error.message);
    throw error;
  }
}

function refusal({ status, headers, body = '' }: HttpAnswer): DeliveryError {
  if (status < 400)
    return new DeliveryError(
      'Redirected',
      `expected status 2xx, found ${status}, a redirect: set the address it leads to`,
    );
  const retryAfterMs = Math.min(MAX_RETRY_AFTER_MS, secondsIn(headers['retry-after']) * 1000);
  // A code such as no_service of Slack. Other texts could be anything, also the address.
  const code = /^[a-z_]{1,40}$/u.test(body) ? ` (${body})` : '';
  const reason = status < 500 ? 'Refused' : 'ServerError';
  return new DeliveryError(reason, `expected status 2xx, found ${status}${code}`, {
    isFinal: FINAL.has(status),
    retryAfterMs,
  });
}

/** A date counts as none. */
function secondsIn(header: HttpAnswer['headers'][string]): number {
  return typeof header === 'string' && /^\d{1,6}$/u.test(header) ? Number(header) : 0;
}
