/** Groups with a budget, canaries, an approval or a deadline of their own, beside those of the fleet. */
import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { BottlerocketNodeGroup, NodeGroupStatus } from '@brupop/shared/api/node-group';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { aPod } from '@brupop/shared/testing/pods';
import type { ManagedNode } from '../cluster/snapshot.ts';
import {
  ago,
  aGroup,
  aManagedNode,
  aSnapshot,
  MINUTE,
  NEW,
  type NodeParts,
  NOW,
  type ShadowParts,
  underWay,
  withGroups,
} from '../testing/objects.ts';
import { statusOf } from '../report/config-status.ts';
import { groupStatusOf } from '../report/group-status.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const HOUR = 60 * MINUTE;
const MANY = { concurrency: { maxUpdating: 100 } };

interface World {
  readonly rollout?: object;
  readonly groups: readonly BottlerocketNodeGroup[];
  readonly status?: BrupopConfigStatus;
}

function planOf(nodes: readonly ManagedNode[], { rollout = {}, groups, status }: World): Plan {
  const snapshot = aSnapshot(nodes, { ...MANY, rollout });
  const config = snapshot.config && { ...snapshot.config, ...(status !== undefined && { status }) };
  return plan(withGroups({ ...snapshot, config }, groups), NOW);
}

const waiting = (name: string, pool: string, parts: ShadowParts = {}, node: NodeParts = {}): ManagedNode =>
  aManagedNode(name, { labels: { pool }, ...node }, parts);
const failed = (name: string, pool: string, ms = MINUTE): ManagedNode =>
  waiting(name, pool, { record: { failed: { version: NEW, code: 'RolledBack', at: ago(ms) } } }, { ready: false });
const updated = (name: string, pool: string, ms = MINUTE, node: NodeParts = {}): ManagedNode => {
  const record = { succeeded: { version: NEW, at: ago(ms) } };
  return waiting(name, pool, { record, status: { current_version: NEW, target_version: NEW } }, node);
};
const started = ({ specs }: Plan): string[] =>
  specs.filter(({ outcome }) => outcome === 'Started').map(({ node }) => node.metadata.name);
const waitsFor = ({ conditions }: Plan, name: string): { reason: string; message: string } | undefined =>
  conditions.flat().find(({ node }) => node.metadata.name === name)?.progressing;
const withStatus = (group: BottlerocketNodeGroup, status: NodeGroupStatus): BottlerocketNodeGroup => ({
  ...group,
  status,
});

function statusOfGroup(made: Plan, name: string): NodeGroupStatus {
  const rollout = made.groups.find(({ group }) => group.name === name);
  if (rollout === undefined) throw new Error('there is one');
  return groupStatusOf(aGroup(name), { rollout, before: undefined, isWritten: true, now: NOW });
}

function statusOfConfig(made: Plan): BrupopConfigStatus {
  const { config } = aSnapshot([], {});
  if (config === undefined) throw new Error('there is one');
  return statusOf({ config, plan: made, before: undefined, isWritten: true, now: NOW });
}

const conditionOf = ({ conditions = [] }: NodeGroupStatus, wanted: string): { reason?: string; message?: string } =>
  conditions.find(({ type }) => type === wanted) ?? {};

describe('a budget of failures', () => {
  const budget = (failureBudget: number | string, more: object = {}): BottlerocketNodeGroup =>
    aGroup('gpu', { rollout: { failureBudget, ...more } });

  it('of a group freezes the version for its nodes only', () => {
    const nodes = [failed('a', 'gpu'), waiting('b', 'gpu'), waiting('c', 'web'), waiting('d', 'none')];
    const made = planOf(nodes, { groups: [budget(0), aGroup('web')] });
    expect(started(made)).toEqual(['c', 'd']);
    expect(waitsFor(made, 'b')).toMatchObject({
      reason: 'Frozen',
      message: `Too many nodes failed with ${NEW}; see the condition Frozen of BottlerocketNodeGroup "gpu"`,
    });
    expect(made.frozen).toEqual([]);
    const status = statusOfGroup(made, 'gpu');
    expect(status.frozenVersions).toEqual([{ version: NEW, since: rfc3339(NOW) }]);
    expect(conditionOf(status, 'Frozen')).toMatchObject({
      status: 'True',
      reason: 'FailureBudgetExceeded',
    });
    const { message = '' } = conditionOf(status, 'Frozen');
    expect(message).toContain(`In BottlerocketNodeGroup "gpu": No update to ${NEW}`);
    expect(message).toContain('a (RolledBack)');
    expect(conditionOf(status, 'Stalled').reason).toBe('FailureBudgetExceeded');
    expect(conditionOf(statusOfGroup(made, 'web'), 'Frozen').reason).toBe('NotFrozen');
  });

  it('of the fleet counts all nodes, and holds for all, whatever a group allows', () => {
    const nodes = [failed('a', 'gpu'), failed('b', 'gpu'), waiting('c', 'gpu'), waiting('d', 'web')];
    const made = planOf(nodes, { groups: [budget('100%')], rollout: { failureBudget: 1 } });
    expect(started(made)).toEqual([]);
    for (const name of ['c', 'd'])
      expect(waitsFor(made, name)?.message).toContain('see the condition Frozen of BrupopConfig "cluster"');
    const status = statusOfGroup(made, 'gpu');
    expect(conditionOf(status, 'Frozen').reason).toBe('FailureBudgetExceeded');
    expect(status).not.toHaveProperty('frozenVersions');
  });

  it('with percentages is of the nodes of the group', () => {
    const groups = [budget('50%')];
    const others = Array.from({ length: 10 }, (_, i) => waiting(`z-${i}`, 'web'));
    const two = [failed('a', 'gpu'), waiting('b', 'gpu'), waiting('c', 'gpu'), waiting('d', 'gpu'), ...others];
    expect(started(planOf(two, { groups, rollout: { failureBudget: '100%' } }))).toContain('b');
    const three = [failed('a', 'gpu'), failed('b', 'gpu'), failed('c', 'gpu'), waiting('d', 'gpu'), ...others];
    const made = planOf(three, { groups, rollout: { failureBudget: '100%' } });
    expect(waitsFor(made, 'd')?.reason).toBe('Frozen');
    expect(started(made)).toHaveLength(10);
  });

  it('is resumed by the group for the group, and by the fleet for both', () => {
    const nodes = [failed('a', 'gpu', HOUR), failed('b', 'gpu', HOUR), waiting('c', 'gpu'), waiting('d', 'web')];
    const own = { resume: ago(MINUTE) };
    const frozenVersions = [{ version: NEW, since: ago(HOUR) }];
    const group = (more: object): BottlerocketNodeGroup => withStatus(budget(1, more), { frozenVersions });
    const loose = { failureBudget: 5 };
    expect(started(planOf(nodes, { groups: [group({})], rollout: loose }))).toEqual(['d']);
    const resumed = planOf(nodes, { groups: [group(own)], rollout: loose });
    expect(started(resumed)).toEqual(['c', 'd']);
    expect(statusOfGroup(resumed, 'gpu')).not.toHaveProperty('frozenVersions');
    expect(statusOfConfig(resumed).failedNodes).toHaveLength(2);
    expect(started(planOf(nodes, { groups: [group({})], rollout: { ...loose, ...own } }))).toEqual(['c', 'd']);
    const both = planOf(nodes, { groups: [group(own)], rollout: { failureBudget: 1 } });
    expect(started(both)).toEqual([]);
    const later = { resume: rfc3339(NOW + HOUR) };
    const future = planOf(nodes, { groups: [group(later)], rollout: { ...loose, ...own } });
    expect(started(future)).toEqual(['c', 'd']);
  });

  it('remembers the group of a node that was deleted, and a freeze whose nodes have recovered', () => {
    const nodes = [waiting('b', 'gpu'), waiting('c', 'web')];
    const failedNodes = ['x', 'y'].map((name) => ({
      name,
      version: NEW,
      code: 'RolledBack',
      since: ago(MINUTE),
      deleted: true,
      group: 'gpu',
    }));
    const made = planOf(nodes, { groups: [budget(1)], rollout: { failureBudget: 5 }, status: { failedNodes } });
    expect(started(made)).toEqual(['c']);
    expect(statusOfConfig(made).failedNodes).toEqual(failedNodes);
    const known = withStatus(budget(1), { frozenVersions: [{ version: NEW, since: ago(HOUR) }] });
    expect(started(planOf(nodes, { groups: [known] }))).toEqual(['c']);
  });

  it('says which group a failure counts for', () => {
    const nodes = [failed('a', 'gpu'), failed('b', 'web')];
    const made = planOf(nodes, { groups: [budget(1), aGroup('web')], rollout: { failureBudget: 5 } });
    expect(statusOfConfig(made).failedNodes?.map(({ name, group }) => [name, group])).toEqual([
      ['a', 'gpu'],
      ['b', undefined],
    ]);
  });

  it('counts for the group with which the update began, whatever labels the Node has since', () => {
    const failure = { version: NEW, code: 'RolledBack', at: ago(MINUTE) };
    const record = { startedAt: ago(HOUR), group: 'gpu', failed: failure };
    const moved = waiting('a', 'web', { record }, { ready: false });
    const made = planOf([moved, waiting('b', 'gpu')], { groups: [budget(0), aGroup('web')] });
    expect(made.failed).toMatchObject([{ name: 'a', group: 'gpu' }]);
    const known = [{ name: 'a', version: NEW, code: 'RolledBack', since: ago(MINUTE), group: 'gpu' }];
    const gone = { ...failed('a', 'gpu'), node: undefined, group: undefined };
    const later = planOf([gone, waiting('b', 'gpu')], { groups: [budget(0)], status: { failedNodes: known } });
    expect(later.failed).toMatchObject([{ name: 'a', group: 'gpu' }]);
  });

  it('of the fleet counts workloads that fail although the group has resumed', () => {
    const suspects = [{ workload: 'ReplicaSet kube-system/web', problem: 'cannot start', at: ago(2 * MINUTE) }];
    const record = { succeeded: { version: NEW, at: ago(HOUR) }, suspects };
    const status = { current_version: NEW, target_version: NEW };
    const health = { watchFor: '5m' };
    const snapshot = aSnapshot([waiting('a', 'gpu', { record, status })], { ...MANY, health });
    const group = aGroup('gpu', { rollout: { failureBudget: 0, resume: ago(0) } });
    const web = aPod('web', { controller: 'ReplicaSet kube-system/web', ready: false, failing: true });
    const observed = new Map([['a', { nodeUID: 'uid-a', pods: [web], listedAt: [NOW] }]]);
    const made = plan(withGroups({ ...snapshot, observed }, [group]), NOW);
    expect([made.failed.length, made.suspects.length]).toEqual([1, 1]);
  });

  it('of a group frees the slots of its nodes when the group resumes', () => {
    const missed = waiting('a', 'gpu', {
      spec: underWay('MonitoringUpdate', 5 * HOUR),
      record: { group: 'gpu' },
      status: { current_state: 'MonitoringUpdate', current_version: NEW },
    });
    const nodes = [missed, waiting('b', 'gpu')];
    const group = (more: object): BottlerocketNodeGroup => aGroup('gpu', { concurrency: { maxUpdating: 1 }, ...more });
    const rollout = { failureBudget: 5 };
    expect(started(planOf(nodes, { groups: [group({})], rollout }))).toEqual([]);
    const resume = ago(MINUTE);
    expect(started(planOf(nodes, { groups: [group({ rollout: { resume } })], rollout }))).toEqual(['b']);
  });
});

describe('canaries', () => {
  const rollout = { canary: { nodes: 1 } };

  it('of a group go first in it, and those of the fleet for the others', () => {
    const nodes = ['a', 'b', 'c', 'd'].map((name) => waiting(name, name < 'c' ? 'gpu' : 'web'));
    const made = planOf(nodes, { groups: [aGroup('gpu', { rollout })], rollout });
    expect(started(made)).toEqual(['a', 'c']);
    const own = planOf(nodes, { groups: [aGroup('gpu', { rollout })] });
    expect(started(own)).toEqual(['a', 'c', 'd']);
    const without = planOf(nodes, { groups: [aGroup('gpu', { rollout: { canary: { nodes: '100%' } } })], rollout });
    expect(started(without)).toEqual(['a', 'b', 'c']);
  });

  it('of the fleet say nothing about the group, and soak apart', () => {
    const nodes = [updated('a', 'web'), waiting('b', 'web'), updated('c', 'gpu'), waiting('d', 'gpu')];
    const soaking = aGroup('gpu', { rollout: { ...rollout, soak: '1h' } });
    const made = planOf(nodes, { groups: [soaking], rollout });
    expect(started(made)).toEqual(['b']);
    expect(waitsFor(made, 'd')?.reason).toBe('Soaking');
    expect(waitsFor(made, 'd')?.message).toContain('(spec.rollout.soak of BottlerocketNodeGroup "gpu")');
    const canaries = [{ version: NEW, since: rfc3339(NOW) }];
    expect([statusOfConfig(made).canaries, statusOfGroup(made, 'gpu').canaries]).toEqual([canaries, canaries]);
    const known = (ms: number): BottlerocketNodeGroup =>
      withStatus(soaking, { canaries: [{ version: NEW, since: ago(ms) }] });
    expect(started(planOf(nodes, { groups: [known(30 * MINUTE)], rollout }))).toEqual(['b']);
    expect(started(planOf(nodes, { groups: [known(HOUR)], rollout }))).toEqual(['b', 'd']);
  });

  it('of the fleet are no nodes of such a group, and its selector selects none of them', () => {
    const nodes = [updated('a', 'gpu'), waiting('b', 'gpu'), waiting('c', 'web'), waiting('d', 'web')];
    const fleet = { canary: { nodeSelector: { matchLabels: { pool: 'web' } } } };
    const made = planOf(nodes, { groups: [aGroup('gpu', { rollout: { soak: '1m' } })], rollout: fleet });
    expect(started(made)).toEqual(['b', 'c', 'd']);
  });

  it('are named by the object that asks for them', () => {
    const of = { canary: { nodeSelector: { matchLabels: { role: 'canary' } } } };
    const nodes = [waiting('a', 'gpu'), waiting('b', 'gpu')];
    const made = planOf(nodes, { groups: [aGroup('gpu', { rollout: of })] });
    expect(waitsFor(made, 'a')?.message).toContain(
      'spec.rollout.canary.nodeSelector of BottlerocketNodeGroup "gpu" selects no node',
    );
  });
});

describe('an approval', () => {
  const required = { approval: 'Required' } as const;

  it('of a group is its own, and that of the fleet does not count for it', () => {
    const nodes = [waiting('a', 'gpu'), waiting('b', 'web')];
    const approved = { ...required, approvedVersion: NEW };
    const made = planOf(nodes, { groups: [aGroup('gpu', { rollout: required })], rollout: approved });
    expect(started(made)).toEqual(['b']);
    expect(waitsFor(made, 'a')).toMatchObject({
      reason: 'WaitingForApproval',
      message: `${NEW} needs an approval: set spec.rollout.approvedVersion of BottlerocketNodeGroup "gpu" to ${NEW}`,
    });
    expect(started(planOf(nodes, { groups: [aGroup('gpu', { rollout: approved })], rollout: required }))).toEqual([
      'a',
    ]);
    const own = aGroup('gpu', { rollout: { approvedVersion: NEW } });
    expect(started(planOf(nodes, { groups: [own], rollout: required }))).toEqual(['a']);
    expect(started(planOf(nodes, { groups: [aGroup('gpu')], rollout: required }))).toEqual([]);
    expect(
      started(planOf(nodes, { groups: [aGroup('gpu', { rollout: { approval: 'NotRequired' } })], rollout: required })),
    ).toEqual(['a']);
  });
});

describe('a deadline of progress', () => {
  const late = { lastProgressTime: ago(24 * HOUR), countedSeconds: 0, countedFrom: ago(2 * HOUR) };
  const down = (name: string, pool: string): ManagedNode => waiting(name, pool, {}, { ready: false });

  it('of a group is about its nodes, and that of the fleet about the others', () => {
    const nodes = [down('a', 'gpu'), updated('b', 'web', MINUTE), down('c', 'web')];
    const own = withStatus(aGroup('gpu', { rollout: { progressDeadline: '1h' } }), { progress: late });
    const made = planOf(nodes, {
      groups: [own, aGroup('web')],
      rollout: { progressDeadline: '1h' },
      status: { progress: late },
    });
    expect(made.progress?.isLate).toBe(false);
    const status = statusOfGroup(made, 'gpu');
    expect(status.progress).toEqual(late);
    expect(conditionOf(status, 'Degraded').reason).toBe('ProgressDeadlineExceeded');
    expect(conditionOf(status, 'Stalled').reason).toBe('ProgressDeadlineExceeded');
    expect(statusOfGroup(made, 'web')).not.toHaveProperty('progress');
    const onlyFleet = planOf([down('a', 'gpu'), updated('b', 'web', 3 * HOUR), down('c', 'web')], {
      groups: [aGroup('gpu', { rollout: { progressDeadline: '100h' } })],
      rollout: { progressDeadline: '1h' },
      status: { progress: late },
    });
    expect(onlyFleet.progress?.isLate).toBe(true);
  });

  it('does not count the time in which the group is paused, or waits for other groups', () => {
    const deadline = { rollout: { progressDeadline: '1h' } } as const;
    const progressOf = (spec: object, others: readonly ManagedNode[] = []): unknown =>
      planOf([down('a', 'gpu'), ...others], {
        groups: [aGroup('gpu', { ...deadline, ...spec }), aGroup('web')],
      }).groups.find(({ group }) => group.name === 'gpu')?.progress?.countedFrom;
    expect(progressOf({})).toBe(NOW);
    expect(progressOf({ paused: true })).toBeUndefined();
    const ready = planOf([waiting('a', 'gpu'), waiting('b', 'web')], {
      groups: [aGroup('gpu', { ...deadline, after: ['web'] }), aGroup('web')],
    });
    expect(ready.groups.find(({ group }) => group.name === 'gpu')?.progress?.countedFrom).toBeUndefined();
  });
});

it('a group without fields of spec.rollout has no lane', () => {
  const [group] = withGroups(aSnapshot([], { rollout: { failureBudget: 7 } }), [aGroup('gpu', { rollout: {} })]).groups;
  expect([...(group?.lanes ?? [])]).toEqual([]);
  expect(group?.policy.rollout.failureBudget).toEqual({ nodes: 7 });
});
