/** `spec.health.workloads`: what the pods of other nodes say about a drain, and about an update. */
import { EVICTED_WORKLOADS_ANNOTATION } from '@brupop/shared/api/names';
import { aPod } from '@brupop/shared/testing/pods';
import type { AllPods, PlacedPod } from '../cluster/all-pods.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { ago, aManagedNode, aSnapshot, MINUTE, NEW, NOW, podsOf, underWay } from '../testing/objects.ts';
import { aPlacedPod, listed } from '../testing/placed-pods.ts';
import { plan, type Plan } from './plan.ts';

const SPEC = { health: { workloads: 'Required' }, concurrency: { maxUpdating: 3, maxUnavailable: 3 } };

function planned(nodes: readonly ManagedNode[], allPods: AllPods | readonly PlacedPod[], spec: object = SPEC): Plan {
  const known = 'seenAt' in allPods ? allPods : listed(allPods);
  return plan({ ...aSnapshot(nodes, spec), allPods: known }, NOW);
}

const outcomes = (made: Plan): string[] => made.specs.map(({ node, outcome }) => `${node.metadata.name} ${outcome}`);
const message = (made: Plan, name: string): string | undefined =>
  made.conditions.find(({ node }) => node.metadata.name === name)?.progressing.message;

const staged = (name: string): ManagedNode =>
  aManagedNode(
    name,
    {},
    { spec: underWay('StagedAndPerformedUpdate'), status: { current_state: 'StagedAndPerformedUpdate' } },
  );
const notReady = (name: string, node: string): PlacedPod => aPlacedPod(name, node, { ready: false });

describe('a node with a pod of a workload that has a pod which is not Ready', () => {
  const pods = [aPlacedPod('web-1', 'a'), notReady('web-2', 'other')];

  it('does not start, and says why', () => {
    const made = planned([aManagedNode('a')], pods);
    expect(outcomes(made)).toEqual([]);
    expect(made.conditions[0]?.progressing).toMatchObject({
      reason: 'WorkloadsNotReady',
      message:
        'Workloads with pods on the node have pods that are not Ready, or on a node that is being drained: ReplicaSet shop/web',
    });
  });

  it('is not drained, and keeps its slot while the workload may recover', () => {
    expect(outcomes(planned([staged('a')], pods))).toEqual([]);
    expect(outcomes(planned([staged('a')], [aPlacedPod('web-1', 'a')]))).toEqual(['a Advanced']);
  });

  it('starts by default, and its pods are not listed', () => {
    const made = planned([aManagedNode('a')], pods, {});
    expect(outcomes(made)).toEqual(['a Started']);
    expect(made.needsAllPods).toBe(false);
  });

  it.each([
    ['waits to be scheduled', { node: '' }, []],
    ['is being deleted', { isTerminating: true }, ['a Started']],
    ['is ignored', { healthIgnored: true }, ['a Started']],
    ['is of a Job', { controller: 'Job shop/web' }, ['a Started']],
    ['is of another workload', { controller: 'ReplicaSet shop/db' }, ['a Started']],
  ])('counts also or not if that pod %s', (_, changes, expected) => {
    const other = { ...notReady('web-2', 'other'), ...changes };
    expect(outcomes(planned([aManagedNode('a')], [aPlacedPod('web-1', 'a'), other]))).toEqual(expected);
  });
});

test('two nodes with pods of one workload are not drained at the same time', () => {
  const pods = [
    aPlacedPod('web-1', 'a'),
    aPlacedPod('web-2', 'b'),
    aPlacedPod('db-1', 'c', { controller: 'StatefulSet shop/db' }),
  ];
  expect(outcomes(planned([staged('a'), staged('b'), staged('c')], pods))).toEqual(['a Advanced', 'c Advanced']);
  const status = { current_state: 'StagedAndPerformedUpdate' } as const;
  const draining = aManagedNode('a', {}, { spec: underWay('RebootedIntoUpdate'), status });
  expect(outcomes(planned([draining, staged('b'), staged('c')], pods))).toEqual(['c Advanced']);
});

test('no node starts or is drained before the pods are listed', () => {
  const unlisted = { pods: [], seenAt: undefined, problem: undefined, nextAt: 0 };
  const made = planned([aManagedNode('a'), staged('b')], unlisted);
  expect(outcomes(made)).toEqual([]);
  expect(made.needsAllPods).toBe(true);
});

describe('the workloads whose pods a drain evicts', () => {
  const recorded = (names: readonly string[]): Plan => {
    const snapshot = aSnapshot([staged('a')], SPEC);
    const { node } = staged('a');
    if (node === undefined) throw new Error('there is a Node');
    const pods = names.map((name) => aPod(name));
    const others = [aPod('cni', { daemonSet: 'kube-system/cni', controller: 'DaemonSet kube-system/cni' })];
    const known = new Map([['a', podsOf(node, [...pods, ...others], NOW)]]);
    return plan({ ...snapshot, pods: known, allPods: listed([]) }, NOW);
  };
  const evictedOf = ({ specs }: Plan): unknown => specs[0]?.annotations[EVICTED_WORKLOADS_ANNOTATION];

  it('are recorded when the drain starts', () => {
    expect(evictedOf(recorded(['web', 'api', 'web']))).toBe('ReplicaSet apps/api,ReplicaSet apps/web');
    expect(evictedOf(recorded([]))).toBeUndefined();
    const many = evictedOf(recorded(Array.from({ length: 60 }, (_, i) => `app-${i}`)));
    expect(String(many).split(',')).toHaveLength(50);
  });

  const updated = aManagedNode(
    'a',
    { readySince: ago(MINUTE) },
    {
      spec: underWay('MonitoringUpdate'),
      status: { current_version: NEW },
      annotations: { [EVICTED_WORKLOADS_ANNOTATION]: 'ReplicaSet shop/web,StatefulSet shop/db' },
    },
  );

  it('must be Ready again before the update has succeeded', () => {
    const made = planned([updated], [notReady('web-2', 'other')]);
    expect(outcomes(made)).toEqual([]);
    expect(message(made, 'a')).toBe(
      'Runs 1.21.0, and is not healthy yet: these workloads, whose pods its drain evicted, are not Ready again: ReplicaSet shop/web',
    );
    expect(made.wakeAt).toBe(NOW + 5_000);
    const succeeded = planned([updated], [aPlacedPod('web-2', 'other')]);
    expect(outcomes(succeeded)).toEqual(['a Succeeded']);
    expect(evictedOf(succeeded)).toBeNull();
  });

  it('do not count while their pods wait to be scheduled, nor do other workloads', () => {
    const other = aPlacedPod('api', 'other', { ready: false, controller: 'ReplicaSet shop/api' });
    expect(outcomes(planned([updated], [notReady('web-2', ''), other]))).toEqual(['a Succeeded']);
  });

  it('are looked at in a list that was made after the update', () => {
    const made = planned([updated], listed([], NOW - 2 * MINUTE));
    expect(outcomes(made)).toEqual([]);
    expect(made.needsAllPods).toBe(true);
  });

  it('keep the update from succeeding while the pods cannot be listed', () => {
    const failing = { pods: [], seenAt: undefined, problem: 'forbidden', nextAt: NOW + MINUTE };
    const made = planned([updated], failing);
    expect(outcomes(made)).toEqual([]);
    expect(message(made, 'a')).toContain('the pods of the cluster cannot be listed: forbidden');
  });

  it('do not count where they are ignored', () => {
    expect(outcomes(planned([updated], [notReady('web-2', 'other')], {}))).toEqual(['a Succeeded']);
  });
});
