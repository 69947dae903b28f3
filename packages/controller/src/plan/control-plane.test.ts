/** Nodes of the control plane update one at a time, and only while all others are well. */
import type { NodeView } from '../cluster/node.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import {
  ago,
  aManagedNode,
  aNode,
  aSnapshot,
  cordoned,
  MINUTE,
  type NodeParts,
  NOW,
  type ShadowParts,
  underWay,
} from '../testing/objects.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const LABELS = { 'node-role.kubernetes.io/control-plane': '' };
const member = (name: string, node: NodeParts = {}, shadow: ShadowParts = {}): ManagedNode =>
  aManagedNode(name, { labels: LABELS, ...node }, shadow);
const unmanaged = (name: string, node: NodeParts = {}): NodeView =>
  aNode({ name, managed: false, labels: LABELS, ...node });
const STARTED = { startedAt: ago(MINUTE) };
const staged = (name: string): ManagedNode =>
  member(name, {}, { spec: underWay('StagedAndPerformedUpdate'), record: STARTED });
const rebooting = (name: string): ManagedNode =>
  member(name, cordoned(MINUTE), {
    spec: underWay('RebootedIntoUpdate'),
    record: STARTED,
    status: { current_state: 'StagedAndPerformedUpdate' },
  });

function planOf(managedNodes: readonly ManagedNode[], others: readonly NodeView[] = [], controlPlane?: string): Plan {
  const concurrency = { maxUpdating: 3, ...(controlPlane !== undefined && { controlPlane }) };
  const snapshot = aSnapshot(managedNodes, { concurrency });
  return plan({ ...snapshot, nodes: [...snapshot.nodes, ...others] }, NOW);
}
const outcomes = ({ specs }: Plan): string[] => specs.map(({ outcome, node }) => `${outcome} ${node.metadata.name}`);
const reasonOf = ({ conditions }: Plan, name: string): unknown =>
  conditions.flat().find(({ node }) => node.metadata.name === name)?.progressing;

it('they start one at a time, also where more nodes may update at once', () => {
  const made = planOf([member('a'), member('b'), member('c'), aManagedNode('worker')]);
  expect(outcomes(made)).toEqual(['Started a', 'Started worker']);
  expect(reasonOf(made, 'b')).toMatchObject({
    reason: 'WaitingForControlPlane',
    message:
      'Nodes of the control plane update one at a time, and only while all others are Ready ' +
      '(spec.concurrency.controlPlane). Others of them are updating: a',
  });
});

it.each<readonly [string, readonly ManagedNode[], readonly NodeView[]]>([
  ['is not Ready', [member('b', { ready: false })], []],
  ['is not managed and not Ready', [], [unmanaged('b', { ready: false })]],
  ['is being deleted', [], [unmanaged('b', { deletionTimestamp: ago(0) })]],
  [
    'is about to be removed by its Auto Scaling group',
    [],
    [
      unmanaged('b', {
        taints: [{ key: 'aws-node-termination-handler/asg-lifecycle-termination', effect: 'NoSchedule' }],
      }),
    ],
  ],
  [
    'has only etcd, and is not Ready',
    [],
    [aNode({ name: 'b', managed: false, ready: false, labels: { 'node-role.kubernetes.io/etcd': 'true' } })],
  ],
  ['is updating', [rebooting('b')], []],
])('none starts while another one %s', (_, managedNodes, others) => {
  expect(outcomes(planOf([member('a'), ...managedNodes], others))).toEqual([]);
  expect(outcomes(planOf([aManagedNode('worker'), ...managedNodes], others))).toEqual(['Started worker']);
  expect(outcomes(planOf([member('a'), ...managedNodes], others, 'Ignored'))).toEqual(['Started a']);
});

it('a node that is staged is not drained while another one is not Ready or drained, and releases its slot', () => {
  expect(outcomes(planOf([staged('a')]))).toEqual(['Advanced a']);
  expect(outcomes(planOf([staged('a')], [unmanaged('b', { ready: false })]))).toEqual(['Deferred a']);
  expect(outcomes(planOf([staged('a'), rebooting('b')]))).toEqual(['Deferred a']);
});

it('of two nodes that are staged, one is drained', () => {
  expect(outcomes(planOf([staged('a'), staged('b')]))).toEqual(['Advanced a', 'Deferred b']);
});

it('a worker that is not Ready does not matter', () => {
  const worker = aNode({ name: 'worker', managed: false, ready: false });
  expect(outcomes(planOf([member('a')], [worker]))).toEqual(['Started a']);
});

it('one that is still cordoned for an update that ended holds the others up', () => {
  const left = unmanaged('b', cordoned(MINUTE));
  expect(outcomes(planOf([member('a')], [left]))).toEqual([]);
  expect(outcomes(planOf([member('a')], [unmanaged('b')]))).toEqual(['Started a']);
});
