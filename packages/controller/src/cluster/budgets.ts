import { BudgetIndex, type IndexedBudgets } from '@brupop/shared/drain/budget-index';
import type { Budget } from '@brupop/shared/drain/budgets';
import type { Store } from '@brupop/shared/kube/store';
import { differs } from './change.ts';

/**
 * The disruption budgets by namespace. When budgets change, only the indexes of their namespaces are
 * replaced. A new index knows which budgets changed, so that the results of other checks stay valid.
 */
export class Budgets {
  readonly #cache: Pick<Store<Budget>, 'list'>;
  readonly #changed = new Set<string>();
  #current: IndexedBudgets = new Map();

  constructor(cache: Pick<Store<Budget>, 'list' | 'subscribe'>) {
    this.#cache = cache;
    cache.subscribe((event) => differs(event) && this.#changed.add(namespaceOf(event.object)));
  }

  current(): IndexedBudgets {
    if (this.#changed.size === 0) return this.#current;
    const current = new Map(this.#current);
    const budgets = Map.groupBy(this.#cache.list(), namespaceOf);
    for (const namespace of this.#changed) {
      const known = current.get(namespace) ?? new BudgetIndex([]);
      current.set(namespace, known.replacedBy(budgets.get(namespace) ?? []));
    }
    this.#current = current;
    this.#changed.clear();
    return this.#current;
  }
}

function namespaceOf({ metadata }: Budget): string {
  return metadata.namespace ?? '';
}
