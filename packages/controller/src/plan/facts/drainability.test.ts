import { aBudget, aPod } from '@brupop/shared/testing/pods';
import { indexedBudgets } from '@brupop/shared/drain/budget-index';
import type { Snapshot } from '../../cluster/snapshot.ts';
import { aManagedNode, aNode, POLICY, aSnapshot, MINUTE, NOW, podsOf } from '../../testing/objects.ts';
import { describeBlocks, type Drainable, Drains, isDrainable, isDrainBlocked } from './drainability.ts';
import { wholePlan as plan } from '../../whole-plan.ts';

const node = aNode();
const view = (
  known?: Parameters<typeof podsOf>[1],
  seenAt = NOW,
): Pick<Snapshot, 'pods' | 'budgets' | 'mayForce' | 'ownNamespace'> => ({
  mayForce: true,
  pods: new Map(known === undefined ? [] : [['node-a', podsOf(node, known, seenAt)]]),
  budgets: indexedBudgets([aBudget('web')]),
  ownNamespace: 'brupop',
});
const drainableWith = (...of: Parameters<typeof view>): Drainable => new Drains(view(...of), NOW).of(node, POLICY);

describe('a node', () => {
  it('whose pods were never seen may not be drained, and nobody says that it cannot be', () => {
    const found = drainableWith();
    expect([isDrainable(found), isDrainBlocked(found, NOW)]).toEqual([false, false]);
  });

  it('without a pod that is held may be drained while its pods were just seen', () => {
    expect(isDrainable(drainableWith([]))).toBe(true);
    expect(isDrainable(drainableWith([], NOW - 10_000))).toBe(true);
    expect(isDrainable(drainableWith([], NOW - 10_001))).toBe(false);
  });

  it('is blocked by a pod that cannot be evicted, until the pods are listed again', () => {
    expect(isDrainBlocked(drainableWith([aPod('x')]), NOW)).toBe(true);
    expect(isDrainBlocked(drainableWith([aPod('x')], NOW - MINUTE), NOW)).toBe(true);
    expect(isDrainBlocked(drainableWith([aPod('x')], NOW - 2 * MINUTE), NOW)).toBe(false);
  });

  it('of another UID is another node', () => {
    const other = aNode({ uid: 'another' });
    expect(isDrainable(new Drains(view([]), NOW).of(other, POLICY))).toBe(false);
  });
});

it('the explanation names some pods and counts the others', () => {
  const block = (pod: string) => ({ pod, reason: 'DisruptionBudget', message: 'is held' }) as const;
  expect(describeBlocks(['a', 'b', 'c', 'd'].map(block))).toBe('a is held; b is held; c is held; 1 more');
});

describe('a plan', () => {
  const managedNodes = ['a', 'b', 'c'].map((name) => aManagedNode(name));
  const seen = (name: string, pods: Parameters<typeof podsOf>[1], seenAt = NOW) =>
    [name, podsOf(aNode({ name }), pods, seenAt)] as const;
  const planOf = (pods: readonly (readonly [string, ReturnType<typeof podsOf>])[]): ReturnType<typeof plan> =>
    plan({ ...aSnapshot(managedNodes), pods: new Map(pods), budgets: indexedBudgets([aBudget('web')]) }, NOW);
  const names = (nodes: readonly { readonly metadata: { readonly name: string } }[]): string[] =>
    nodes.map(({ metadata }) => metadata.name);

  it('asks for the pods of the next node, and of no other', () => {
    const made = planOf([]);
    expect([names(made.lookUps), made.specs]).toEqual([['a'], []]);
    expect(made.conditions.flat().map(({ progressing }) => progressing.reason)).toEqual([
      'WaitingForCapacity',
      'WaitingForCapacity',
    ]);
  });

  it('passes over a node that cannot be drained', () => {
    const made = planOf([seen('a', [aPod('x')]), seen('b', [])]);
    expect(made.specs.map(({ node: { metadata } }) => metadata.name)).toEqual(['b']);
    expect(made.conditions.flat().map(({ progressing }) => progressing.reason)).toEqual([
      'DrainBlocked',
      'Updating',
      'WaitingForCapacity',
    ]);
  });

  it('says why pods cannot be seen, and tries no sooner than it may', () => {
    const retryAt = NOW + MINUTE;
    const made = planOf([['a', { ...podsOf(aNode({ name: 'a' })), seenAt: undefined, problem: '403', retryAt }]]);
    expect(names(made.lookUps)).toEqual(['b']);
    expect(made.conditions.flat()[0]?.progressing).toMatchObject({
      reason: 'PodListFailed',
      message: expect.stringContaining('403') as string,
    });
    expect(made.wakeAt).toBe(retryAt);
  });

  it('taints nodes that wait if the configuration says so, and no others', () => {
    const wants = { drain: { taintWaitingNodes: true } };
    const upToDate = aManagedNode('d', { hasWaitingTaint: true }, { status: { current_version: '1.21.0' } });
    const made = plan(aSnapshot([...managedNodes, upToDate], wants), NOW);
    expect(made.taints.map(({ node: { metadata }, waiting }) => [metadata.name, waiting])).toEqual([
      ['a', true],
      ['b', true],
      ['c', true],
      ['d', false],
    ]);
    expect(plan(aSnapshot(managedNodes), NOW).taints).toEqual([]);
  });
});
