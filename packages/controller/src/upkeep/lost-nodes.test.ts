/** Nodes that do not return from the reboot of their update, and the taint of them. */
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { CORDONED_ANNOTATION, OUT_OF_SERVICE_ANNOTATION } from '@brupop/shared/api/names';
import type { ShadowStatus } from '@brupop/shared/api/shadow';
import { CONNECTED, type Connectivity } from '../cluster/connectivity.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import {
  ago,
  aManagedNode,
  aSnapshot,
  failure,
  MINUTE,
  NEW,
  type NodeParts,
  NOW,
  type ShadowParts,
  underWay,
  withPolicy,
  withoutShadow,
} from '../testing/objects.ts';
import { statusOf } from '../report/config-status.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const TAINTS = { lostNode: { action: 'OutOfServiceTaint' } };
const REPORTS = {};

const AWAY: NodeParts = {
  ready: false,
  isUnreachable: true,
  readySince: ago(40 * MINUTE),
  unschedulable: true,
  annotations: { [CORDONED_ANNOTATION]: ago(50 * MINUTE) },
};
const DRAINED = {
  observedGeneration: 3,
  startTime: ago(50 * MINUTE),
  endTime: ago(45 * MINUTE),
  result: 'Drained',
  evicted: 1,
  remaining: 0,
} as const;
const { result: _, endTime: __, ...OPEN } = DRAINED;
const REQUESTED = { startTime: ago(42 * MINUTE), lastUpdateTime: ago(42 * MINUTE) };
const REBOOT = failure(undefined, { operation: 'Reboot', state: 'Processing', ...REQUESTED });
const STATUS: Partial<ShadowStatus> = {
  current_state: 'StagedAndPerformedUpdate',
  drain: DRAINED,
  lastOperation: REBOOT,
};
const SHADOW: ShadowParts = {
  spec: underWay('RebootedIntoUpdate', 50 * MINUTE),
  record: { rebootRequestedAt: ago(50 * MINUTE) },
  status: STATUS,
};

const OURS = { ...AWAY.annotations, [OUT_OF_SERVICE_ANNOTATION]: ago(MINUTE) };
const TAINTED: NodeParts = { hasOutOfServiceTaint: true, annotations: OURS };

/** A lost node with some parts different. */
const aLostNode = (node: NodeParts = {}, shadow: ShadowParts = {}, more: Partial<ManagedNode> = {}): ManagedNode => ({
  ...aManagedNode('a', { ...AWAY, ...node }, { ...SHADOW, ...shadow }),
  leaseExpired: true,
  ...more,
});
const withStatus = (status: Partial<ShadowStatus>): ManagedNode => aLostNode({}, { status: { ...STATUS, ...status } });

function planOf(node: ManagedNode, spec: object = TAINTS, connectivity: Connectivity = CONNECTED): Plan {
  const snapshot = aSnapshot([node], spec);
  const policy = { ...snapshot.policy, deadlinesFrom: connectivity.lostUntil, isSuspended: connectivity.lost };
  return plan({ ...withPolicy(snapshot, policy), connectivity }, NOW);
}

const lost = ({ lost: nodes }: Plan): string[] => nodes.map(({ name }) => name);
/** What is done to the taint of the only node. */
const taint = ({ outOfService }: Plan): string[] => outOfService.map(({ wanted }) => (wanted ? 'set' : 'removed'));

describe('a drained node whose reboot was requested and whose kubelet is silent', () => {
  it('is lost, and is tainted if the configuration says so', () => {
    expect(lost(planOf(aLostNode()))).toEqual(['a']);
    expect(taint(planOf(aLostNode()))).toEqual(['set']);
    expect(lost(planOf(aLostNode(), REPORTS))).toEqual(['a']);
    expect(taint(planOf(aLostNode(), REPORTS))).toEqual([]);
  });

  it('is lost without a Lease, too', () => {
    expect(lost(planOf(aLostNode({}, {}, { leaseExpired: undefined })))).toEqual(['a']);
  });

  it.each<readonly [string, ManagedNode, number]>([
    ['became silent', aLostNode({ readySince: ago(29 * MINUTE) }), MINUTE],
    ['was asked to reboot', withStatus({ lastOperation: { ...REBOOT, lastUpdateTime: ago(28 * MINUTE) } }), 2 * MINUTE],
    ['was drained', withStatus({ drain: { ...DRAINED, endTime: ago(27 * MINUTE) } }), 3 * MINUTE],
  ])('is lost half an hour after it %s, and the plan is made again then', (_, node, leftMs) => {
    const made = planOf(node);
    expect([lost(made), taint(made), made.wakeAt]).toEqual([[], [], NOW + leftMs]);
  });

  it('is lost earlier or later if the configuration says so', () => {
    expect(lost(planOf(aLostNode(), { lostNode: { after: '41m' } }))).toEqual([]);
    expect(lost(planOf(aLostNode({ readySince: ago(6 * MINUTE) }), { lostNode: { after: '5m' } }))).toEqual(['a']);
  });

  it('is judged again soon while only its Lease is renewed', () => {
    const made = planOf(aLostNode({}, {}, { leaseExpired: false }));
    expect([lost(made), made.wakeAt]).toEqual([[], NOW + 10_000]);
  });
});

const step = (parts: Partial<typeof REBOOT>): ManagedNode => withStatus({ lastOperation: { ...REBOOT, ...parts } });

describe('a node is not lost', () => {
  it.each<readonly [string, ManagedNode]>([
    ['that is Ready', aLostNode({ ready: true, isUnreachable: false })],
    ['whose kubelet reports that it is not Ready', aLostNode({ isUnreachable: false })],
    ['without a time since when it is silent', aLostNode({ readySince: 'x' })],
    ['that has booted since', aLostNode({ bootID: 'boot-2' })],
    ['whose agent has reported since the boot', withStatus({ bootID: 'boot-2' })],
    ['that is staging', aLostNode({}, { spec: underWay('StagedAndPerformedUpdate', 50 * MINUTE) })],
    ['that had returned before', aLostNode({}, { spec: underWay('MonitoringUpdate', 50 * MINUTE) })],
    ['at rest', aLostNode({}, { spec: { state: 'Idle' } })],
    ['that is draining', step({ operation: 'Drain' })],
    ['that is activating', step({ operation: 'Activate' })],
    ['that is being restored', step({ operation: 'Restore' })],
    ['whose reboot failed', step({ state: 'Failed' })],
    ['whose reboot was for another version', step({ version: '1.19.0' })],
    ['whose drain has not ended', withStatus({ drain: OPEN })],
    ['whose drain has no end time', withStatus({ drain: { ...DRAINED, endTime: 'x' } })],
    ['whose drain ended without success', withStatus({ drain: { ...DRAINED, result: 'TimedOut' } })],
    ['that was drained for an earlier spec', withStatus({ drain: { ...DRAINED, observedGeneration: 2 } })],
    ['whose agent never reported', aLostNode({}, { status: null })],
    ['that is not managed', aLostNode({ managed: false })],
    ['without a shadow', withoutShadow(aLostNode())],
    ['whose shadow belongs to an earlier Node', aLostNode({}, { owner: 'another' })],
  ])('%s', (_, node) => {
    const made = planOf(node);
    expect([lost(made), taint(made)]).toEqual([[], []]);
  });

  it('while connectivity is lost, nor until the time has passed again afterwards', () => {
    const gone: Connectivity = { ...CONNECTED, lost: true, lostUntil: NOW };
    expect(lost(planOf(aLostNode(), TAINTS, gone))).toEqual([]);
    expect(taint(planOf(aLostNode(), TAINTS, gone))).toEqual([]);
    expect(lost(planOf(aLostNode(), TAINTS, { ...CONNECTED, lostUntil: NOW - 29 * MINUTE }))).toEqual([]);
    expect(lost(planOf(aLostNode(), TAINTS, { ...CONNECTED, lostUntil: NOW - 30 * MINUTE }))).toEqual(['a']);
  });

  it('while a watch is stale', () => {
    const made = plan({ ...aSnapshot([aLostNode()], TAINTS), watchLags: [{ resource: 'nodes', ms: 120_000 }] }, NOW);
    expect([lost(made), taint(made)]).toEqual([[], []]);
  });
});

describe('a lost node is not tainted', () => {
  it.each<readonly [string, NodeParts]>([
    ['that is schedulable', { unschedulable: false }],
    ['whose cordon is of another actor', { annotations: {} }],
    ['that another actor has tainted', { hasOutOfServiceTaint: true }],
    ['whose taint another actor has removed', { annotations: OURS }],
  ])('%s', (_, node) => {
    const made = planOf(aLostNode(node));
    expect([lost(made), taint(made)]).toEqual([['a'], []]);
  });
});

describe('the taint of the operator', () => {
  it.each<readonly [string, ManagedNode, Connectivity]>([
    ['the node is lost', aLostNode(TAINTED), CONNECTED],
    ['connectivity is lost', aLostNode(TAINTED), { ...CONNECTED, lost: true, lostUntil: NOW }],
    ['connectivity was lost a moment ago', aLostNode(TAINTED), { ...CONNECTED, lostUntil: NOW - MINUTE }],
  ])('stays while %s', (_, node, connectivity) => {
    expect(taint(planOf(node, TAINTS, connectivity))).toEqual([]);
  });

  it.each<readonly [string, ManagedNode, object]>([
    ['the node is Ready again', aLostNode({ ...TAINTED, ready: true, isUnreachable: false, bootID: 'boot-2' }), TAINTS],
    ['the host has booted', aLostNode({ ...TAINTED, bootID: 'boot-2' }), TAINTS],
    ['the cut-off node is Ready again', aLostNode({ ...TAINTED, ready: true, isUnreachable: false }), TAINTS],
    ['the configuration says Report', aLostNode(TAINTED), REPORTS],
    ['the node is no longer managed', aLostNode({ ...TAINTED, managed: false }), TAINTS],
    ['the shadow is gone', withoutShadow(aLostNode(TAINTED)), TAINTS],
    ['the update has ended', aLostNode(TAINTED, { spec: { state: 'Idle' } }), TAINTS],
  ])('is removed when %s', (_, node, spec) => {
    expect(taint(planOf(node, spec))).toEqual(['removed']);
  });

  it('is not removed if it is of another actor', () => {
    const node = aLostNode({ ready: true, isUnreachable: false, hasOutOfServiceTaint: true });
    expect(taint(planOf(node, REPORTS))).toEqual([]);
  });
});

describe('users learn of a lost node', () => {
  const made = planOf(aLostNode(), { ...TAINTS, timeouts: { reboot: '1h' } });

  it('from its condition, before and after its deadline', () => {
    const since = `its kubelet and agent have not reported since ${ago(40 * MINUTE)}`;
    expect(made.conditions.flat()[0]?.progressing).toMatchObject({ reason: 'Updating', waitingFor: 'NodeLost' });
    expect(made.conditions.flat()[0]?.health).toBe('Stalled');
    expect(made.conditions.flat()[0]?.progressing.message).toContain(since);
    const late = planOf(aLostNode({}, { spec: underWay('RebootedIntoUpdate', 24 * 60 * MINUTE) }));
    expect(late.conditions.flat()[0]?.progressing).toMatchObject({ reason: 'DeadlineExceeded' });
    expect(late.conditions.flat()[0]?.progressing.message).toContain(since);
  });

  it('from one Event for each update', () => {
    const { event } = made.lost[0] ?? {};
    expect(event).toMatchObject({
      reason: 'NodeLost',
      warning: true,
      key: 'shadow-a/3',
      about: { kind: 'Node', name: 'a' },
    });
  });

  it('from the condition Degraded of the configuration', () => {
    const { config } = aSnapshot([], {});
    const input = { config: config as BrupopConfig, before: undefined, isWritten: true, now: NOW };
    const degraded = statusOf({ ...input, plan: made }).conditions?.find(({ type }) => type === 'Degraded');
    expect(degraded).toMatchObject({
      status: 'True',
      reason: 'NodesNeedAttention',
      message: 'Nodes need attention: lost in the reboot of their update: a',
    });
  });

  it('and of its taint from an Event', () => {
    expect(made.outOfService[0]?.event).toMatchObject({ reason: 'OutOfService', warning: true });
    const removed = planOf(aLostNode(TAINTED), REPORTS).outOfService[0]?.event;
    expect(removed).toMatchObject({ reason: 'OutOfServiceEnded', warning: false });
  });

  it('and not of an annotation that a kubelet set without the taint', () => {
    const [change] = planOf(aLostNode({ ...TAINTED, hasOutOfServiceTaint: false }), REPORTS).outOfService;
    expect(change).toMatchObject({ wanted: false, event: undefined });
  });

  it('by the version that it did not return with', () => {
    expect(made.lost[0]?.message).toContain(`was asked to reboot into ${NEW}`);
  });
});
