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
  readonly #log: Pick<Logger, 'warn'>;
  readonly #changed = new Set<string>();
  /** The namespaces of which budgets were omitted when the indexes were made. */
  #overfull: ReadonlySet<string> = new Set();
  #current: IndexedBudgets = new Map();

  constructor(cache: Pick<Store<Budget>, 'list' | 'overfull' | 'subscribe'>, log: Pick<Logger, 'warn'>) {
    this.#cache = cache;
    this.#log = log;
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
    this.#noteOverfull();
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

  /** What is omitted has no event of its own. */
  #noteOverfull(): void {
    const overfull = new Set(this.#cache.overfull);
    for (const namespace of this.#overfull) if (!overfull.has(namespace)) this.#changed.add(namespace);
    for (const namespace of overfull) {
      if (this.#overfull.has(namespace)) continue;
      this.#changed.add(namespace);
      this.#log.warn('a namespace has too many disruption budgets: its pods count as covered by one', { namespace });
    }
    this.#overfull = overfull;
  }
}

function namespaceOf({ metadata }: Budget): string {
  return metadata.namespace ?? '';
}
