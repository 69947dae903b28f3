import type { Budget } from '@brupop/shared/drain/budgets';
import { budgetsOf } from '@brupop/shared/drain/budget-index';
import { Store } from '@brupop/shared/kube/store';
import { aBudget, aPod } from '@brupop/shared/testing/pods';
import { Budgets } from './budgets.ts';

test('the pods of a namespace with too many budgets are covered by one that cannot be read, until there are fewer', () => {
  const lines: unknown[] = [];
  const store = new Store<Budget>({ maxPerNamespace: 2, maxTotal: 100 });
  const budgets = new Budgets(store, { warn: (_, fields) => lines.push(fields) });
  const budget = (name: string): Budget =>
    aBudget(name, {
      metadata: { name, namespace: 'apps', uid: name, resourceVersion: '1', generation: 1 },
      selector: { matchLabels: { app: name } },
    });
  const large = (): boolean[] => budgetsOf(aPod('x'), budgets.current()).map(({ isLarge }) => isLarge);
  store.replace([budget('a'), budget('b')]);
  expect(large()).toEqual([]);
  store.set(budget('c'));
  expect(large()).toEqual([true]);
  expect(lines).toEqual([{ namespace: 'apps' }]);
  store.replace([budget('a'), budget('b')]);
  expect(large()).toEqual([]);
});
