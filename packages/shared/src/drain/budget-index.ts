/**
 * An index of the budgets of one namespace, which finds the budgets of a pod without a comparison with
 * all of them. Each budget is stored under one requirement of its selector (a key with its values, or
 * a key that must exist): the one that the fewest budgets have in common. The controller keeps an
 * index for each namespace, and a drain one for each namespace in which an eviction was rejected.
 */
import { type LabelSelector, selects } from '../api/label-selector.ts';
import type { Budget } from './budgets.ts';
import type { DrainPod } from './pods.ts';

/** The budgets that require a label, with one of some values or with any value. */
interface Requiring {
  readonly values: Map<string, Budget[]>;
  readonly any: Budget[];
}

/** `values` undefined: the label must exist. */
interface Requirement {
  readonly key: string;
  readonly values: readonly string[] | undefined;
}

/** Two budgets block a pod, and no more than these are named. Anyone may have thousands of pods and of budgets for each. */
const MAX_FOUND = 10;

export class BudgetIndex {
  readonly #byKey = new Map<string, Requiring>();
  /** Budgets whose selectors require no label. */
  readonly #others: Budget[] = [];
  readonly #all: ReadonlySet<Budget>;
  #selecting: readonly Budget[] | undefined;
  #replaced: { readonly index: BudgetIndex; readonly changed: BudgetIndex } | undefined;

  /** How many budgets require a label. */
  readonly #uses: ReadonlyMap<string, number>;

  /** @param larger - the index that counts how many budgets have a requirement; by default this one */
  constructor(budgets: readonly Budget[], larger?: BudgetIndex) {
    const sorted = byName(budgets);
    this.#all = new Set(sorted);
    const read = sorted.map((budget) => ({ budget, requirements: requirementsOf(budget.selector) }));
    const labels = read.flatMap(({ requirements }) => requirements.flatMap(labelsOf));
    this.#uses = larger === undefined ? countOf(labels) : larger.#uses;
    const usesOf = (requirement: Requirement): number =>
      labelsOf(requirement).reduce((sum, label) => sum + (this.#uses.get(label) ?? 0), 0);
    for (const { budget, requirements } of read) {
      const [first, ...rest] = requirements;
      if (first === undefined) this.#others.push(budget);
      else
        this.#add(
          rest.reduce((a, b) => (usesOf(b) < usesOf(a) ? b : a), first),
          budget,
        );
    }
  }

  /**
   * Returns the budgets that select a pod of the namespace, sorted by name; those that select any, if its labels are not
   * kept. Of more than MAX_FOUND at least the first ones.
   */
  of({ metadata: { labels = {} }, isLabelled }: DrainPod): readonly Budget[] {
    if (!isLabelled) return this.#firstSelecting();
    const found: Budget[] = [];
    const add = (candidates: readonly Budget[] = []): void => {
      const enough = found.length + MAX_FOUND;
      for (const budget of candidates) {
        if (selects(budget.selector, labels)) found.push(budget);
        if (found.length === enough) return;
      }
    };
    add(this.#others);
    for (const key in labels) {
      const requiring = this.#byKey.get(key);
      if (requiring === undefined) continue;
      add(requiring.any);
      add(requiring.values.get(labels[key] ?? ''));
    }
    return byName(found);
  }

  /** Found once, since any number of pods may ask. */
  #firstSelecting(): readonly Budget[] {
    this.#selecting ??= [...this.#all].filter(({ selector }) => selector !== null).slice(0, MAX_FOUND);
    return this.#selecting;
  }

  /** Returns an index of these budgets, which knows its differences from this one. */
  replacedBy(budgets: readonly Budget[]): BudgetIndex {
    const next = new BudgetIndex(budgets);
    const added = [...next.#all].filter((budget) => !this.#all.has(budget));
    const removed = [...this.#all].filter((budget) => !next.#all.has(budget));
    next.#replaced = { index: this, changed: new BudgetIndex([...added, ...removed], next) };
    this.#replaced = undefined;
    return next;
  }

  /** True if the pod has the same budgets as in `earlier`; false also if that is unknown. */
  isSameFor(pod: DrainPod, earlier: BudgetIndex | undefined): boolean {
    if (earlier === this) return true;
    return this.#replaced?.index === earlier && this.#replaced?.changed.of(pod).length === 0;
  }

  #add({ key, values }: Requirement, budget: Budget): void {
    const requiring = this.#byKey.get(key) ?? { values: new Map<string, Budget[]>(), any: [] };
    this.#byKey.set(key, requiring);
    if (values === undefined) requiring.any.push(budget);
    for (const value of values ?? []) {
      const known = requiring.values.get(value);
      if (known === undefined) requiring.values.set(value, [budget]);
      else known.push(budget);
    }
  }
}

function byName(budgets: readonly Budget[]): readonly Budget[] {
  return budgets.length < 2 ? budgets : budgets.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
}

/** By namespace. */
export type IndexedBudgets = ReadonlyMap<string, BudgetIndex>;

export function indexedBudgets(budgets: readonly Budget[]): IndexedBudgets {
  const groups = Map.groupBy(budgets, ({ metadata }) => metadata.namespace ?? '');
  return new Map([...groups].map(([namespace, group]) => [namespace, new BudgetIndex(group)]));
}

/** Returns the budgets that select the pod, sorted by name. */
export function budgetsOf(pod: DrainPod, budgets: IndexedBudgets): readonly Budget[] {
  return budgets.get(pod.metadata.namespace ?? '')?.of(pod) ?? [];
}

/** Returns the requirements that a pod without labels does not meet. */
function requirementsOf(selector: LabelSelector | null): Requirement[] {
  const { matchLabels = {}, matchExpressions = [] } = selector ?? {};
  const expressions = matchExpressions.flatMap(({ key, operator, values = [] }): Requirement[] => {
    if (operator === 'Exists') return [{ key, values: undefined }];
    return operator === 'In' ? [{ key, values: [...new Set(values)] }] : [];
  });
  return [...Object.entries(matchLabels).map(([key, value]) => ({ key, values: [value] })), ...expressions];
}

/** A key contains no `=`. */
function labelsOf({ key, values }: Requirement): string[] {
  return values?.map((value) => `${key}=${value}`) ?? [key];
}

function countOf(texts: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  return counts;
}
