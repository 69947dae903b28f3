import { messageOf } from '@brupop/shared/runtime/errors';
import { type Budget, budgetsOf, slimBudget } from '@brupop/shared/drain/budgets';
import type { DrainPod } from '@brupop/shared/drain/pods';
import type { KubeClient } from '@brupop/shared/kube/client';
import { groupPath } from '@brupop/shared/kube/paths';
import type { Logger } from '@brupop/shared/runtime/log';
import type { EvictionOutcome } from './eviction.ts';

/** Says which disruption budgets refuse an eviction: the API server does not name them when they are more than one. For one pass. */
export class BudgetNames {
  readonly #client: KubeClient;
  readonly #log: Logger;
  readonly #signal: AbortSignal;
  readonly #known = new Map<string, Promise<readonly Budget[]>>();

  constructor(client: KubeClient, log: Logger, signal: AbortSignal) {
    this.#client = client;
    this.#log = log;
    this.#signal = signal;
  }

  /** The outcome with the names. One that cannot be looked up stays as it is. */
  async add(pod: DrainPod, outcome: EvictionOutcome): Promise<EvictionOutcome> {
    if (outcome.kind !== 'blocked') return outcome;
    const { reason } = outcome.block;
    if (reason !== 'DisruptionBudget' && reason !== 'MultipleDisruptionBudgets') return outcome;
    const podDisruptionBudgets = budgetsOf(pod, await this.#budgetsIn(pod.metadata.namespace ?? ''))
      .map(({ metadata }) => metadata.name)
      .toSorted((a, b) => (a < b ? -1 : 1));
    return podDisruptionBudgets.length === 0
      ? outcome
      : { ...outcome, block: { ...outcome.block, podDisruptionBudgets } };
  }

  #budgetsIn(namespace: string): Promise<readonly Budget[]> {
    const known = this.#known.get(namespace) ?? this.#list(namespace);
    this.#known.set(namespace, known);
    return known;
  }

  async #list(namespace: string): Promise<readonly Budget[]> {
    const path = groupPath('policy/v1', 'poddisruptionbudgets', { namespace });
    try {
      const { items } = await this.#client.request<{ items: unknown[] }>({ method: 'GET', path, signal: this.#signal });
      return items.map((raw) => slimBudget(raw));
    } catch (error) {
      this.#log.warn('cannot tell which disruption budgets refuse', { namespace, error: messageOf(error) });
      return [];
    }
  }
}
