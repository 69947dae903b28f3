/** The eviction of one pod: the request, and how kube-apiserver has responded. */
import type { DrainBlock } from '../api/shadow.ts';
import type { KubernetesObject } from '../api/meta.ts';
import { type KubeClient, KubeError } from '../kube/client.ts';
import { isDenial } from '../kube/error.ts';
import { corePath } from '../kube/paths.ts';
import { messageOf, shorten } from '../runtime/errors.ts';

export type EvictionOutcome =
  | { readonly kind: 'accepted' }
  /** There is no such pod, or another one of that name. */
  | { readonly kind: 'gone' }
  | {
      readonly kind: 'blocked';
      readonly block: Omit<DrainBlock, 'pod'>;
      readonly retryAfterMs: number;
      /** There was no response: the eviction may have happened. */
      readonly isUnknown?: boolean;
    };

/** Longer than an admission webhook has by default, so that kube-apiserver says which one does not answer. */
export const EVICTION_LIMIT_MS = 11_000;
const MAX_MESSAGE = 500;

interface StatusBody {
  readonly message?: string;
  readonly details?: { readonly causes?: readonly { readonly reason?: string; readonly message?: string }[] };
}

/**
 * Requests once to evict the pod, if it still has this UID. Only its own limit cuts the request off: kube-apiserver first counts
 * the disruption in the budget and then deletes the pod, so a request that is cut off in between blocks the budget for two minutes.
 */
export async function requestEviction(
  client: Pick<KubeClient, 'request'>,
  { metadata: { name, namespace = '', uid } }: Pick<KubernetesObject, 'metadata'>,
  options: { readonly gracePeriodSeconds?: number } = {},
): Promise<EvictionOutcome> {
  const path = corePath('pods', { namespace, name, subresource: 'eviction' });
  const deleteOptions = { preconditions: { uid }, ...options };
  const body = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace }, deleteOptions };
  try {
    await client.request({ method: 'POST', path, body, timeoutMs: EVICTION_LIMIT_MS });
    return { kind: 'accepted' };
  } catch (error) {
    return outcomeOf(error);
  }
}

/** Reads a rejection as kube-apiserver's pkg/registry/core/pod/storage/eviction.go words it. */
export function outcomeOf(error: unknown): EvictionOutcome {
  if (!(error instanceof KubeError)) return blocked('Error', messageOf(error));
  const { status, retryAfterMs } = error;
  if (isGone(error)) return { kind: 'gone' };
  // One that is fenced was not sent.
  if (status === 0 && error.reason !== 'Fenced') return { ...blocked('Error', textOf(error)), isUnknown: true };
  return blocked(reasonOf(error), textOf(error), retryAfterMs);
}

/**
 * True when there is no such pod, or another one of that name, as kube-apiserver words it. Another conflict says nothing of
 * the pod, nor does admission that denies with one of these codes.
 */
function isGone(error: KubeError): boolean {
  const { status, message } = error;
  if (isDenial(error)) return false;
  return status === 404 || (status === 409 && /\bUID in (?:the )?precondition\b/u.test(message));
}

function reasonOf(error: KubeError): DrainBlock['reason'] {
  if (isDenial(error)) return 'Forbidden';
  const hasCause = (reason: string): boolean => causes(error).some((cause) => cause.reason === reason);
  switch (error.status) {
    case 429:
      return hasCause('DisruptionBudget') ? 'DisruptionBudget' : 'Throttled';
    case 403:
      return hasCause('NamespaceTerminating') ? 'NamespaceTerminating' : 'Forbidden';
    case 500:
      return error.message.includes('more than one PodDisruptionBudget') ? 'MultipleDisruptionBudgets' : 'Error';
    default:
      return 'Error';
  }
}

/** The causes name the budget; the message alone does not. */
function textOf(error: KubeError): string {
  const { message = error.message } = (error.body ?? {}) as StatusBody;
  const details = causes(error).flatMap((cause) => cause.message ?? []);
  return [message, ...details.filter((one) => !message.includes(one))].join(' ');
}

function causes(error: KubeError): NonNullable<NonNullable<StatusBody['details']>['causes']> {
  return ((error.body ?? {}) as StatusBody).details?.causes ?? [];
}

function blocked(reason: DrainBlock['reason'], message: string, retryAfterMs = 0) {
  return { kind: 'blocked' as const, block: { reason, message: shorten(message, MAX_MESSAGE) }, retryAfterMs };
}
