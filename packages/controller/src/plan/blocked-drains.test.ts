import type { NodeRecord } from '@brupop/shared/api/record';
import { indexedBudgets } from '@brupop/shared/drain/budget-index';
import type { Budget } from '@brupop/shared/drain/budgets';
import { aBudget, aPod } from '@brupop/shared/testing/pods';
import type { NodeView } from '../cluster/node.ts';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import { ago, aManagedNode, aSnapshot, failure, MINUTE, NEW, NOW, podsOf } from '../testing/objects.ts';
import { type WholePlan as Plan, wholePlan as plan } from '../whole-plan.ts';

const HOUR = 60 * MINUTE;
const PRIMARY = aBudget('pg-primary', { currentHealthy: 1, desiredHealthy: 1, expectedPods: 1 });

/** A fleet in which a budget holds a pod on each of the nodes named. */
function fleet(
  managedNodes: readonly ManagedNode[],
  blocked: readonly string[],
  { drain = {}, budget = PRIMARY }: { readonly drain?: object; readonly budget?: Budget } = {},
): Snapshot {
  const snapshot = aSnapshot(managedNodes, { drain });
  const held = managedNodes.flatMap(({ name, node }) =>
    node !== undefined && blocked.includes(name) ? [[name, podsOf(node, [aPod('pg-1')])] as const] : [],
  );
  return { ...snapshot, pods: new Map([...snapshot.pods, ...held]), budgets: indexedBudgets([budget]) };
}

const started = (made: Plan): string[] =>
  made.specs.flatMap(({ outcome, node }) => (outcome === 'Started' ? [node.metadata.name] : []));
const saidOf = (made: Plan, name: string): string | undefined => {
  const found = made.conditions.flat().find(({ node }) => node.metadata.name === name)?.progressing;
  return found && `${found.reason}: ${found.message}`;
};
const tried = (count: number, msAgo: number) => ({
  record: { blockedDrains: { count, at: ago(msAgo) } },
});

describe('a node whose pods are held by a budget that its cordon may open', () => {
  it('starts after all nodes that can be drained, although it comes before them', () => {
    const nodes = ['a', 'b', 'c'].map((name) => aManagedNode(name));
    const made = plan(fleet(nodes, ['a']), NOW);
    expect(started(made)).toEqual(['b']);
    expect(saidOf(made, 'a')).toContain('It is cordoned for these pods after the other nodes');
  });

  it('starts when no other node can use the slot, and records that', () => {
    const [change] = plan(fleet([aManagedNode('a')], ['a']), NOW).specs;
    expect(change?.outcome).toBe('Started');
    expect(change?.record.blockedDrains).toEqual({ count: 1, at: ago(0) });
  });

  it.each<[string, Parameters<typeof fleet>[2]]>([
    ['with Wait', { drain: { blockedBudgets: 'Wait' } }],
    ['of which the spec allows none', { budget: { ...PRIMARY, neverAllows: true } }],
    ['whose pods cannot be counted', { budget: { ...PRIMARY, failure: 'found no controllers' } }],
    ['that unhealthy pods hold for long', { budget: { ...PRIMARY, currentHealthy: 0, closedSince: NOW - HOUR } }],
  ])('does not start %s', (_what, more) => {
    const made = plan(fleet([aManagedNode('a')], ['a'], more), NOW);
    expect([started(made), saidOf(made, 'a')?.startsWith('DrainBlocked')]).toEqual([[], true]);
  });

  it('waits for a time that doubles up to a day, and says when it is over', () => {
    const waits = [1, 2, 3, 4, 5, 6, 40].map((count) => {
      const hours = [0.5, 1.5, 3, 7, 15, 23.5, 24.5].filter((passed) => {
        const snapshot = fleet([aManagedNode('a', {}, tried(count, passed * HOUR))], ['a']);
        return started(plan(snapshot, NOW)).length === 0;
      });
      return hours.at(-1);
    });
    expect(waits).toEqual([0.5, 1.5, 3, 7, 15, 23.5, 23.5]);
    const made = plan(fleet([aManagedNode('a', {}, tried(1, 30 * MINUTE))], ['a']), NOW);
    expect(saidOf(made, 'a')).toContain(`cordoned again after ${ago(-30 * MINUTE)}`);
  });

  it('waits for the same time after a drain that failed, since the budget of a pod that goes last stayed closed', () => {
    const startedMsAgo = (msAgo: number): string[] => {
      const status = {
        crash_count: 1,
        lastOperation: failure('DrainTimedOut', { lastUpdateTime: ago(msAgo - 30 * MINUTE) }),
      };
      const node = aManagedNode('a', {}, { ...tried(2, msAgo), status });
      return started(plan(fleet([node], ['a']), NOW));
    };
    expect([startedMsAgo(110 * MINUTE), startedMsAgo(130 * MINUTE)]).toEqual([[], ['a']]);
  });

  it('does not hold the slot while it waits, nor the pods of the others', () => {
    const nodes = [aManagedNode('a', {}, tried(3, MINUTE)), aManagedNode('b')];
    expect(started(plan(fleet(nodes, ['a']), NOW))).toEqual(['b']);
  });
});

describe('while the pods that keep a node from starting are listed again', () => {
  const failing = { ...aPod('web'), failing: true, ready: false };

  it.each<[string, object, Budget | undefined]>([
    ['a budget holds', {}, { ...PRIMARY, neverAllows: true }],
    ['cannot start', { health: { podsBefore: 'Prefer' } }, undefined],
    ['cannot start, which are required', { health: { podsBefore: 'Required' } }, undefined],
  ])('another node starts: pods that %s', (_what, spec, budget) => {
    const [a, b] = ['a', 'b'].map((name) => aManagedNode(name));
    const snapshot = aSnapshot([a, b] as ManagedNode[], spec);
    const old = podsOf(a?.node as NodeView, [budget === undefined ? failing : aPod('web')], NOW - 10 * MINUTE);
    const pods = new Map([...snapshot.pods, ['a', old]]);
    const made = plan({ ...snapshot, pods, budgets: indexedBudgets(budget === undefined ? [] : [budget]) }, NOW);
    expect(made.lookUps.map(({ metadata }) => metadata.name)).toEqual(['a']);
    expect(started(made)).toEqual(['b']);
  });
});

describe('an update that was started although a budget holds pods', () => {
  const startedAt = { startedAt: ago(MINUTE) };
  const trying = { ...startedAt, blockedDrains: { count: 2, at: ago(MINUTE) } };
  const staged = (record: NodeRecord): ManagedNode =>
    aManagedNode(
      'a',
      {},
      {
        record,
        spec: { state: 'StagedAndPerformedUpdate', version: NEW, state_transition_timestamp: ago(MINUTE) },
        status: { current_state: 'StagedAndPerformedUpdate' },
      },
    );
  const outcomes = (node: ManagedNode): string[] =>
    plan(fleet([node], ['a']), NOW).specs.map(({ outcome, spec }) => `${outcome} ${spec.state}`);

  it('passes the second preflight, and no other one does', () => {
    expect(outcomes(staged(trying))).toEqual(['Advanced RebootedIntoUpdate']);
    expect(outcomes(staged(startedAt))).toEqual(['Deferred Idle']);
  });

  const drained = (record: NodeRecord, generation: number): ManagedNode =>
    aManagedNode(
      'a',
      { unschedulable: true },
      {
        record,
        spec: { state: 'RebootedIntoUpdate', version: NEW, state_transition_timestamp: ago(MINUTE) },
        status: {
          current_state: 'StagedAndPerformedUpdate',
          lastOperation: failure(undefined, { operation: 'Drain', state: 'Processing' }),
          drain: {
            observedGeneration: generation,
            startTime: ago(MINUTE),
            evicted: 0,
            remaining: 4,
            result: 'Blocked',
          },
        },
      },
    );

  it('ends when the budget has not allowed an eviction, which is no failure', () => {
    const node = drained(trying, 0);
    const { generation = 0 } = node.shadow?.metadata ?? {};
    const [change, ...others] = plan(fleet([drained(trying, generation)], ['a']), NOW).specs;
    expect([change?.outcome, change?.spec.state, others]).toEqual(['Deferred', 'Idle', []]);
    expect(change?.because?.reason).toBe('DrainBlocked');
    const { unsuccessful, attempts, blockedDrains } = change?.record ?? {};
    expect([unsuccessful, attempts, blockedDrains]).toEqual([undefined, undefined, trying.blockedDrains]);
  });

  it('counts also when the budget was closed after the node was staged', () => {
    const { generation = 0 } = drained(startedAt, 0).shadow?.metadata ?? {};
    const [change] = plan(fleet([drained(startedAt, generation)], ['a']), NOW).specs;
    expect(change?.record.blockedDrains).toEqual({ count: 1, at: ago(0) });
  });

  it('is not ended by the result of an earlier drain', () => {
    const { generation = 0 } = drained(trying, 0).shadow?.metadata ?? {};
    expect(plan(fleet([drained(trying, generation - 1)], ['a']), NOW).specs).toEqual([]);
  });
});

describe('a node whose pods are held by a budget that is overridden at the time limit', () => {
  const force = { drain: { onTimeout: 'Force' } };

  it('starts', () => {
    expect(started(plan(fleet([aManagedNode('a')], ['a'], force), NOW))).toEqual(['a']);
  });

  it('does not start without the right to delete pods, and says so', () => {
    const made = plan({ ...fleet([aManagedNode('a')], ['a'], force), mayForce: false }, NOW);
    expect(started(made)).toEqual([]);
    expect(saidOf(made, 'a')).toContain('set drain.allowForce=true in the values of the chart');
  });
});
