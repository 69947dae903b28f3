/** How many comparisons of budgets with pods a plan makes. Each read of a selector is one comparison. */
import { Store } from '@brupop/shared/kube/store';
import { aBudget, aPod } from '@brupop/shared/testing/pods';
import type { Budget } from '@brupop/shared/drain/budgets';
import type { DrainPod } from '@brupop/shared/drain/pods';
import { indexedBudgets } from '@brupop/shared/drain/budget-index';
import { Budgets } from '../../cluster/budgets.ts';
import type { Snapshot } from '../../cluster/snapshot.ts';
import { aManagedNode, aNode, aSnapshot, NEW, NOW, podsOf, underWay } from '../../testing/objects.ts';
import { wholePlan as plan } from '../../whole-plan.ts';

const PODS = 30;

let comparisons = 0;
beforeEach(() => (comparisons = 0));

function counted(
  name: string,
  namespace: string,
  labels: Readonly<Record<string, string>>,
  { resourceVersion = '1', expectedPods = 3 } = {},
): Budget {
  const metadata = { ...aBudget(name).metadata, namespace, resourceVersion };
  const budget = aBudget(name, { metadata, expectedPods, neverAllows: true });
  return Object.defineProperty({ ...budget }, 'selector', {
    enumerable: true,
    get: () => {
      comparisons += 1;
      return { matchLabels: labels };
    },
  });
}

function inNamespace(name: string, namespace: string, labels: Readonly<Record<string, string>>): DrainPod {
  const pod = aPod(name);
  return { ...pod, metadata: { ...pod.metadata, namespace, labels } };
}

interface Fleet {
  readonly budgets: readonly Budget[];
  readonly snapshot: Snapshot;
}

const labelsOf = (i: number) => ({ 'part-of': 'shop', app: `app-${i}` });

/** Each node has pods that are blocked by a separate budget. Labels that all pods share come first. */
function fleet(nodes: number, namespaceOf: (node: number) => string): Fleet {
  const ids = Array.from({ length: nodes }, (_, i) => i);
  const budgets = ids.map((i) => counted(`budget-${i}`, namespaceOf(i), labelsOf(i)));
  const podsOn = (i: number): DrainPod[] =>
    Array.from({ length: PODS }, (_, p) => inNamespace(`pod-${i}-${p}`, namespaceOf(i), labelsOf(i)));
  const pods = new Map(ids.map((i) => [`node-${i}`, podsOf(aNode({ name: `node-${i}` }), podsOn(i))]));
  const managedNodes = ids.map((i) => aManagedNode(`node-${i}`));
  return { budgets, snapshot: { ...aSnapshot(managedNodes), pods, budgets: indexedBudgets(budgets) } };
}

function comparisonsOf(snapshot: Snapshot, now = NOW): number {
  comparisons = 0;
  const { conditions } = plan(snapshot, now);
  expect(conditions.flat().map(({ progressing }) => progressing.reason)).toEqual(
    snapshot.managedNodes.map(() => 'DrainBlocked'),
  );
  return comparisons;
}

describe.each<[string, (node: number) => string]>([
  ['in one namespace', () => 'apps'],
  ['in one namespace each', (node) => `apps-${node}`],
])('the pods of a fleet %s', (_name, namespaceOf) => {
  it('are each compared with few budgets, whatever their number', () => {
    for (const nodes of [50, 200]) {
      comparisons = 0;
      expect(comparisonsOf(fleet(nodes, namespaceOf).snapshot)).toBeLessThanOrEqual(2 * nodes * PODS);
    }
  });

  it('are compared once', () => {
    const { snapshot } = fleet(20, namespaceOf);
    comparisonsOf(snapshot);
    expect(comparisonsOf(snapshot, NOW + 1_000)).toBe(0);
  });

  it('are compared again after they are listed again', () => {
    const { snapshot } = fleet(20, namespaceOf);
    comparisonsOf(snapshot);
    const known = snapshot.pods.get('node-3');
    const listed = known === undefined ? [] : ([['node-3', { ...known, pods: [...known.pods] }]] as const);
    expect(comparisonsOf({ ...snapshot, pods: new Map([...snapshot.pods, ...listed]) })).toBe(PODS);
  });
});

const QUIET = { warn: () => undefined };

test('a changed budget is compared with the pods of its namespace only', () => {
  const { budgets, snapshot } = fleet(20, (node) => (node === 3 ? 'shop' : 'apps'));
  comparisonsOf(snapshot);
  const store = new Store<Budget>();
  const cache = new Budgets(store, QUIET);
  for (const budget of budgets) store.set(budget);
  const before = { ...snapshot, budgets: cache.current() };
  comparisonsOf(before);
  store.set(counted('budget-3', 'shop', labelsOf(3), { resourceVersion: '2' }));
  expect(cache.current()).toBe(before.budgets);
  store.set(counted('budget-3', 'shop', labelsOf(3), { resourceVersion: '3', expectedPods: 2 }));
  const after = { ...snapshot, budgets: cache.current() };
  // The first pod is compared with the budget before and after the change, then all pods with the new one.
  expect(comparisonsOf(after)).toBe(2 + PODS);
});

test('a changed budget is compared with the pods that it selects only', () => {
  const nodes = 20;
  const { budgets, snapshot } = fleet(nodes, () => 'apps');
  const store = new Store<Budget>();
  const cache = new Budgets(store, QUIET);
  for (const budget of budgets) store.set(budget);
  comparisonsOf({ ...snapshot, budgets: cache.current() });
  const change = (resourceVersion: string, labels: Readonly<Record<string, string>>, expectedPods: number): number => {
    store.set(counted('budget-3', 'apps', labels, { resourceVersion, expectedPods }));
    const current = cache.current();
    return comparisonsOf({ ...snapshot, budgets: current });
  };
  expect(change('2', labelsOf(3), 2)).toBe(2 + PODS);
  // It now selects the pods of another node, and no longer those of its own.
  store.set(counted('budget-3', 'apps', labelsOf(4), { resourceVersion: '3' }));
  const moved = plan({ ...snapshot, budgets: cache.current() }, NOW);
  const blocked = moved.conditions.flat().filter(({ progressing }) => progressing.reason === 'DrainBlocked');
  expect(blocked).toHaveLength(nodes - 1);
  const twice = blocked.filter(({ progressing }) => progressing.message.includes('budget-3, budget-4'));
  expect(twice).toHaveLength(1);
});

test('a plan does not need the pods of nodes that can neither start nor drain next', () => {
  const candidates = ['a', 'b'].map((name) => aManagedNode(name));
  const upToDate = aManagedNode('c', {}, { status: { current_version: NEW } });
  const rebooting = aManagedNode('d', {}, { spec: underWay('RebootedIntoUpdate') });
  const managedNodes = [...candidates, upToDate, rebooting];
  expect([...plan(aSnapshot(managedNodes), NOW).needsPodsOf]).toEqual(['a', 'b']);
  expect([...plan(aSnapshot(managedNodes, { paused: true }), NOW).needsPodsOf]).toEqual([]);
});
