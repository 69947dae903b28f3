/** `spec.quorums`: a node with a member goes only while enough other members are there. */
import type { DrainPod } from '@brupop/shared/drain/pods';
import type { NodeView } from '../cluster/node.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import {
  ago,
  aManagedNode,
  aNode,
  aSnapshot,
  cordoned,
  MINUTE,
  NEW,
  NOW,
  type ShadowParts,
  underWay,
} from '../testing/objects.ts';
import {
  aMember,
  DB,
  draining,
  fleet,
  members,
  outcomes,
  planned,
  RECORDED,
  staged,
  waiting,
  withMembers,
} from '../testing/quorums.ts';
import { wholePlan as plan } from '../whole-plan.ts';

describe('the start of updates', () => {
  it('is one at a time for three members when all nodes may update at once', () => {
    const made = planned([...fleet(3), aManagedNode('worker')], members(3));
    expect(outcomes(made)).toEqual(['Started a', 'Started worker']);
    expect(waiting(made, 'b')).toEqual({
      reason: 'QuorumAtRisk',
      message: 'The quorum db cannot do without apps/db-b on b: apps/db-a on a, which is updating',
    });
    expect(made.specs[0]?.record).toMatchObject({ members: [{ quorum: 'db', pod: 'db-a' }] });
    expect(made.specs[1]?.record.members).toBeUndefined();
  });

  it.each<readonly [string, DrainPod | undefined, string]>([
    ['is not Ready', aMember('db-c', 'c', { ready: false }), 'apps/db-c on c is not Ready'],
    ['is being deleted', aMember('db-c', 'c', { goneBy: ago(0) }), 'apps/db-c on c is being deleted'],
    ['is not scheduled', aMember('db-c', '', { ready: false }), 'apps/db-c is not scheduled'],
    ['has finished', aMember('db-c', 'c', { finished: true }), '1 of 3 members is missing'],
    ['is missing', undefined, '1 of 3 members is missing'],
    ['is on a node that is gone', aMember('db-c', 'gone'), 'apps/db-c on gone, which does not exist any more'],
  ])('waits while a member elsewhere %s', (_, member, message) => {
    const made = planned(fleet(2), [...members(2), ...(member === undefined ? [] : [member])], {
      others: [aNode({ name: 'c', managed: false })],
    });
    expect(outcomes(made)).toEqual([]);
    expect(waiting(made, 'a')).toEqual({
      reason: 'QuorumAtRisk',
      message: `The quorum db cannot do without apps/db-a on a: ${message}`,
    });
  });

  it.each<readonly [string, NodeView]>([
    ['is not Ready', aNode({ name: 'c', managed: false, ready: false })],
    ['is being deleted', aNode({ name: 'c', managed: false, deletionTimestamp: ago(0) })],
    ['is cordoned for an update that ended', aNode({ name: 'c', managed: false, ...cordoned(MINUTE) })],
  ])('waits while the node of another member %s', (_, other) => {
    expect(outcomes(planned(fleet(2), members(3), { others: [other] }))).toEqual([]);
  });

  it.each<readonly [string, ManagedNode]>([
    ['stages its update', staged('c')],
    ['is drained', draining('c')],
    [
      'has failed, and keeps its slot',
      aManagedNode(
        'c',
        {},
        {
          spec: underWay('MonitoringUpdate', 120 * MINUTE),
          record: RECORDED,
          status: { current_version: NEW },
        },
      ),
    ],
  ])('waits while the node of another member %s', (_, other) => {
    const made = planned(
      [...fleet(2), other],
      members(3).filter(({ node }) => node !== 'x'),
    );
    expect(outcomes(made).filter((one) => one.startsWith('Started'))).toEqual([]);
  });

  it('needs three of four members, and of five tolerates one', () => {
    expect(outcomes(planned(fleet(4), members(4), { quorum: { members: 4 } }))).toEqual(['Started a']);
    const oneAway = [...members(3), aMember('db-d', 'd', { ready: false })];
    expect(outcomes(planned(fleet(3), oneAway, { quorum: { members: 4 }, others: [aNode({ name: 'd' })] }))).toEqual(
      [],
    );
    const ofFive = { quorum: { members: 5, tolerate: 1 } };
    expect(outcomes(planned(fleet(5), members(5), ofFive))).toEqual(['Started a', 'Started b']);
    expect(outcomes(planned(fleet(5), members(4), ofFive))).toEqual(['Started a', 'Started e']);
  });

  it('counts pods beyond those that the set should have', () => {
    const unready = { ready: false, readyChanged: NOW };
    const made = planned(fleet(4), [...members(3), aMember('db-d', 'd', unready)]);
    expect(outcomes(made)).toEqual(['Started d']);
    expect(waiting(made, 'a').message).toContain('apps/db-d on d');
  });

  it.each([1, 2])('is refused for a set of %d until a downtime is allowed, and then one at a time', (count) => {
    const made = planned(fleet(count), members(count), { quorum: { members: count } });
    expect(outcomes(made)).toEqual([]);
    expect(waiting(made, 'a')).toEqual({
      reason: 'QuorumAtRisk',
      message:
        `The quorum db cannot do without apps/db-a on a: ${count - 1} of ${count} members would be left, and ${count} are needed. ` +
        'If it may stop meanwhile, set its downtime to Allowed',
    });
    const allowed = { quorum: { members: count, downtime: 'Allowed' } };
    expect(outcomes(planned(fleet(count), members(count), allowed))).toEqual(['Started a']);
  });

  it('takes all members of one node together', () => {
    const pods = [aMember('db-1', 'a'), aMember('db-2', 'a'), aMember('db-3', 'b')];
    const made = planned(fleet(2), pods);
    expect(outcomes(made)).toEqual(['Started b']);
    expect(outcomes(planned([aManagedNode('a')], pods, { others: [aNode({ name: 'b', managed: false })] }))).toEqual(
      [],
    );
    const ofTwo = { quorum: { members: 2, downtime: 'Allowed' } };
    expect(outcomes(planned(fleet(2), pods, ofTwo))).toEqual(['Started b']);
    const four = [...pods, aMember('db-4', 'b')];
    expect(outcomes(planned(fleet(2), four, { quorum: { members: 4 } }))).toEqual([]);
  });

  it('lets a member last go after the others that can update', () => {
    const leader = aMember('db-a', 'a', { metadata: { ...aMember('x', 'a').metadata, labels: { role: 'leader' } } });
    const pods = [leader, aMember('db-b', 'b'), aMember('db-c', 'c')].map((pod, i) => ({
      ...pod,
      metadata: { ...pod.metadata, name: `db-${i}` },
    }));
    const last = { quorum: { last: { matchLabels: { role: 'leader' } } } };
    expect(outcomes(planned(fleet(3), pods, last))).toEqual(['Started b']);
    const updated: ShadowParts = { status: { current_version: NEW, target_version: NEW } };
    const [a, , c] = fleet(3) as [ManagedNode, ManagedNode, ManagedNode];
    expect(outcomes(planned([a, aManagedNode('b', {}, updated), c], pods, last))).toEqual(['Started c']);
    const rest = [aManagedNode('b', {}, updated), aManagedNode('c', {}, updated)];
    expect(outcomes(planned([a, ...rest], pods, last))).toEqual(['Started a']);
    const retried = { backoff: '1h' };
    const failed = aManagedNode(
      'c',
      {},
      {
        record: { unsuccessful: 1 },
        spec: { state_transition_timestamp: ago(MINUTE) },
      },
    );
    const made = planned([a, aManagedNode('b', {}, updated), failed], pods, { ...last, more: { retry: retried } });
    expect(outcomes(made)).toEqual([]);
    expect(waiting(made, 'a').message).toBe('The quorum db: apps/db-0 on a goes last, after the members on c');
    const skipped = aManagedNode('c', { annotations: { 'brupop.bottlerocket.aws/skip': 'true' } });
    expect(outcomes(planned([a, aManagedNode('b', {}, updated), skipped], pods, last))).toEqual(['Started a']);
    // Its agent has to confirm that it is Idle, and then it may update.
    const ending = aManagedNode('c', {}, { status: { current_state: 'ErrorReset' } });
    expect(outcomes(planned([a, aManagedNode('b', {}, updated), ending], pods, last))).toEqual([]);
  });
});

it('all sets are recorded of a node that starts', () => {
  const sets = ['db', 'log'].map((name) => ({
    ...DB,
    name,
    members: 60,
    podSelector: { matchLabels: { app: name } },
  }));
  const of = (name: string): DrainPod[] =>
    Array.from({ length: 60 }, (_, i) => {
      const pod = aMember(`${name}-${i}`, i < 20 ? 'a' : 'b');
      return { ...pod, metadata: { ...pod.metadata, labels: { app: name } } };
    });
  const snapshot = aSnapshot([aManagedNode('a')], { quorums: sets });
  const nodes = [...snapshot.nodes, aNode({ name: 'b', managed: false })];
  const [change] = plan(withMembers({ ...snapshot, nodes }, [...of('db'), ...of('log')]), NOW).specs;
  const recorded = (change?.record.members ?? []).map(({ quorum }) => quorum);
  const count = (name: string): number => recorded.filter((one) => one === name).length;
  expect([count('db'), count('log'), recorded.length]).toEqual([10, 10, 20]);
});

it('a pod with more labels than are kept may be a member', () => {
  const hidden = aMember('db-a', 'a', { isLabelled: false });
  const pods = [{ ...hidden, metadata: { ...hidden.metadata, labels: {} } }, ...members(3).slice(1)];
  const away = [...pods.slice(0, 2), aMember('db-c', 'c', { ready: false })];
  const others = { others: [aNode({ name: 'b', managed: false }), aNode({ name: 'c', managed: false })] };
  expect(outcomes(planned([aManagedNode('a')], pods, others))).toEqual(['Started a']);
  expect(outcomes(planned([aManagedNode('a')], away, others))).toEqual([]);
});
