/** Nodes with a member of a quorum from the drain to the end of their update. */
import type { DrainPod } from '@brupop/shared/drain/pods';
import { pinned } from '@brupop/shared/testing/settings';
import { ago, aManagedNode, aNode, MINUTE, NEW, NOW, OLD, underWay } from '../testing/objects.ts';
import {
  aMember,
  draining,
  listOf,
  members,
  monitored,
  outcomes,
  planned,
  RECORDED,
  snapshotOf,
  staged,
  waiting,
  withMembers,
} from '../testing/quorums.ts';
import { wholePlan as plan } from '../whole-plan.ts';

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
    const failing = [...snapshot.memberPods].map(
      ([key, list]) => [key, { ...list, problem: '403 Forbidden' }] as const,
    );
    const failed = plan({ ...snapshot, memberPods: new Map(failing) }, NOW);
    expect(outcomes(failed)).toEqual([]);
    expect(waiting(failed, 'a').message).toContain('not drained yet: The members of the quorum db cannot be listed');
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

  it('does not succeed while the members cannot be listed, and says why', () => {
    const snapshot = withMembers(snapshotOf([monitored('a', 'db-a')], others), members(3));
    const failing = [...snapshot.memberPods].map(
      ([key, list]) => [key, { ...list, problem: '403 Forbidden' }] as const,
    );
    const made = plan({ ...snapshot, memberPods: new Map(failing) }, NOW);
    expect(outcomes(made)).toEqual([]);
    expect(waiting(made, 'a').message).toContain('The members of the quorum db cannot be listed: 403 Forbidden');
  });
});
