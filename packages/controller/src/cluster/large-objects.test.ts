/** What is kept of objects that a user of one namespace, or the kubelet of one node, has made as large as the Kubernetes API allows. */
import { MANAGED_LABEL, MANAGED_LABEL_VALUE, ZONE_LABEL } from '@brupop/shared/api/names';
import { slimBudget } from '@brupop/shared/drain/budgets';
import { slimPod } from '@brupop/shared/drain/pods';
import { placedPod } from './all-pods.ts';
import { readLease } from './connectivity.ts';
import { isManaged, readNode, zoneOf } from './node.ts';

const MANY = 10_000;
const LONG = 'x'.repeat(1_000_000);
const many = <T>(of: (i: number) => T): T[] => Array.from({ length: MANY }, (_, i) => of(i));
const pairs = Object.fromEntries(many((i) => [`example.com/key-${i}`, '7'.repeat(60)]));
const metadata = {
  name: 'x',
  namespace: 'apps',
  uid: 'u',
  resourceVersion: '1',
  labels: pairs,
  annotations: { long: LONG },
};
const labels = { ...pairs, [MANAGED_LABEL]: MANAGED_LABEL_VALUE, [ZONE_LABEL]: 'a' };
const conditions = many((i) => ({
  type: `Type${i}`,
  status: 'True',
  message: LONG,
  lastTransitionTime: '2026-01-01T00:00:00Z',
}));
const pod = {
  metadata: {
    ...metadata,
    finalizers: many((i) => `example.com/${i}`),
    ownerReferences: [{ apiVersion: 'v1', kind: LONG, name: LONG, uid: 'u', controller: true }],
  },
  spec: {
    nodeName: 'n',
    containers: [],
    volumes: many((i) => ({ name: `v${i}`, persistentVolumeClaim: { claimName: LONG } })).slice(0, 300),
  },
  status: { conditions, containerStatuses: [] },
};
const node = {
  metadata: {
    ...metadata,
    labels,
    managedFields: many((i) => ({
      manager: `brupop-group-${i}`,
      operation: 'Apply',
      fieldsV1: { 'f:metadata': { 'f:labels': pairs } },
    })).slice(0, 3),
  },
  spec: { taints: many((i) => ({ key: `key-${i}`, value: 'v', effect: 'NoSchedule' })) },
  status: {
    conditions,
    images: many((i) => ({ names: [`image-${i}`], sizeBytes: 1 })),
    nodeInfo: { bootID: LONG },
  },
};
const budget = {
  metadata: { ...metadata, generation: 1 },
  spec: { selector: { matchExpressions: [{ key: 'app', operator: 'In', values: many((i) => `v${i}`) }] } },
  status: { conditions: [{ type: 'DisruptionAllowed', status: 'False', reason: 'SyncFailed', message: LONG }] },
};
const lease = { metadata, spec: { holderIdentity: LONG, renewTime: '2026-01-01T00:00:00.000000Z' } };

it.each<[string, unknown, number]>([
  ['a pod on a node', slimPod(pod), 64 * 1024],
  ['a pod of the cluster', placedPod(pod), 8 * 1024],
  ['a Node', readNode(node), 64 * 1024],
  ['a disruption budget', slimBudget(budget), 2 * 1024],
  ['a Lease', readLease(lease), 1_024],
])('of %s little is kept', (_, kept, maxChars) => {
  expect(JSON.stringify(kept).length).toBeLessThan(maxChars);
});

it('a Node that is too large is named as such, stays managed, and stays in its zone', () => {
  const read = readNode(node);
  expect([read.isLarge, isManaged(read), zoneOf(read)]).toEqual([true, true, 'a']);
  expect(readNode({ metadata: { ...metadata, labels: { [ZONE_LABEL]: 'a' } } }).isLarge).toBe(false);
});

it('a Node that is too large keeps the labels that no kubelet can set, by which groups select it', () => {
  const protectedLabels = {
    'node-restriction.kubernetes.io/pool': 'untrusted',
    'node-role.kubernetes.io/control-plane': '',
  };
  const read = readNode({ metadata: { ...metadata, labels: { ...labels, ...protectedLabels } } });
  expect(read.isLarge).toBe(true);
  expect(read.metadata.labels).toEqual({
    ...protectedLabels,
    [MANAGED_LABEL]: MANAGED_LABEL_VALUE,
    [ZONE_LABEL]: 'a',
  });
});

it('of what a kubelet claims that groups have applied little is kept, soon, and the Node is large', () => {
  const keys = Array.from({ length: 60_000 }, (_, i) => `k${i}`);
  const annotations = Object.fromEntries(keys.map((key) => [key, '']));
  const owned = Object.fromEntries(keys.map((key) => [`f:${key}`, {}]));
  const managedFields = [
    { manager: 'brupop-group-x', operation: 'Apply', fieldsV1: { 'f:metadata': { 'f:annotations': owned } } },
  ];
  const startedAt = performance.now();
  const read = readNode({ metadata: { ...metadata, labels: {}, annotations, managedFields } });
  expect(performance.now() - startedAt).toBeLessThan(3_000);
  expect(JSON.stringify(read).length).toBeLessThan(8 * 1024);
  expect(read.isLarge).toBe(true);
});

it.each<[string, { readonly conditions: readonly object[] }]>([
  ['status of a condition', { conditions: [{ type: 'KernelReady', status: LONG }] }],
  ['type of a condition', { conditions: [{ type: LONG, status: 'False' }] }],
])('a Node with a long %s is large, and the others are kept', (_, { conditions: some }) => {
  const ready = { type: 'Ready', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' };
  const read = readNode({ metadata: { ...metadata, labels: {} }, status: { conditions: [...some, ready] } });
  expect([read.isLarge, read.ready, read.conditions]).toEqual([true, true, []]);
});

it.each([
  ['an ordinary one', { matchLabels: { app: 'web' } }, 1],
  [
    'one of many values',
    { matchExpressions: [{ key: 'app', operator: 'In', values: many((i) => `v${i}`).slice(0, 100) }] },
    12,
  ],
  ['one that is too large to be kept', budget.spec.selector, 1],
])('a disruption budget counts as so many as its selector takes: %s', (_, selector, weight) => {
  expect(slimBudget({ metadata, spec: { selector } }).weight).toBe(weight);
});
