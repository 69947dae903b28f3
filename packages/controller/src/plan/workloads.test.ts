/** `spec.health.workloads`: what the pods of other nodes say about a drain, and about an update. */
import { aPod } from '@brupop/shared/testing/pods';
import type { AllPods, PlacedPod } from '../cluster/all-pods.ts';
import { type Evaluation, UNBROKEN_MS } from '../cluster/checks.ts';
import { keyOf } from '../cluster/probes.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { PASSED, viewOf } from '../testing/checks.ts';
import { ago, aManagedNode, aSnapshot, MINUTE, NEW, NOW, podsOf, underWay } from '../testing/objects.ts';
import { aPlacedPod, listed } from '../testing/placed-pods.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const SPEC = { health: { workloads: 'Required' }, concurrency: { maxUpdating: 3, maxUnavailable: 3 } };

function planned(nodes: readonly ManagedNode[], allPods: AllPods | readonly PlacedPod[], spec: object = SPEC): Plan {
  const known = 'seenAt' in allPods ? allPods : listed(allPods);
  return plan({ ...aSnapshot(nodes, spec), allPods: known }, NOW);
}

const outcomes = (made: Plan): string[] => made.specs.map(({ node, outcome }) => `${node.metadata.name} ${outcome}`);
const message = (made: Plan, name: string): string | undefined =>
  made.conditions.flat().find(({ node }) => node.metadata.name === name)?.progressing.message;

const staged = (name: string): ManagedNode =>
  aManagedNode(
    name,
    {},
    { spec: underWay('StagedAndPerformedUpdate'), status: { current_state: 'StagedAndPerformedUpdate' } },
  );
const STAGED = { current_state: 'StagedAndPerformedUpdate' } as const;
const IDLE = { current_state: 'Idle' } as const;
const notReady = (node: string): PlacedPod => aPlacedPod(node, { ready: false });

describe('a node with a pod of a workload that has a pod which is not Ready', () => {
  const pods = [aPlacedPod('a'), notReady('other')];

  it('does not start, and says why', () => {
    const made = planned([aManagedNode('a')], pods);
    expect(outcomes(made)).toEqual([]);
    expect(made.conditions.flat()[0]?.progressing).toMatchObject({
      reason: 'WorkloadsNotReady',
      message:
        'These workloads have a pod on the node, and another pod that is not Ready or is on a node that is being drained: ReplicaSet shop/web',
    });
  });

  it('is not drained, and keeps its slot while the workload may recover', () => {
    expect(outcomes(planned([staged('a')], pods))).toEqual([]);
    expect(outcomes(planned([staged('a')], [aPlacedPod('a')]))).toEqual(['a Advanced']);
  });

  it('starts by default, and its pods are not listed', () => {
    const made = planned([aManagedNode('a')], pods, {});
    expect(outcomes(made)).toEqual(['a Started']);
    expect(made.allPods).toBe('forget');
  });

  it.each([
    ['waits to be scheduled', { node: '' }, []],
    ['is being deleted', { isTerminating: true }, ['a Started']],
    ['is ignored', { healthIgnored: true }, ['a Started']],
    ['is of a Job', { controller: 'Job shop/web' }, ['a Started']],
    ['is of another workload', { controller: 'ReplicaSet shop/db' }, ['a Started']],
  ])('counts also or not if that pod %s', (_, changes, expected) => {
    const other = { ...notReady('other'), ...changes };
    expect(outcomes(planned([aManagedNode('a')], [aPlacedPod('a'), other]))).toEqual(expected);
  });
});

test('two nodes with pods of one workload are not drained at the same time', () => {
  const pods = [aPlacedPod('a'), aPlacedPod('b'), aPlacedPod('c', { controller: 'StatefulSet shop/db' })];
  expect(outcomes(planned([staged('a'), staged('b'), staged('c')], pods))).toEqual(['a Advanced', 'c Advanced']);
  const status = { current_state: 'StagedAndPerformedUpdate' } as const;
  const draining = aManagedNode('a', {}, { spec: underWay('RebootedIntoUpdate'), status });
  expect(outcomes(planned([draining, staged('b'), staged('c')], pods))).toEqual(['c Advanced']);
});

test('a pod that is being evicted from a node counts until its replacement is Ready', () => {
  const db = { controller: 'StatefulSet shop/db' };
  const draining = aManagedNode('a', {}, { spec: underWay('RebootedIntoUpdate'), status: STAGED });
  const leaving = aPlacedPod('a', { ...db, isTerminating: true });
  const pods = [leaving, aPlacedPod('b', db)];
  expect(outcomes(planned([draining, staged('b')], pods))).toEqual([]);
  expect(outcomes(planned([staged('b')], [{ ...leaving, node: 'other' }, aPlacedPod('b', db)]))).toEqual([]);
  const replaced = aPlacedPod('c', db);
  expect(outcomes(planned([draining, staged('b')], [replaced, aPlacedPod('b', db)]))).toEqual(['b Advanced']);
});

test.each([
  ['StatefulSet shop/db', []],
  ['StrimziPodSet shop/kafka', []],
  ['Cluster shop/postgres', []],
  ['ReplicationController shop/web', ['b Advanced']],
])('a pod of %s that a user deletes counts until its replacement is Ready, or not', (controller, expected) => {
  const deleted = aPlacedPod('other', { controller, isTerminating: true });
  expect(outcomes(planned([staged('b')], [deleted, aPlacedPod('b', { controller })]))).toEqual(expected);
});

test('a node that has rebooted since the pods were listed counts as drained', () => {
  const rebooted = aManagedNode('a', {}, { spec: underWay('MonitoringUpdate', 2_000), status: STAGED });
  const pods = [aPlacedPod('a'), aPlacedPod('b')];
  expect(outcomes(planned([rebooted, staged('b')], listed(pods, NOW - 5_000)))).toEqual([]);
  expect(outcomes(planned([rebooted, staged('b')], listed(pods, NOW)))).toEqual(['b Advanced']);
});

test('a node that is still downloading the version holds up no other', () => {
  const downloading = aManagedNode('a', {}, { spec: underWay('StagedAndPerformedUpdate'), status: IDLE });
  const pods = [aPlacedPod('a'), aPlacedPod('b')];
  expect(outcomes(planned([downloading, staged('b')], pods))).toEqual(['b Advanced']);
});

test('a list that fails leaves staged nodes as they are', () => {
  const failing = { ...listed([aPlacedPod('a')], NOW - MINUTE), problem: 'forbidden' };
  expect(outcomes(planned([staged('a')], failing))).toEqual([]);
});

test('an old list still keeps a node from starting, but lets none start', () => {
  const pods = [aPlacedPod('a'), notReady('other'), aPlacedPod('b', { controller: 'ReplicaSet shop/api' })];
  const made = planned([aManagedNode('a'), aManagedNode('b')], listed(pods, NOW - MINUTE));
  expect(outcomes(made)).toEqual([]);
  expect(made.conditions.flat().map(({ node, progressing }) => [node.metadata.name, progressing.reason])).toEqual([
    ['a', 'WorkloadsNotReady'],
  ]);
});

test('lists go on after the clock was set back', () => {
  const made = planned([aManagedNode('a')], listed([], NOW + 60 * MINUTE));
  expect([outcomes(made), made.allPods]).toEqual([[], 'list']);
});

test('a large fleet with a workload on every node is planned in little time', () => {
  const names = Array.from({ length: 2_000 }, (_, i) => `node-${i}`);
  const pods = names.flatMap((name) => Array.from({ length: 30 }, () => aPlacedPod(name)));
  const made = planned(
    names.map((name) => aManagedNode(name)),
    [...pods, notReady('node-0')],
  );
  expect(outcomes(made)).toEqual([]);
  expect(made.conditions.flat()).toHaveLength(2_000);
});

test('no node starts or is drained before the pods are listed', () => {
  const unlisted = { pods: [], seenAt: undefined, asOf: 0, problem: undefined, nextAt: 0 };
  const made = planned([aManagedNode('a'), staged('b')], unlisted);
  expect(outcomes(made)).toEqual([]);
  expect(made.allPods).toBe('list');
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
  const evictedOf = ({ specs }: Plan): unknown => specs[0]?.record.evictedWorkloads;

  it('are recorded when the drain starts', () => {
    expect(evictedOf(recorded(['web', 'api', 'web']))).toEqual(['ReplicaSet apps/api', 'ReplicaSet apps/web']);
    expect(evictedOf(recorded([]))).toBeUndefined();
    const many = evictedOf(recorded(Array.from({ length: 60 }, (_, i) => `app-${i}`)));
    expect(many).toHaveLength(50);
  });

  const updated = aManagedNode(
    'a',
    { readySince: ago(MINUTE) },
    {
      spec: underWay('MonitoringUpdate'),
      status: { current_version: NEW },
      record: { evictedWorkloads: ['ReplicaSet shop/web', 'StatefulSet shop/db'] },
    },
  );

  it('must be Ready again before the update has succeeded', () => {
    const made = planned([updated], [notReady('other')]);
    expect(outcomes(made)).toEqual([]);
    expect(message(made, 'a')).toBe(
      'Runs 1.21.0, and is not healthy yet: these workloads, whose pods its drain evicted, are not Ready again: ReplicaSet shop/web',
    );
    expect(made.wakeAt).toBe(NOW + 5_000);
    const succeeded = planned([updated], [aPlacedPod('other')]);
    expect(outcomes(succeeded)).toEqual(['a Succeeded']);
    expect(evictedOf(succeeded)).toBeUndefined();
  });

  it('do not count while their pods wait to be scheduled, nor do other workloads', () => {
    const other = aPlacedPod('other', { ready: false, controller: 'ReplicaSet shop/api' });
    expect(outcomes(planned([updated], [notReady(''), other]))).toEqual(['a Succeeded']);
  });

  it('are looked at in a list that was made after the update', () => {
    const made = planned([updated], listed([], NOW - 2 * MINUTE));
    expect(outcomes(made)).toEqual([]);
    expect(made.allPods).toBe('list');
  });

  it('keep the update from succeeding while the pods cannot be listed', () => {
    const failing = { pods: [], seenAt: undefined, asOf: 0, problem: 'forbidden', nextAt: NOW + MINUTE };
    const made = planned([updated], failing);
    expect(outcomes(made)).toEqual([]);
    expect(message(made, 'a')).toContain('the pods of the cluster cannot be listed: forbidden');
  });

  it('let the update succeed also where lists take long, and a query has to pass for a while', () => {
    const health = {
      workloads: 'Required',
      checks: [{ name: 'errors', when: ['After'], prometheus: { query: 'up' } }],
    };
    const spec = { ...SPEC, health, monitoring: { healthyFor: '30s', timeout: '5m' } };
    const evaluations = new Map<string, Evaluation>();
    const made: string[] = [];
    for (let now = NOW; now < NOW + 5 * MINUTE; now += 1_000) {
      // A list takes 25 s, and the next one begins 50 s later.
      const seenAt = NOW + Math.floor((now - NOW) / 75_000) * 75_000;
      const allPods = { pods: [], seenAt, asOf: seenAt - 25_000, problem: undefined, nextAt: seenAt + 50_000 };
      const next = plan({ ...aSnapshot([updated], spec, now), allPods, checks: viewOf(evaluations) }, now);
      made.push(...outcomes(next));
      for (const probe of next.checks.evaluate) {
        const { at, since } = evaluations.get(keyOf(probe)) ?? { at: 0, since: 0 };
        const isUnbroken = now - at <= UNBROKEN_MS;
        evaluations.set(keyOf(probe), { ...PASSED, at: now, since: isUnbroken ? since : now });
      }
    }
    expect(made).toContain('a Succeeded');
  });

  it('do not count where they are ignored', () => {
    expect(outcomes(planned([updated], [notReady('other')], {}))).toEqual(['a Succeeded']);
  });
});
