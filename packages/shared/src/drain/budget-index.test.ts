import type { LabelSelector } from '../api/label-selector.ts';
import { aBudget, aPod } from '../testing/pods.ts';
import { BudgetIndex, budgetsOf, indexedBudgets } from './budget-index.ts';

const labels = { app: 'web', tier: 'front' };
const inExpression = (key: string, ...values: string[]) => ({ matchExpressions: [{ key, operator: 'In', values }] });

it.each<[string, LabelSelector | null, boolean]>([
  ['every pod', {}, true],
  ['none', null, false],
  ['a label', { matchLabels: { app: 'web' } }, true],
  ['another value', { matchLabels: { app: 'db' } }, false],
  ['a label and another value', { matchLabels: { tier: 'front', app: 'db' } }, false],
  ['several values', inExpression('app', 'db', 'web', 'web'), true],
  ['several other values', inExpression('app', 'db', 'queue'), false],
  ['no value', inExpression('app'), false],
  ['the lack of a value', { matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['db'] }] }, true],
  ['the lack of its value', { matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['web'] }] }, false],
  ['a key', { matchExpressions: [{ key: 'tier', operator: 'Exists' }] }, true],
  ['what a later release invents', { matchExpressions: [{ key: 'tier', operator: 'Like', values: ['f*'] }] }, true],
])('a budget whose selector requires %s is found at most once', (_what, selector, isFound) => {
  const pod = aPod('x', { metadata: { ...aPod('x').metadata, labels } });
  const budgets = [
    aBudget('b', { selector }),
    aBudget('a', { selector: { matchLabels: { app: 'web', tier: 'back' } } }),
  ];
  expect(budgetsOf(pod, indexedBudgets(budgets)).map(({ metadata }) => metadata.name)).toEqual(isFound ? ['b'] : []);
});

it('the budgets of a pod are sorted by name and of its namespace only', () => {
  const elsewhere = { ...aBudget('a').metadata, namespace: 'other' };
  const budgets = [
    aBudget('c'),
    aBudget('b', { selector: { matchLabels: { app: 'x' } } }),
    aBudget('a', { metadata: elsewhere }),
  ];
  expect(budgetsOf(aPod('x'), indexedBudgets(budgets)).map(({ metadata }) => metadata.name)).toEqual(['b', 'c']);
});

it('a pod whose labels are not kept has each budget of its namespace that selects pods, also those that are new', () => {
  const pod = aPod('x', { isLabelled: false, metadata: { ...aPod('x').metadata, labels: {} } });
  const selector = { matchLabels: { app: 'x' } };
  const before = new BudgetIndex([aBudget('b', { selector }), aBudget('c', { selector: null })]);
  const after = before.replacedBy([aBudget('d'), aBudget('a', { selector })]);
  const namesIn = (index: BudgetIndex): string[] => index.of(pod).map(({ metadata }) => metadata.name);
  expect([namesIn(before), namesIn(after)]).toEqual([['b'], ['a', 'd']]);
  expect(after.isSameFor(pod, before)).toBe(false);
  expect(after.of(pod)).toBe(after.of(pod));
});

it.each<[string, LabelSelector]>([
  ['all pods', {}],
  ['the pod by a value', { matchLabels: { app: 'web' } }],
  ['the pod by a key', { matchExpressions: [{ key: 'app', operator: 'Exists' }] }],
])(
  'of thousands of budgets that select %s, the first ten by name are found without a look at the others',
  (_what, selector) => {
    let comparisons = 0;
    const many = Array.from({ length: 2_000 }, (_, i) =>
      Object.defineProperty({ ...aBudget(`b-${String((i * 7_919) % 2_000).padStart(4, '0')}`) }, 'selector', {
        get: () => {
          comparisons += 1;
          return selector;
        },
      }),
    );
    const index = indexedBudgets(many);
    comparisons = 0;
    const found = budgetsOf(aPod('x', { metadata: { ...aPod('x').metadata, labels } }), index);
    expect(found.map(({ metadata }) => metadata.name)).toEqual(Array.from({ length: 10 }, (_, i) => `b-000${i}`));
    expect(comparisons).toBe(10);
  },
);

it('one budget per node is found without comparing the others', () => {
  const nodes = 300;
  const sharedLabel = { part: 'shop' };
  const selectors: ((node: number) => LabelSelector)[] = [
    (node) => ({ matchExpressions: [{ key: `pool-${node}`, operator: 'Exists' }] }),
    (node) => ({ matchLabels: sharedLabel, matchExpressions: [{ key: `pool-${node}`, operator: 'Exists' }] }),
    (node) => ({
      matchLabels: { ...sharedLabel, [`pool-${node}`]: 'x' },
      matchExpressions: [{ key: 'part', operator: 'NotIn', values: ['other'] }],
    }),
  ];
  for (const selectorOf of selectors) {
    let comparisons = 0;
    const budgets = Array.from({ length: nodes }, (_, node) =>
      Object.defineProperty({ ...aBudget(`budget-${node}`) }, 'selector', {
        get: () => {
          comparisons += 1;
          return selectorOf(node);
        },
      }),
    );
    const index = indexedBudgets(budgets);
    comparisons = 0;
    for (let node = 0; node < nodes; node += 1) {
      const pod = aPod('x', {
        metadata: { ...aPod('x').metadata, labels: { ...sharedLabel, [`pool-${node}`]: 'x' } },
      });
      expect(budgetsOf(pod, index)).toHaveLength(1);
    }
    expect(comparisons).toBe(nodes);
  }
});
