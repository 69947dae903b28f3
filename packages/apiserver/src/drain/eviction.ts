import { messageOf } from '@brupop/shared/runtime/errors';
import type { DrainBlock } from '@brupop/shared/api/shadow';
import type { DrainPod } from '@brupop/shared/drain/pods';
import { type KubeClient, KubeError } from '@brupop/shared/kube/client';
import { corePath } from '@brupop/shared/kube/paths';

/** What came of a request to evict a pod. Only the API server's own yes is `accepted`. */
export type EvictionOutcome =
  | { readonly kind: 'accepted' }
  /** No such pod, or another one of that name: the watch will tell. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'blocked'; readonly block: Omit<DrainBlock, 'pod'>; readonly retryAfterMs: number };

/** A request to end a pod takes no longer. */
export const EVICTION_LIMIT_MS = 10_000;
const MAX_MESSAGE = 500;

interface StatusBody {
  readonly message?: string;
  readonly details?: { readonly causes?: readonly { readonly reason?: string; readonly message?: string }[] };
}

/** How a pod is ended. */
export interface EvictOptions {
  /** The most that it gets to end, in seconds; undefined: what it asks for. */
  readonly maxGraceMs: number | undefined;
  /** True: it is deleted, past its disruption budgets. */
  readonly force: boolean;
}

/**
 * Asks the API server once to evict or delete exactly this pod, within 10 s. Nothing else cuts the request off: the API server first takes the disruption off
 * the budget and then deletes the pod, and one that is cut off in between blocks the budget for two minutes.
 */
export async function evictPod(client: KubeClient, pod: DrainPod, ending: EvictOptions): Promise<EvictionOutcome> {
  const { name, namespace = '', uid } = pod.metadata;
  const { maxGraceMs = Infinity, force } = ending;
  const grace = pod.graceSeconds * 1000 > maxGraceMs ? { gracePeriodSeconds: maxGraceMs / 1000 } : {};
  const deleteOptions = { preconditions: { uid }, ...grace };
  const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace }, deleteOptions };
  const request = force
    ? ({ method: 'DELETE', path: corePath('pods', { namespace, name }), body: deleteOptions } as const)
    : ({
        method: 'POST',
        path: corePath('pods', { namespace, name, subresource: 'eviction' }),
        body: eviction,
      } as const);
  try {
    await client.request({ ...request, timeoutMs: EVICTION_LIMIT_MS });
    return { kind: 'accepted' };
  } catch (error) {
    return outcomeOf(error);
  }
}

/** Reads a refused eviction as kube-apiserver's pkg/registry/core/pod/storage/eviction.go words it. */
export function outcomeOf(error: unknown): EvictionOutcome {
  if (!(error instanceof KubeError)) return blocked('Error', messageOf(error));
  const { status, retryAfterMs } = error;
  if (status === 404 || status === 409) return { kind: 'gone' };
  return blocked(reasonOf(error), wordsOf(error), retryAfterMs);
}

function reasonOf(error: KubeError): DrainBlock['reason'] {
  switch (error.status) {
    case 429:
      return hasCause(error, 'DisruptionBudget') ? 'DisruptionBudget' : 'Throttled';
    case 403:
      return hasCause(error, 'NamespaceTerminating') ? 'NamespaceTerminating' : 'Forbidden';
    case 500:
      return error.message.includes('more than one PodDisruptionBudget') ? 'MultipleDisruptionBudgets' : 'Error';
    default:
      return 'Error';
  }
}

function hasCause(error: KubeError, reason: string): boolean {
  return causes(error).some((cause) => cause.reason === reason);
}

/** The causes name the budget; the message alone does not. */
function wordsOf(error: KubeError): string {
  const { message = error.message } = (error.body ?? {}) as StatusBody;
  return [message, ...causes(error).map((cause) => cause.message)].filter((part) => part !== undefined).join(' ');
}

function causes(error: KubeError): NonNullable<NonNullable<StatusBody['details']>['causes']> {
  return ((error.body ?? {}) as StatusBody).details?.causes ?? [];
}

function blocked(reason: DrainBlock['reason'], message: string, retryAfterMs = 0): EvictionOutcome {
  return { kind: 'blocked', block: { reason, message: message.slice(0, MAX_MESSAGE) }, retryAfterMs };
}
