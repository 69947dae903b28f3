/** `spec.health.room`: nodes start only when their pods fit elsewhere. The nodes have 4 cores. */
import type { AllPods, PlacedPod } from '../cluster/all-pods.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { aManagedNode, aSnapshot, NOW, underWay } from '../testing/objects.ts';
import { aPlacedPod, listed } from '../testing/placed-pods.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const SPEC = { health: { room: 'Required' }, concurrency: { maxUpdating: 3, maxUnavailable: 3 } };

function planned(nodes: readonly ManagedNode[], allPods: AllPods | readonly PlacedPod[], spec: object = SPEC): Plan {
  const known = 'seenAt' in allPods ? allPods : listed(allPods);
  return plan({ ...aSnapshot(nodes, spec), allPods: known }, NOW);
}

function started(made: Plan): string[] {
  return made.specs.filter(({ outcome }) => outcome === 'Started').map(({ node }) => node.metadata.name);
}

const waiting = (made: Plan): (readonly [string, string, string])[] =>
  made.conditions
    .filter(({ progressing: { status } }) => status === 'False')
    .map(({ node, progressing: { reason, message } }) => [node.metadata.name, reason, message] as const);

const big = (name: string, node: string, cpu = 3, changes: Partial<PlacedPod> = {}): PlacedPod =>
  aPlacedPod(name, node, { requests: { cpu, pods: 1 }, ...changes });

test('by default no room is needed, and pods are not listed', () => {
  const made = planned([aManagedNode('a')], [big('one', 'a')], {});
  expect(started(made)).toEqual(['a']);
  expect(made.allPods).toBe('forget');
});

test('no node starts before the pods are listed', () => {
  const made = planned([aManagedNode('a')], { pods: [], seenAt: undefined, asOf: 0, problem: undefined, nextAt: 0 });
  expect(started(made)).toEqual([]);
  expect(made.allPods).toBe('list');
  expect(made.conditions).toEqual([]);
});

test('an old list does not count, and the next one is due', () => {
  const made = planned([aManagedNode('a'), aManagedNode('b')], listed([], NOW - 16_000));
  expect(started(made)).toEqual([]);
  expect(made.allPods).toBe('list');
});

test('a list that fails keeps nodes from starting, and says why', () => {
  const known = { pods: [], seenAt: undefined, asOf: 0, problem: 'forbidden', nextAt: NOW + 15_000 };
  const made = planned([aManagedNode('a')], known);
  expect(waiting(made)).toEqual([['a', 'PodListFailed', 'The pods of the cluster cannot be listed: forbidden']]);
  expect(made.allPods).toBe('keep');
  expect(made.wakeAt).toBe(NOW + 15_000);
});

test('a node starts when its pods fit on another one', () => {
  const made = planned([aManagedNode('a'), aManagedNode('b')], [big('one', 'a'), big('two', 'b', 4)]);
  expect(started(made)).toEqual([]);
  expect(waiting(made)).toEqual([
    ['a', 'NoRoom', expect.stringContaining('has room for the pod shop/one, which requests 3 CPU and 0 MiB and')],
    ['b', 'NoRoom', expect.stringContaining('shop/two')],
  ]);
  expect(started(planned([aManagedNode('a'), aManagedNode('b')], [big('one', 'a'), big('two', 'b', 1)]))).toEqual([
    'a',
  ]);
});

test('a pod whose needs are too large to be kept fits on no node, and is named', () => {
  const made = planned([aManagedNode('a'), aManagedNode('b')], [big('vast', 'a', 0, { isLarge: true })]);
  expect(started(made)).toEqual(['b']);
  expect(waiting(made)).toEqual([
    [
      'a',
      'NoRoom',
      expect.stringContaining('tolerations of the pod shop/vast, or those of its namespace, are too large'),
    ],
  ]);
});

test('nodes that start together do not count on the same room', () => {
  const nodes = ['a', 'b', 'c'].map((name) => aManagedNode(name));
  const made = planned(nodes, [big('one', 'a'), big('two', 'b'), aPlacedPod('three', 'c')]);
  expect(started(made)).toEqual(['a']);
});

test('pods that wait to be scheduled, and those of nodes that are about to be drained, come first', () => {
  const nodes = ['a', 'b'].map((name) => aManagedNode(name));
  expect(started(planned(nodes, [big('one', 'a'), big('waits', '')]))).toEqual([]);
  expect(started(planned(nodes, [big('one', 'a'), big('waits', '', 1)]))).toEqual(['a']);
  const draining = aManagedNode('d', {}, { spec: underWay('RebootedIntoUpdate') });
  const startedBeside = (cpu: number): string[] =>
    started(planned([...nodes, draining], [big('one', 'a'), big('two', 'd', cpu)]));
  expect([startedBeside(1), startedBeside(3)]).toEqual([['a'], []]);
});

test('a node that is to be drained, is cordoned, is not Ready or has a taint gives no room', () => {
  const others = {
    staged: aManagedNode('b', {}, { spec: underWay('StagedAndPerformedUpdate') }),
    cordoned: aManagedNode('b', { unschedulable: true }),
    notReady: aManagedNode('b', { ready: false }),
    tainted: aManagedNode('b', { taints: [{ key: 'gpu', effect: 'NoSchedule' }] }),
  };
  const outcomes = Object.values(others).map((other) =>
    started(planned([aManagedNode('a'), other], [big('one', 'a')])),
  );
  expect(outcomes).toEqual([[], [], [], ['b']]);
});

test('a toleration and a nodeSelector say where a pod may run', () => {
  const gpu = aManagedNode('b', {
    taints: [{ key: 'gpu', value: 'a100', effect: 'NoSchedule' }],
    labels: { gpu: 'yes' },
  });
  const startsWith = (changes: Partial<PlacedPod>): boolean =>
    started(planned([aManagedNode('a'), gpu], [big('one', 'a', 1, changes)])).includes('a');
  expect(startsWith({ tolerations: [{ key: 'gpu', operator: 'Equal', value: 'a100', effect: 'NoSchedule' }] })).toBe(
    true,
  );
  expect(startsWith({ tolerations: [{ key: 'gpu', operator: 'Exists' }], nodeSelector: { gpu: 'yes' } })).toBe(true);
  expect(startsWith({ tolerations: [{ operator: 'Exists' }] })).toBe(true);
  expect(startsWith({ tolerations: [{ key: 'gpu', value: 'h100' }] })).toBe(false);
  expect(startsWith({ tolerations: [{ key: 'gpu', operator: 'Exists', effect: 'NoExecute' }] })).toBe(false);
  expect(startsWith({ tolerations: [{ operator: 'Exists' }], nodeSelector: { disk: 'ssd' } })).toBe(false);
});

test('pods that a drain does not move need no room', () => {
  const stays = [
    big('daemon', 'a', 4, { daemonSet: 'kube-system/cni', controller: 'DaemonSet kube-system/cni' }),
    big('static', 'a', 4, { mirror: true }),
    big('skipped', 'a', 4, { drainPolicy: 'skip' }),
    big('leaves', 'a', 4, { isTerminating: true }),
  ];
  expect(started(planned([aManagedNode('a')], stays))).toEqual(['a']);
});

test('a resource that no node has is missed, whatever it is', () => {
  const made = planned(
    [aManagedNode('a'), aManagedNode('b')],
    [aPlacedPod('one', 'a', { requests: { 'nvidia.com/gpu': 1, pods: 1 } })],
  );
  expect(started(made)).toEqual(['b']);
});

test('a large fleet without room is planned in little time', () => {
  const names = Array.from({ length: 2_000 }, (_, i) => `node-${i}`);
  const pods = names.flatMap((name) => [0, 1, 2, 3].map((i) => aPlacedPod(`${name}-${i}`, name)));
  const made = planned(
    names.map((name) => aManagedNode(name)),
    pods,
  );
  expect(started(made)).toEqual([]);
  expect(waiting(made)).toHaveLength(names.length);
});
