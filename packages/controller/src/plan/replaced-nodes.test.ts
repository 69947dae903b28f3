/** Failures of nodes that were replaced since, under their names or others. */
import type { BrupopConfig, BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { statusOf } from '../report/config-status.ts';
import { ago, aManagedNode, aSnapshot, failure, MINUTE, NEW, NOW, underWay } from '../testing/objects.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const HOUR = 60 * MINUTE;
const waiting = (name: string): ManagedNode => aManagedNode(name);
const failedWith = (name: string, code: string, ms = MINUTE): ManagedNode =>
  aManagedNode(name, { ready: false }, { record: { failed: { version: NEW, code, at: ago(ms) } } });

interface World {
  readonly spec?: object;
  readonly status: BrupopConfigStatus;
}
/** Its drain took a minute, and its host does not return. */
const hanging = (name: string, ms: number): ManagedNode => {
  const [startTime, endTime] = [ago(ms + MINUTE), ago(ms)];
  const status = {
    current_state: 'StagedAndPerformedUpdate',
    lastOperation: failure(undefined, { operation: 'Reboot', state: 'Processing', startTime: ago(ms) }),
    drain: { observedGeneration: 3, startTime, endTime, result: 'Drained', evicted: 1, remaining: 0 },
  } as const;
  const record = { startedAt: ago(HOUR), rebootRequestedAt: startTime, bootBefore: 'boot-1' };
  return aManagedNode(name, { ready: false }, { spec: underWay('RebootedIntoUpdate', ms + MINUTE), record, status });
};

function planOf(managedNodes: readonly ManagedNode[], { spec = {}, status }: World): Plan {
  const snapshot = aSnapshot(managedNodes, spec);
  return plan({ ...snapshot, config: { ...snapshot.config, status } as BrupopConfig }, NOW);
}

const statusAfter = (made: Plan, spec = {}): BrupopConfigStatus => {
  const { config } = aSnapshot([], spec);
  return statusOf({ config: config as BrupopConfig, plan: made, before: undefined, isWritten: true, now: NOW });
};

describe('a failure of a node that was replaced', () => {
  it.each(['NotReturned', 'WorkloadsFailed'])('with %s still counts when another Node of its name succeeds', (code) => {
    const status = { failedNodes: [{ name: 'a', version: NEW, code, since: ago(HOUR) }] };
    const record = { succeeded: { version: NEW, at: ago(MINUTE) } };
    const other = aManagedNode('a', { creationTimestamp: ago(HOUR / 2) }, { record, status: { current_version: NEW } });
    const made = planOf([other, failedWith('b', 'RolledBack'), waiting('c')], { status });
    expect(statusAfter(made).failedNodes).toMatchObject([{ name: 'b' }, { name: 'a', deleted: true }]);
    expect(made.frozen).toMatchObject([{ version: NEW }]);
  });

  it('counts when a tool replaces each node half an hour after its reboot', () => {
    const status = statusAfter(planOf([hanging('a', 25 * MINUTE), waiting('c')], { status: {} }));
    const made = planOf([hanging('b', 25 * MINUTE), waiting('c')], { status });
    expect(made.failed).toMatchObject([{ name: 'a', code: 'NotReturned', deleted: true }, { name: 'b' }]);
    expect(made.frozen).toMatchObject([{ version: NEW }]);
    expect(planOf([hanging('b', 19 * MINUTE)], { status: {} }).failed).toEqual([]);
  });

  it('counts beyond a budget of many nodes, each of which was replaced after its failure', () => {
    const spec = { rollout: { failureBudget: 65 } };
    let status: BrupopConfigStatus = {};
    const frozen = Array.from({ length: 7 }, (_, round) => {
      const failing = Array.from({ length: 10 }, (_, i) => failedWith(`r${round}-${i}`, 'NotReturned', HOUR - round));
      const made = planOf([...failing, waiting('c')], { spec, status });
      status = statusAfter(made, spec);
      return made.frozen.length;
    });
    expect(frozen).toEqual([0, 0, 0, 0, 0, 0, 1]);
  });

  it('is on record before those of other nodes, when more have failed than are kept', () => {
    const since = ago(2 * HOUR);
    const gone = Array.from({ length: 400 }, (_, i) => ({
      name: `gone-${i}`,
      version: NEW,
      code: 'NotReturned',
      since,
    }));
    const failing = Array.from({ length: 700 }, (_, i) => failedWith(`here-${i}`, 'NotReturned'));
    const { failedNodes = [] } = statusAfter(planOf(failing, { status: { failedNodes: gone } }));
    expect(failedNodes).toHaveLength(1_000);
    expect(failedNodes.filter(({ deleted }) => deleted === true)).toHaveLength(400);
  });
});
