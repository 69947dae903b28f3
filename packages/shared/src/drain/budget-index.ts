/**
 * The budgets of one namespace, so that the budgets of a pod are found without a comparison with each:
 * a budget is kept under one of the labels that its selector requires, the one that fewest budgets
 * require. The controller keeps an index for each namespace, the drain of a node one for each
 * namespace in which an eviction was rejected.
 */
import { type LabelSelector, selects } from '../api/label-selector.ts';
import type { Budget } from './budgets.ts';
import type { DrainPod } from './pods.ts';

export class BudgetIndex {
  readonly #byLabel = new Map<string, Budget[]>();
  /** Those whose selectors require no value of a label. */
  readonly #others: Budget[] = [];

  constructor(budgets: readonly Budget[]) {
    const read = budgets.map((budget) => ({ budget, requirements: requirementsOf(budget.selector) }));
    const uses = countOf(read.flatMap(({ requirements }) => requirements.flat()));
    const usesOf = (labels: readonly string[]): number =>
      labels.reduce((sum, label) => sum + (uses.get(label) ?? 0), 0);
    for (const { budget, requirements } of read) {
      const [first, ...rest] = requirements;
      if (first === undefined) this.#others.push(budget);
      else for (const label of rest.reduce((a, b) => (usesOf(b) < usesOf(a) ? b : a), first)) this.#add(label, budget);
    }
  }

  /** The budgets that select a pod of the namespace, by name. */
  of({ metadata: { labels = {} } }: DrainPod): readonly Budget[] {
    const found = this.#others.filter(({ selector }) => selects(selector, labels));
    for (const [key, value] of Object.entries(labels))
      for (const budget of this.#byLabel.get(labelOf(key, value)) ?? [])
        if (selects(budget.selector, labels)) found.push(budget);
    return found.length < 2 ? found : found.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  }

  #add(label: string, budget: Budget): void {
    const known = this.#byLabel.get(label);
    if (known === undefined) this.#byLabel.set(label, [budget]);
    else known.push(budget);
  }
}

/** By namespace. */
export type IndexedBudgets = ReadonlyMap<string, BudgetIndex>;

export function indexedBudgets(budgets: readonly Budget[]): IndexedBudgets {
  const groups = Map.groupBy(budgets, ({ metadata }) => metadata.namespace ?? '');
  return new Map([...groups].map(([namespace, group]) => [namespace, new BudgetIndex(group)]));
}

/** The budgets that select the pod, by name. */
export function budgetsOf(pod: DrainPod, budgets: IndexedBudgets): readonly Budget[] {
  return budgets.get(pod.metadata.namespace ?? '')?.of(pod) ?? [];
}

/** Of each requirement the labels that meet it: a pod must have one of them, and only one of a key. */
function requirementsOf(selector: LabelSelector | null): string[][] {
  const { matchLabels = {}, matchExpressions = [] } = selector ?? {};
  const valuesOf = matchExpressions.flatMap(({ key, operator, values = [] }) =>
    operator === 'In' ? [[...new Set(values)].map((value) => labelOf(key, value))] : [],
  );
  return [...Object.entries(matchLabels).map(([key, value]) => [labelOf(key, value)]), ...valuesOf];
}

/** A key contains no `=`. */
function labelOf(key: string, value: string): string {
  return `${key}=${value}`;
}

function countOf(texts: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  return counts;
}
