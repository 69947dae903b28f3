/** `spec.quorums`: a node with a member goes only while enough other members are there. */
import type { NodeRecord } from '@brupop/shared/api/record';
import type { DrainPod } from '@brupop/shared/drain/pods';
import { pinned } from '@brupop/shared/testing/settings';
import type { MemberPods } from '../cluster/member-pods.ts';
import type { NodeView } from '../cluster/node.ts';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import {
  ago,
  aManagedNode,
  aNode,
  aSnapshot,
  cordoned,
  MINUTE,
  NEW,
  type NodeParts,
  NOW,
  OLD,
  type ShadowParts,
  underWay,
} from '../testing/objects.ts';
import { aMember, DB, listOf, members, outcomes, waiting, withMembers } from '../testing/quorums.ts';
import { statusOf } from '../report/config-status.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const ALL_AT_ONCE = { maxUpdating: '100%' };
const configOf = (quorum: object, more: object = {}): object => ({
  concurrency: ALL_AT_ONCE,
  quorums: [{ ...DB, ...quorum }],
  ...more,
});
const names = (count: number): string[] => ['a', 'b', 'c', 'd', 'e'].slice(0, count);
const fleet = (count: number): ManagedNode[] => names(count).map((name) => aManagedNode(name));

const RECORDED = { startedAt: ago(MINUTE), members: [{ quorum: 'db', pod: 'db-x' }] };
const staged = (name: string, record: NodeRecord = RECORDED, node: NodeParts = {}): ManagedNode =>
  aManagedNode(name, node, { spec: underWay('StagedAndPerformedUpdate'), record });
const draining = (name: string, node: NodeParts = cordoned(MINUTE)): ManagedNode =>
  aManagedNode(name, node, {
    spec: underWay('RebootedIntoUpdate'),
    record: RECORDED,
    status: { current_state: 'StagedAndPerformedUpdate' },
  });
const monitored = (name: string, pod: string, sinceMs = MINUTE): ManagedNode =>
  aManagedNode(
    name,
    {},
    {
      spec: underWay('MonitoringUpdate', sinceMs),
      record: { startedAt: ago(5 * MINUTE), members: [{ quorum: 'db', pod }] },
      status: { current_version: NEW, target_version: NEW },
    },
  );

interface Case {
  readonly quorum?: object;
  readonly more?: object;
  /** Nodes that are not managed. */
  readonly others?: readonly NodeView[];
}

function snapshotOf(nodes: readonly ManagedNode[], { quorum = {}, more, others = [] }: Case = {}): Snapshot {
  const snapshot = aSnapshot(nodes, configOf(quorum, more));
  return { ...snapshot, nodes: [...snapshot.nodes, ...others] };
}

const planned = (nodes: readonly ManagedNode[], pods: readonly DrainPod[], found: Case = {}): Plan =>
  plan(withMembers(snapshotOf(nodes, found), pods), NOW);

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
    const made = planned(fleet(4), [...members(3), aMember('db-d', 'd', { ready: false })]);
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
    expect([ended.quorums[0]?.ready, ended.members.keep.size, ended.members.list.length]).toEqual([3, 0, 0]);
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
    expect(made.conditions.map(({ node }) => node.metadata.name)).toEqual(['worker']);
  });

  it('let no node go when they are old, and are asked for again', () => {
    const made = withList({ ...listOf(members(3), NOW - 16_000), nextAt: NOW - 6_000 });
    expect([outcomes(made), made.members.list.length]).toEqual([['Started worker'], 1]);
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

describe('the drain of a node that is staged', () => {
  it('is deferred while another one may be drained, also before that one is cordoned', () => {
    for (const other of [draining('b'), draining('b', {})])
      expect(outcomes(planned([staged('a'), other, aManagedNode('c')], members(3)))).toEqual(['Deferred a']);
  });

  it('does not wait for another one that is only staged, and of two one is drained', () => {
    expect(outcomes(planned([staged('a'), staged('b'), aManagedNode('c')], members(3)))).toEqual([
      'Advanced a',
      'Deferred b',
    ]);
  });

  it('is deferred while another member is away', () => {
    const pods = [...members(2), aMember('db-c', 'c', { ready: false })];
    const made = planned([staged('a'), aManagedNode('c')], pods, { others: [aNode({ name: 'b', managed: false })] });
    expect(outcomes(made)).toEqual(['Deferred a']);
  });

  it('waits for a list of members, and keeps the node staged', () => {
    const snapshot = withMembers(snapshotOf([staged('a')]), members(3));
    const made = plan({ ...snapshot, memberPods: new Map() }, NOW);
    expect([outcomes(made), made.members.list.length]).toEqual([[], 1]);
  });

  it('is deferred for a member that came after the start, since its hooks have not run', () => {
    const without = { startedAt: ago(MINUTE) };
    const others = { others: [aNode({ name: 'b', managed: false }), aNode({ name: 'c', managed: false })] };
    expect(outcomes(planned([staged('a', without)], members(3), others))).toEqual(['Deferred a']);
    expect(outcomes(planned([staged('a')], members(3), others))).toEqual(['Advanced a']);
  });

  it('back to the previous version waits as well', () => {
    const rollback = { failed: NEW, previous: OLD, since: ago(2 * MINUTE), isDone: false };
    const back = aManagedNode(
      'a',
      {},
      {
        spec: { ...underWay('StagedAndPerformedUpdate'), version: OLD },
        record: { ...RECORDED, rollback },
        status: { current_version: NEW, target_version: OLD },
      },
    );
    const others = {
      others: [aNode({ name: 'b', managed: false }), aNode({ name: 'c', managed: false })],
      more: { rollout: { rollback: 'Automatic' } },
    };
    expect(outcomes(planned([back], members(3), others))).toEqual(['Advanced a']);
    const away = [...members(2), aMember('db-c', 'c', { ready: false })];
    const deferred = planned([back], away, others);
    expect(outcomes(deferred)).toEqual(['Deferred a']);
    const why = 'The quorum db cannot do without apps/db-a on a: apps/db-c on c is not Ready';
    expect(waiting(deferred, 'a').message).toBe(`The node is staged, and not drained yet: ${why}`);
    expect(deferred.specs[0]?.event).toMatchObject({ message: expect.stringContaining(why) as string });
  });

  it('and so does the start of the way back', () => {
    const back = aManagedNode(
      'a',
      {},
      {
        record: { rollback: { failed: NEW, previous: OLD, since: ago(2 * MINUTE), isDone: false } },
        spec: { settings: pinned({ versionLock: OLD, ignoreWaves: true }) },
        status: { current_version: NEW, target_version: OLD },
      },
    );
    const others = {
      others: [aNode({ name: 'b', managed: false }), aNode({ name: 'c', managed: false })],
      more: { rollout: { rollback: 'Automatic' } },
    };
    const own = aMember('db-a', 'a', { ready: false });
    const [, ...rest] = members(3);
    expect(outcomes(planned([back], [own, ...rest], others))).toEqual(['Started a']);
    const made = planned([back], [own, aMember('db-b', 'b'), aMember('db-c', 'c', { ready: false })], others);
    expect(outcomes(made)).toEqual([]);
    expect(waiting(made, 'a')).toEqual({
      reason: 'QuorumAtRisk',
      message: 'The quorum db cannot do without apps/db-a on a: apps/db-c on c is not Ready',
    });
    const leader = { ...own, metadata: { ...own.metadata, labels: { app: 'db', role: 'leader' } } };
    const first = aManagedNode('b', {}, { status: { current_state: 'ErrorReset' } });
    const last = { ...others, quorum: { last: { matchLabels: { role: 'leader' } } }, others: others.others.slice(1) };
    expect(outcomes(planned([back, first], [leader, ...rest], last))).toEqual(['Started a']);
  });
});

describe('an update that has come to its end', () => {
  const others = { others: [aNode({ name: 'b', managed: false }), aNode({ name: 'c', managed: false })] };

  it('succeeds when the own member is Ready again, wherever it is', () => {
    expect(outcomes(planned([monitored('a', 'db-a')], members(3), others))).toEqual(['Succeeded a']);
    const moved = [aMember('db-a', 'b'), aMember('db-b', 'b'), aMember('db-c', 'c')];
    expect(outcomes(planned([monitored('a', 'db-a')], moved, others))).toEqual(['Succeeded a']);
    const renamed = [aMember('db-z', 'b'), aMember('db-b', 'b'), aMember('db-c', 'c')];
    expect(outcomes(planned([monitored('a', 'db-a')], renamed, others))).toEqual(['Succeeded a']);
  });

  it.each<readonly [string, readonly DrainPod[], string]>([
    ['is not Ready', [aMember('db-a', 'a', { ready: false })], 'is not Ready'],
    ['is missing', [], 'is missing'],
  ])('does not succeed while the own member %s', (_, own, what) => {
    const made = planned([monitored('a', 'db-a')], [...own, aMember('db-b', 'b'), aMember('db-c', 'c')], others);
    expect(outcomes(made)).toEqual([]);
    expect(waiting(made, 'a').message).toContain(`the member apps/db-a of the quorum db ${what}`);
  });

  it('needs a list from after the update', () => {
    const health = { ...others, more: { monitoring: { healthyFor: '0s' } } };
    const listed = (asOf: number): string[] => {
      const snapshot = withMembers(snapshotOf([monitored('a', 'db-a', 8_000)], health), members(3), NOW);
      const lists = [...snapshot.memberPods].map(([key]) => [key, listOf(members(3), asOf)] as const);
      return outcomes(plan({ ...snapshot, memberPods: new Map(lists) }, NOW));
    };
    expect([listed(NOW - 10_000), listed(NOW - 5_000)]).toEqual([[], ['Succeeded a']]);
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
