import { indexedBudgets, type IndexedBudgets } from '@brupop/shared/drain/budget-index';
import type { Budget } from '@brupop/shared/drain/budgets';
import type { Store } from '@brupop/shared/kube/store';
import { differs } from './change.ts';

/**
 * The disruption budgets by namespace. Only the indexes of namespaces whose budgets changed are made
 * anew, so that what was judged by the others still holds.
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
    const changed = this.#cache.list().filter((budget) => this.#changed.has(namespaceOf(budget)));
    const kept = [...this.#current].filter(([namespace]) => !this.#changed.has(namespace));
    this.#current = new Map([...kept, ...indexedBudgets(changed)]);
    this.#changed.clear();
    return this.#current;
  }
}

function namespaceOf({ metadata }: Budget): string {
  return metadata.namespace ?? '';
}
