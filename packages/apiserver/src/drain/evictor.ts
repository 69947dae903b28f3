/**
 * Evicts pods for one drain pass, within the rate limit that all drains of this replica share. Each
 * call of `evict` sends one request and returns how kube-apiserver has responded; when to repeat it
 * is up to eviction-order.ts. Disruption budgets are read only to name them in a block: they are
 * decided about by kube-apiserver. The caller records a pod with volumes before its eviction.
 */
import { BudgetIndex, type IndexedBudgets } from '@brupop/shared/drain/budget-index';
import { MAX_BUDGETS_OF_NAMESPACE, slimBudget, tooManyBudgets } from '@brupop/shared/drain/budgets';
import { type DrainPod, podKey } from '@brupop/shared/drain/pods';
import type { DrainBlock } from '@brupop/shared/api/shadow';
import { KubeError } from '@brupop/shared/kube/client';
import { isTooLarge } from '@brupop/shared/kube/error';
import { readList } from '@brupop/shared/kube/list';
import { corePath, groupPath } from '@brupop/shared/kube/paths';
import { messageOf, shorten } from '@brupop/shared/runtime/errors';
import type { TokenBucket } from '@brupop/shared/runtime/token-bucket';
import type { PassContext } from './context.ts';

export type EvictionOutcome =
  | { readonly kind: 'accepted' }
  /** There is no such pod, or another one of that name. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'blocked'; readonly block: Omit<DrainBlock, 'pod'>; readonly retryAfterMs: number };

export const EVICTION_LIMIT_MS = 10_000;
const MAX_MESSAGE = 500;

interface StatusBody {
  readonly message?: string;
  readonly details?: { readonly causes?: readonly { readonly reason?: string; readonly message?: string }[] };
}

const MAX_NAMED_BUDGETS = 10;

export class Evictor {
  readonly #context: PassContext;
  /** Shared by all drains of this replica. */
  readonly #rateLimit: TokenBucket;
  /** By namespace. */
  readonly #budgets = new Map<string, Promise<BudgetIndex>>();
  /** Blocks that the log has, of this drain: they are requested again every few seconds. */
  readonly #logged: Set<string>;
  #mayDelete = true;

  constructor(context: PassContext, rateLimit: TokenBucket) {
    this.#context = context;
    this.#rateLimit = rateLimit;
    const { drain, metadata } = context.shadow;
    const known = drain?.observedGeneration === metadata.generation ? drain?.blockedBy : [];
    this.#logged = new Set(known?.map(({ pod, reason }) => `${pod} ${reason}`));
  }

  /** False once kube-apiserver has shown that this account has no right to delete pods. */
  get mayDelete(): boolean {
    return this.#mayDelete;
  }

  /**
   * Requests once to evict the pod, or to delete it past its disruption budgets. Waits for the rate
   * limit, and throws the reason of the signal meanwhile.
   */
  async evict(pod: DrainPod, force: boolean): Promise<EvictionOutcome> {
    const { metrics, signal } = this.#context;
    await this.#rateLimit.wait(signal);
    const outcome = await this.#request(pod, force);
    metrics.evictions.inc({ result: outcome.kind === 'blocked' ? outcome.block.reason : outcome.kind });
    this.#logOutcome(podKey(pod), outcome, force);
    return outcome.kind === 'blocked' ? { ...outcome, block: await this.#withBudgets(pod, outcome.block) } : outcome;
  }

  #logOutcome(pod: string, outcome: EvictionOutcome, force: boolean): void {
    const { kind: result } = outcome;
    const { reason, message } = outcome.kind === 'blocked' ? outcome.block : {};
    const block = `${pod} ${reason}`;
    const level = reason !== undefined && this.#logged.has(block) ? 'debug' : 'info';
    this.#logged.add(block);
    const msg = force ? 'requested a deletion' : 'requested an eviction';
    this.#context.log[level](msg, { pod, result, reason, message });
  }

  /**
   * Only its own limit cuts the request off: kube-apiserver first counts the disruption in the
   * budget and then deletes the pod, so a request that is cut off in between blocks the budget for
   * two minutes.
   */
  async #request(pod: DrainPod, force: boolean): Promise<EvictionOutcome> {
    const { client, settings } = this.#context;
    const { maxGracePeriodMs = Infinity } = settings;
    const { name, namespace = '', uid } = pod.metadata;
    const grace = pod.graceSeconds * 1000 > maxGracePeriodMs ? { gracePeriodSeconds: maxGracePeriodMs / 1000 } : {};
    const deleteOptions = { preconditions: { uid }, ...grace };
    const path = corePath('pods', { namespace, name, ...(!force && { subresource: 'eviction' }) });
    const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace }, deleteOptions };
    const call = force
      ? ({ method: 'DELETE', body: deleteOptions } as const)
      : ({ method: 'POST', body: eviction } as const);
    try {
      await client.request({ ...call, path, timeoutMs: EVICTION_LIMIT_MS });
      return { kind: 'accepted' };
    } catch (error) {
      if (force && isUnauthorized(error)) this.#mayDelete = false;
      return outcomeOf(error);
    }
  }

  /** Names the budgets of the pod, which kube-apiserver does not when there are more than one. */
  async #withBudgets(pod: DrainPod, block: Omit<DrainBlock, 'pod'>): Promise<Omit<DrainBlock, 'pod'>> {
    if (block.reason !== 'DisruptionBudget' && block.reason !== 'MultipleDisruptionBudgets') return block;
    const { namespace = '' } = pod.metadata;
    const known = this.#budgets.get(namespace) ?? this.#nameBudgets(namespace);
    this.#budgets.set(namespace, known);
    const found = (await known).of(pod).slice(0, MAX_NAMED_BUDGETS);
    const podDisruptionBudgets = found.map(({ metadata }) => metadata.name);
    return podDisruptionBudgets.length === 0 ? block : { ...block, podDisruptionBudgets };
  }

  /** The budgets in the namespaces of these pods. Throws KubeError. */
  async budgetsFor(pods: readonly DrainPod[]): Promise<IndexedBudgets> {
    const namespaces = [...new Set(pods.map(({ metadata: { namespace = '' } }) => namespace))];
    const listed = namespaces.map(async (name) => [name, await this.#listBudgets(name)] as const);
    return new Map(await Promise.all(listed));
  }

  async #nameBudgets(namespace: string): Promise<BudgetIndex> {
    try {
      return await this.#listBudgets(namespace);
    } catch (error) {
      this.#context.log.warn('cannot list the disruption budgets', { namespace, error: messageOf(error) });
      return new BudgetIndex([]);
    }
  }

  async #listBudgets(namespace: string): Promise<BudgetIndex> {
    const { client, signal } = this.#context;
    const path = groupPath('policy/v1', 'poddisruptionbudgets', { namespace });
    try {
      const { items } = await readList(client, { path, signal, slim: slimBudget, maxItems: MAX_BUDGETS_OF_NAMESPACE });
      return new BudgetIndex(items);
    } catch (error) {
      if (isTooLarge(error)) return new BudgetIndex([tooManyBudgets(namespace)]);
      throw error;
    }
  }
}

/** Reads a rejection as kube-apiserver's pkg/registry/core/pod/storage/eviction.go words it. */
export function outcomeOf(error: unknown): EvictionOutcome {
  if (!(error instanceof KubeError)) return blocked('Error', messageOf(error));
  const { status, retryAfterMs } = error;
  if (status === 404 || isOtherPod(error)) return { kind: 'gone' };
  return blocked(reasonOf(error), textOf(error), retryAfterMs);
}

/**
 * True for another pod of that name, as kube-apiserver words it. Another conflict, or a webhook that denies with 409, says
 * nothing of it.
 */
function isOtherPod({ status, message }: KubeError): boolean {
  return status === 409 && !isDenial(message) && /UID.*precondition|precondition.*UID/iu.test(message);
}

function isDenial(message: string): boolean {
  return /admission webhook .* denied the request|ValidatingAdmissionPolicy .* denied request/u.test(message);
}

function reasonOf(error: KubeError): DrainBlock['reason'] {
  if (isDenial(error.message)) return 'Forbidden';
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

/** Whether the authorizer rejected the request, as it words it; admission rejects with 403, too. */
function isUnauthorized(error: unknown): boolean {
  return error instanceof KubeError && error.status === 403 && error.message.includes('cannot delete resource');
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

function blocked(reason: DrainBlock['reason'], message: string, retryAfterMs = 0): EvictionOutcome {
  return { kind: 'blocked', block: { reason, message: shorten(message, MAX_MESSAGE) }, retryAfterMs };
}
