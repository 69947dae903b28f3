/** Settings that restart services on a node with a member of a quorum. */
import { leavesOf } from '@brupop/shared/api/settings';
import type { PendingSetting, Setting } from '@brupop/shared/api/shadow';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import { aGroup, ago, aManagedNode, aNode, aSnapshot, MINUTE, NOW, OLD, withGroups } from '../testing/objects.ts';
import { aMember, aStaticMember, DB, withMembers } from '../testing/quorums.ts';
import { wholePlan as plan } from '../whole-plan.ts';

const KEY = 'settings.kubernetes.max-pods';
const SETTINGS = { kubernetes: { 'max-pods': 110 } };
const leaves: Setting[] = [...leavesOf(SETTINGS)].map(([key, value]) => ({
  key,
  value,
  owner: 'BottlerocketNodeGroup/gpu',
}));
const PENDING: PendingSetting = { key: KEY, class: 'RestartsService', reason: 'because' };

/** A node of the group that is up to date. One has the settings, others wait for a grant. */
const member = (name: string, hasProved = false): ManagedNode =>
  aManagedNode(
    name,
    { labels: { pool: 'gpu' } },
    {
      spec: { settings: { leaves, allow: 'None' }, state_transition_timestamp: ago(60 * MINUTE) },
      status: {
        target_version: OLD,
        settings: hasProved ? { records: [{ key: KEY, value: '110', owner: 'x' }] } : { pending: [PENDING] },
      },
    },
  );

const pods = ['b', 'c', 'e'].map((name) => aMember(`db-${name}`, name));

function snapshotWith(isOtherReady: boolean, isListed = true): Snapshot {
  const nodes = [member('a', true), member('b'), member('c'), member('d')];
  const snapshot = withGroups(aSnapshot(nodes, { concurrency: { maxUpdating: 3 }, quorums: [DB] }), [
    aGroup('gpu', { settings: SETTINGS }),
  ]);
  const other = aNode({ name: 'e', managed: false, ready: isOtherReady });
  const all = withMembers({ ...snapshot, nodes: [...snapshot.nodes, other] }, pods);
  return isListed ? all : { ...all, memberPods: new Map() };
}

function granted(snapshot: Snapshot): string[] {
  const { specs } = plan(snapshot, NOW);
  return specs.flatMap(({ node, spec }) => (spec.settings?.allow === 'RestartsService' ? [node.metadata.name] : []));
}

it('are granted to one of them at a time, and only while the others are there', () => {
  expect(granted(snapshotWith(true))).toEqual(['b', 'd']);
  expect(granted(snapshotWith(false))).toEqual(['d']);
});

it('are granted to no node with a member before these are listed, nor to any whose pods are not', () => {
  const snapshot = snapshotWith(true, false);
  expect([granted(snapshot), granted({ ...snapshot, pods: new Map() })]).toEqual([['d'], []]);
});

it('wait on a node with a static pod that cannot be counted', () => {
  const snapshot = snapshotWith(true);
  expect(granted(withMembers(snapshot, [...pods, aStaticMember('db-d', 'd')]))).toEqual(['b']);
});

it('wait on nodes with a member while these cannot be listed, and go on where the pods of the node show none', () => {
  const snapshot = snapshotWith(true);
  const failing = [...snapshot.memberPods].map(([key]) => {
    return [key, { pods: [], asOf: undefined, problem: '403 Forbidden', nextAt: NOW + 1_000 }] as const;
  });
  const failed = { ...snapshot, memberPods: new Map(failing) };
  expect(granted(failed)).toEqual(['d']);
  const unknown = plan({ ...failed, pods: new Map() }, NOW);
  expect(unknown.lookUps.map(({ metadata }) => metadata.name)).toEqual(['b', 'c', 'd']);
});
