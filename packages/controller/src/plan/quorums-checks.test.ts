/** Hooks and checks of `spec.quorums`: only nodes with a member wait for them. */
import type { DrainPod } from '@brupop/shared/drain/pods';
import type { Evaluation } from '../cluster/checks.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { answered, viewOf } from '../testing/checks.ts';
import { ago, aManagedNode, aNode, MINUTE, NOW } from '../testing/objects.ts';
import { members, outcomes, snapshotOf, staged, waiting, withMembers } from '../testing/quorums.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

describe('a hook of a set', () => {
  const hooks = { before: [{ name: 'snapshot', job: { cronJob: 'snapshot' }, quorum: 'db' }] };
  const withHook = (
    nodes: readonly ManagedNode[],
    pods: readonly DrainPod[],
    answer: Partial<Evaluation> = {},
  ): Plan => {
    const others = [aNode({ name: 'b', managed: false }), aNode({ name: 'c', managed: false })];
    const snapshot = withMembers(snapshotOf(nodes, { more: { hooks }, others }), pods);
    return plan({ ...snapshot, checks: viewOf(answered(snapshot.policy, NOW, () => answer)) }, NOW);
  };

  const jobsOf = ({ checks: { nodes } }: Plan): string[] => nodes.flatMap(({ start }) => start.map(({ name }) => name));

  it('runs before the drain of a node with a member, and of no other one', () => {
    const made = withHook([staged('a')], members(3));
    expect([outcomes(made), jobsOf(made)]).toEqual([[], ['snapshot']]);
    const without = { startedAt: ago(MINUTE) };
    const other = withHook([staged('worker', without)], members(3));
    expect([outcomes(other), jobsOf(other)]).toEqual([['Advanced worker'], []]);
  });

  it('without a template keeps nodes with a member waiting, and no other ones', () => {
    const missing = { passed: false, found: 'the CronJob snapshot does not exist' };
    const made = withHook([aManagedNode('a'), aManagedNode('worker')], members(3), missing);
    expect(outcomes(made)).toEqual(['Started worker']);
    expect(waiting(made, 'a').message).toBe('The Job of snapshot cannot run: the CronJob snapshot does not exist');
    const without = { startedAt: ago(MINUTE) };
    const drained = withHook([staged('a'), staged('worker', without)], members(3), missing);
    expect(outcomes(drained)).toEqual(['Deferred a', 'Advanced worker']);
  });
});

describe('a check of a set', () => {
  const checks = [{ name: 'leader', when: [], prometheus: { query: 'has_leader' } }];
  const withCheck = (answer: Partial<Evaluation> | undefined, nodes: readonly ManagedNode[]): Plan => {
    const others = ['a', 'b', 'c'].filter((name) => nodes.every((one) => one.name !== name));
    const snapshot = withMembers(
      snapshotOf(nodes, {
        quorum: { checks: ['leader'] },
        more: { health: { checks } },
        others: others.map((name) => aNode({ name, managed: false })),
      }),
      members(3),
    );
    const evaluations = answer === undefined ? new Map() : answered(snapshot.policy, NOW, () => answer);
    return plan({ ...snapshot, checks: viewOf(evaluations) }, NOW);
  };
  const FAILED = { passed: false, found: 'the query is 0' };
  const nodes = [aManagedNode('a'), aManagedNode('worker')];

  it('keeps nodes with a member from starting until it passes, and no other ones', () => {
    const made = withCheck(FAILED, nodes);
    expect(outcomes(made)).toEqual(['Started worker']);
    expect(waiting(made, 'a')).toEqual({
      reason: 'QuorumAtRisk',
      message: 'The quorum db: apps/db-a on a waits for the check leader, which does not pass: the query is 0',
    });
    expect(outcomes(withCheck({}, nodes))).toEqual(['Started a', 'Started worker']);
  });

  it('is evaluated only for these', () => {
    const unknown = withCheck(undefined, nodes);
    expect([outcomes(unknown), unknown.checks.evaluate.map(({ check }) => check)]).toEqual([
      ['Started worker'],
      ['leader'],
    ]);
    expect(withCheck(undefined, [aManagedNode('worker')]).checks.evaluate).toEqual([]);
  });

  it('is asked again before the drain', () => {
    expect(outcomes(withCheck(FAILED, [staged('a')]))).toEqual(['Deferred a']);
    expect(outcomes(withCheck({}, [staged('a')]))).toEqual(['Advanced a']);
  });
});
