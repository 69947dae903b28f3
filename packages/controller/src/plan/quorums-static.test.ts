/** Static pods of `spec.quorums`: they count where a kubelet cannot have forged them. */
import type { DrainPod } from '@brupop/shared/drain/pods';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import { aManagedNode, aSnapshot, NOW } from '../testing/objects.ts';
import { aStaticMember, DB, members, outcomes, waiting, withMembers } from '../testing/quorums.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const LABELS = { 'node-role.kubernetes.io/control-plane': '' };
const NODE_SELECTOR = { matchLabels: LABELS };
const names = (count: number): string[] => ['a', 'b', 'c'].slice(0, count);
const voters = names(3).map((name) => aManagedNode(name, { labels: LABELS }));
const etcd = (count: number): DrainPod[] => names(count).map((name) => aStaticMember(`etcd-${name}`, name));

function snapshotOf(nodes: readonly ManagedNode[], ...quorums: object[]): Snapshot {
  const concurrency = { maxUpdating: '100%', controlPlane: 'Ignored' };
  return aSnapshot(nodes, { concurrency, quorums: quorums.map((one) => ({ ...DB, ...one })) });
}

const planned = (
  nodes: readonly ManagedNode[],
  pods: readonly DrainPod[],
  quorum: object = { nodeSelector: NODE_SELECTOR },
): Plan => plan(withMembers(snapshotOf(nodes, quorum), pods), NOW);

it('go one at a time', () => {
  expect(outcomes(planned(voters, etcd(3)))).toEqual(['Started a']);
});

it('count once on each node that is selected, and nowhere else', () => {
  const forged = [aStaticMember('etcd-w', 'worker'), aStaticMember('etcd-a2', 'a')];
  const nodes = [...voters, aManagedNode('worker')];
  expect(outcomes(planned(nodes, [...etcd(3), ...forged]))).toEqual(['Started a', 'Started worker']);
  const away = planned(nodes, [...etcd(2), ...forged]);
  expect(outcomes(away)).toEqual(['Started c', 'Started worker']);
  expect(waiting(away, 'a').message).toContain('1 of 3 members is missing');
});

it('of which one is not Ready count as one that is not, whatever else is on their node', () => {
  const made = planned(voters, [...etcd(3), aStaticMember('etcd-c2', 'c', { ready: false })]);
  expect(outcomes(made)).toEqual(['Started c']);
  expect(waiting(made, 'a').message).toContain('apps/etcd-c2 on c is not Ready');
});

it('that are forged and not Ready keep no other node waiting', () => {
  const forged = aStaticMember('etcd-w', 'worker', { ready: false });
  const made = planned([...voters, aManagedNode('worker')], [...etcd(3), forged]);
  expect(outcomes(made)).toEqual(['Started a', 'Started worker']);
  const snapshot = withMembers(snapshotOf([aManagedNode('worker')], { nodeSelector: NODE_SELECTOR }), [forged]);
  const alone = plan({ ...snapshot, memberPods: new Map() }, NOW);
  expect([outcomes(alone), alone.members.list]).toEqual([['Started worker'], []]);
});

it('count nowhere without a selector of nodes, and their own node waits', () => {
  const nodes = [...names(3), 'worker'].map((name) => aManagedNode(name));
  const made = planned(nodes, [...members(3), aStaticMember('db-w', 'worker')], {});
  expect(outcomes(made)).toEqual(['Started a']);
  expect(waiting(made, 'worker').message).toContain('set its nodeSelector to the nodes on which static pods count');
});

it('that are missing on a node that is selected are its own, and it waits while others are missing as well', () => {
  const made = planned(voters, etcd(2));
  expect(outcomes(made)).toEqual(['Started c']);
  expect(waiting(made, 'a').message).toContain('1 of 3 members is missing');
  const two = planned(voters, etcd(1));
  expect(outcomes(two)).toEqual([]);
  expect(waiting(two, 'c').message).toBe(
    'The quorum db cannot do without the missing member of c: 1 of 3 members is missing',
  );
});

it('are listed only on the nodes that each set selects', () => {
  const other = { 'node-restriction.kubernetes.io/log': '' };
  const nodes = [...voters, aManagedNode('d', { labels: other })];
  const sets = [{ nodeSelector: NODE_SELECTOR }, { name: 'log', nodeSelector: { matchLabels: other } }];
  const { list } = plan({ ...withMembers(snapshotOf(nodes, ...sets), etcd(3)), memberPods: new Map() }, NOW).members;
  expect(list.map(({ staticOn }) => staticOn)).toEqual([['a', 'b', 'c'], ['d']]);
});
