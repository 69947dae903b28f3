/** Lists of the members of `spec.quorums`: when they are asked for, when they count, and what the status shows of them. */
import type { MemberPods } from '../cluster/member-pods.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { statusOf } from '../report/config-status.ts';
import { ago, aManagedNode, aNode, aSnapshot, MINUTE, NEW, NOW } from '../testing/objects.ts';
import {
  aMember,
  fleet,
  listOf,
  members,
  outcomes,
  planned,
  snapshotOf,
  waiting,
  withMembers,
} from '../testing/quorums.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

describe('lists of members', () => {
  it('are kept until the agent of the last node has confirmed the end, so that the status counts its member', () => {
    const done = (name: string, current_state: 'Idle' | 'MonitoringUpdate'): ManagedNode =>
      aManagedNode(
        name,
        {},
        {
          record: { rebootRequestedAt: ago(MINUTE) },
          status: { current_state, current_version: NEW, target_version: NEW },
        },
      );
    const fleetWith = (state: 'Idle' | 'MonitoringUpdate'): Plan =>
      planned([done('a', state), done('b', 'Idle'), done('c', 'Idle')], members(3));
    const ending = fleetWith('MonitoringUpdate');
    expect([ending.quorums[0]?.ready, ending.members.keep.size, ending.members.list.length]).toEqual([2, 1, 0]);
    const ended = fleetWith('Idle');
    expect([ended.quorums[0]?.ready, ended.members.list.length]).toEqual([3, 0]);
  });

  it('are kept until the status has their count, which is written once a second at most', () => {
    const keptWith = (ready: number): number => {
      const shown = { name: 'db', members: 3, ready, since: ago(0), ...(ready < 3 && { message: 'one is away' }) };
      const config = {
        metadata: { name: 'cluster', uid: 'c', resourceVersion: '1' },
        spec: {},
        status: { quorums: [shown] },
      };
      const nodes = ['a', 'b', 'c'].map((name) => aManagedNode(name, {}, { status: { current_version: NEW } }));
      return plan({ ...withMembers(snapshotOf(nodes), members(3)), config }, NOW).members.keep.size;
    };
    expect([keptWith(2), keptWith(3)]).toEqual([1, 0]);
  });

  const withList = (list: MemberPods | undefined, nodes = [...fleet(3), aManagedNode('worker')]): Plan => {
    const snapshot = withMembers(snapshotOf(nodes), members(3));
    const [key = ''] = [...snapshot.memberPods.keys()];
    return plan({ ...snapshot, memberPods: new Map(list === undefined ? [] : [[key, list]]) }, NOW);
  };

  it('are not asked for without quorums, nor for nodes without a member', () => {
    const none = plan(withMembers(aSnapshot(fleet(3), {}), members(3)), NOW);
    expect([none.members.list, [...none.members.keep]]).toEqual([[], []]);
    const others = withList(undefined, [aManagedNode('worker')]);
    expect([outcomes(others), others.members.list]).toEqual([['Started worker'], []]);
  });

  it('are awaited by nodes with a member, and only by these', () => {
    const made = withList(undefined);
    expect(outcomes(made)).toEqual(['Started worker']);
    expect(made.members.list).toMatchObject([{ name: 'db' }]);
    expect(made.conditions.flat().map(({ node }) => node.metadata.name)).toEqual(['worker']);
  });

  it.each([
    ['are old', NOW - 16_000, NOW - 6_000],
    ['began before the clock was set back', NOW + 3_600_000, NOW + 3_605_000],
  ])('let no node go when they %s, and are asked for again', (_, asOf, nextAt) => {
    const made = withList({ ...listOf(members(3), asOf), nextAt });
    expect([outcomes(made), made.members.list.length]).toEqual([['Started worker'], 1]);
  });

  it('show a member that has come to a node since the pods of that were listed', () => {
    const snapshot = withMembers(snapshotOf(fleet(2), { others: [aNode({ name: 'c', managed: false })] }), [
      ...members(2),
      aMember('db-c', 'c', { ready: false }),
    ]);
    expect(outcomes(plan({ ...snapshot, pods: aSnapshot(fleet(2)).pods }, NOW))).toEqual([]);
  });

  it('that fail keep nodes with a member waiting, and say why', () => {
    const problem = 'GET /api/v1/namespaces/apps/pods: 403 Forbidden';
    const made = withList({ ...listOf(members(3)), problem });
    expect(outcomes(made)).toEqual(['Started worker']);
    expect(waiting(made, 'a')).toEqual({
      reason: 'PodListFailed',
      message: `The members of the quorum db cannot be listed: ${problem}`,
    });
  });
});

it('the status has what was seen last, and since when', () => {
  const config = { metadata: { name: 'cluster', uid: 'c', resourceVersion: '1', generation: 1 }, spec: {} };
  const pods = [...members(2), aMember('db-c', 'c', { ready: false })];
  const made = planned(fleet(3), pods);
  const input = { config, isWritten: true, now: NOW };
  const first = statusOf({ ...input, plan: made, before: undefined });
  expect(first.quorums).toEqual([
    { name: 'db', members: 3, ready: 2, message: 'apps/db-c on c is not Ready', since: ago(0) },
  ]);
  const later = statusOf({ ...input, plan: made, before: first, now: NOW + MINUTE });
  expect(later.quorums).toEqual(first.quorums);
  const snapshot = withMembers(snapshotOf(fleet(3)), pods);
  const failing = [...snapshot.memberPods].map(([key, list]) => [key, { ...list, problem: '403 Forbidden' }] as const);
  const failed = plan({ ...snapshot, memberPods: new Map(failing) }, NOW);
  const message = 'The members of the quorum db cannot be listed: 403 Forbidden';
  expect(statusOf({ ...input, plan: failed, before: first }).quorums).toEqual([
    { name: 'db', members: 3, message, since: ago(0) },
  ]);
  const unlisted = plan(snapshotOf([]), NOW);
  expect(statusOf({ ...input, plan: unlisted, before: first }).quorums).toEqual(first.quorums);
  expect(statusOf({ ...input, plan: plan(aSnapshot([], {}), NOW), before: first })).not.toHaveProperty('quorums');
});
