import { BudgetIndex, type IndexedBudgets } from '@brupop/shared/drain/budget-index';
import { type Budget, tooManyBudgets } from '@brupop/shared/drain/budgets';
import type { Store } from '@brupop/shared/kube/store';
import type { Logger } from '@brupop/shared/runtime/log';
import { differs } from './change.ts';

/**
 * The disruption budgets by namespace. When budgets change, only the indexes of their namespaces are
 * replaced. A new index knows which budgets changed, so that the results of other checks stay valid.
 */
export class Budgets {
  readonly #cache: Pick<Store<Budget>, 'list' | 'overfull'>;
  readonly #changed = new Set<string>();
  #current: IndexedBudgets = new Map();

  constructor(cache: Pick<Store<Budget>, 'list' | 'overfull' | 'subscribe'>, log: Pick<Logger, 'warn'>) {
    this.#cache = cache;
    cache.subscribe((event) => {
      const { metadata, isLarge } = event.object;
      if (differs(event)) this.#changed.add(namespaceOf(event.object));
      if (!isLarge || event.type === 'Deleted' || event.old?.isLarge === true) return;
      log.warn('the selector of a disruption budget is too large: it counts for all pods of its namespace', {
        budget: `${metadata.namespace}/${metadata.name}`,
      });
    });
  }

  current(): IndexedBudgets {
    if (this.#changed.size === 0) return this.#current;
    const current = new Map(this.#current);
    const budgets = Map.groupBy(this.#cache.list(), namespaceOf);
    for (const namespace of this.#changed) {
      const known = current.get(namespace) ?? new BudgetIndex([]);
      const more = this.#cache.overfull.has(namespace) ? [tooManyBudgets(namespace)] : [];
      current.set(namespace, known.replacedBy([...(budgets.get(namespace) ?? []), ...more]));
    }
    this.#current = current;
    this.#changed.clear();
    return this.#current;
  }
}

function namespaceOf({ metadata }: Budget): string {
  return metadata.namespace ?? '';
}
