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
import { EVICTION_LIMIT_MS, type EvictionOutcome, outcomeOf, requestEviction } from '@brupop/shared/drain/evictions';
import { KubeError } from '@brupop/shared/kube/client';
import { isTransient, isTooLarge, kindOf } from '@brupop/shared/kube/error';
import { readList } from '@brupop/shared/kube/list';
import { corePath, groupPath } from '@brupop/shared/kube/paths';
import { messageOf } from '@brupop/shared/runtime/errors';
import { forEachOf } from '@brupop/shared/runtime/for-each';
import type { RetriedProblem } from '@brupop/shared/runtime/log';
import type { TokenBucket } from '@brupop/shared/runtime/token-bucket';
import type { Semaphore } from '../http/limits.ts';
import type { PassContext } from './context.ts';

const MAX_NAMED_BUDGETS = 10;
/** An eviction that was not requested, so that the pass ends in time. */
const TOO_MANY: EvictionOutcome = {
  kind: 'blocked',
  block: {
    reason: 'Throttled',
    message: 'this replica waits for responses to too many evictions; an admission webhook may be slow',
  },
  retryAfterMs: 1_000,
};

/** Another one, for a drain that is over. */
const OVER: EvictionOutcome = {
  kind: 'blocked',
  block: { reason: 'Throttled', message: 'the drain ended, or the node was uncordoned, before its turn' },
  retryAfterMs: 0,
};

export class Evictor {
  readonly #context: PassContext;
  /** Shared by all drains of this replica. */
  readonly #rateLimit: TokenBucket;
  readonly #slots: Semaphore;
  /** Of the lists of budgets, shared by all drains as well. */
  readonly #problem: RetriedProblem;
  /** By namespace. */
  readonly #budgets = new Map<string, Promise<BudgetIndex>>();
  /** Blocks that the log has, of this drain: they are requested again every few seconds. */
  readonly #logged: Set<string>;
  #mayDelete = true;

  constructor(context: PassContext, rateLimit: TokenBucket, slots: Semaphore, problem: RetriedProblem) {
    this.#context = context;
    this.#rateLimit = rateLimit;
    this.#slots = slots;
    this.#problem = problem;
    const { drain, metadata } = context.shadow;
    const known = drain?.observedGeneration === metadata.generation ? drain?.blockedBy : [];
    this.#logged = new Set(known?.map(({ pod, reason }) => `${pod} ${reason}`));
  }

  /** False once kube-apiserver has shown that this account has no right to delete pods. */
  get mayDelete(): boolean {
    return this.#mayDelete;
  }

  /**
   * Requests once to evict the pod, or to delete it past its disruption budgets; not while too many
   * requests wait for a response. Waits for the rate limit, and throws the reason of the signal meanwhile.
   * @param mayContinue - asked after that wait, which takes seconds while many nodes are drained
   */
  async evict(pod: DrainPod, force: boolean, mayContinue: () => boolean): Promise<EvictionOutcome> {
    const { metrics, signal } = this.#context;
    await this.#rateLimit.wait(signal);
    if (!mayContinue()) return OVER;
    if (this.#slots.isFull) return TOO_MANY;
    const outcome = await this.#slots.run(() => this.#request(pod, force));
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

  async #request(pod: DrainPod, force: boolean): Promise<EvictionOutcome> {
    const { client, settings } = this.#context;
    const { maxGracePeriodMs = Infinity } = settings;
    const { name, namespace = '', uid } = pod.metadata;
    const grace = pod.graceSeconds * 1000 > maxGracePeriodMs ? { gracePeriodSeconds: maxGracePeriodMs / 1000 } : {};
    if (!force) return await requestEviction(client, pod, grace);
    const path = corePath('pods', { namespace, name });
    const body = { preconditions: { uid }, ...grace };
    try {
      await client.request({ method: 'DELETE', path, body, timeoutMs: EVICTION_LIMIT_MS });
      return { kind: 'accepted' };
    } catch (error) {
      if (isUnauthorized(error)) this.#mayDelete = false;
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
    const budgets = new Map<string, BudgetIndex>();
    await forEachOf(namespaces, async (name) => void budgets.set(name, await this.#listBudgets(name)));
    return budgets;
  }

  async #nameBudgets(namespace: string): Promise<BudgetIndex> {
    try {
      const budgets = await this.#listBudgets(namespace);
      this.#problem.ended();
      return budgets;
    } catch (error) {
      const level = this.#problem.levelOf(kindOf(error), { isLasting: !isTransient(error) });
      this.#context.log[level]('cannot list the disruption budgets', { namespace, error: messageOf(error) });
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

/** Whether the authorizer rejected the request, as it words it; admission rejects with 403, too. */
function isUnauthorized(error: unknown): boolean {
  return error instanceof KubeError && error.status === 403 && error.message.includes('cannot delete resource');
}
