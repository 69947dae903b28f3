/** Taints of groups that evict pods reach one node first, and then as many as the limits allow. */
import { GROUP_TAINTS_ANNOTATION, NODE_METADATA_FINALIZER, SKIP_ANNOTATION } from '@brupop/shared/api/names';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import type { DrainPod } from '@brupop/shared/drain/pods';
import { taintsRecord } from '../cluster/group-metadata.ts';
import { NodeMemory } from '../cluster/node-memory.ts';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import {
  aGroup,
  aManagedNode,
  aNode,
  aSnapshot,
  MINUTE,
  type NodeParts,
  NOW,
  OLD,
  withGroups,
  instantAt,
} from '../testing/objects.ts';
import { aMember, aStaticMember, DB, withMembers } from '../testing/quorums.ts';
import { metadataApplied } from '../report/metadata-condition.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const TAINT = { key: 'example.com/dedicated', value: 'db', effect: 'NoExecute' } as const;
const RECORD = taintsRecord([{ group: 'db', ...TAINT }]) ?? '';

function groupWith(effect: 'NoExecute' | 'NoSchedule' = 'NoExecute'): BottlerocketNodeGroup {
  const taints = [{ ...TAINT, effect }];
  const made = aGroup('db', { nodeMetadata: { taints, confirmNoExecute: true, domains: ['example.com'] } });
  const dropped = { labels: [], annotations: [], taints: [] };
  const rendered = {
    generation: 1,
    conflicts: 'Respect',
    labels: {},
    annotations: {},
    taints,
    settings: {},
    dropped,
  } as const;
  const metadata = { ...made.metadata, finalizers: [NODE_METADATA_FINALIZER] };
  return { ...made, metadata, status: { rendered, confirmedGeneration: 1 } };
}

/** Up to date: no update needs the slots. */
const waiting = (name: string, node: NodeParts = {}): ManagedNode =>
  aManagedNode(name, { ...node, labels: { pool: 'db', ...node.labels } }, { status: { target_version: OLD } });
const tainted = (name: string, ms: number, ready = true): ManagedNode => {
  const made = waiting(name, { ready, annotations: { [GROUP_TAINTS_ANNOTATION]: RECORD } });
  if (made.node === undefined) throw new Error('there is a Node');
  return { ...made, node: { ...made.node, taints: [TAINT] }, evictedSince: NOW - ms };
};

interface World {
  readonly spec?: object;
  readonly effect?: 'NoExecute' | 'NoSchedule';
  readonly snapshot?: Partial<Snapshot>;
}

function planOf(nodes: readonly ManagedNode[], { spec = {}, effect, snapshot = {} }: World = {}): Plan {
  return plan({ ...withGroups(aSnapshot(nodes, spec), [groupWith(effect)]), ...snapshot }, NOW);
}
const written = ({ metadata }: Plan): string[] => metadata.changes.map(({ node }) => node.metadata.name);
const MEMBERS = ['a', 'b', 'c'].map((name) => aMember(`db-${name}`, name));

function withQuorum(isReady: boolean, more: Partial<Snapshot> = {}, pods: readonly DrainPod[] = MEMBERS): Plan {
  const other = aNode({ name: 'c', managed: false, ready: isReady });
  const snapshot = withGroups(aSnapshot([waiting('a')], { quorums: [DB] }), [groupWith()]);
  const nodes = [...snapshot.nodes, aNode({ name: 'b', managed: false }), other];
  return plan({ ...withMembers({ ...snapshot, nodes }, pods), ...more }, NOW);
}

it('a node with a member of a quorum gets it only while the others are there', () => {
  expect([written(withQuorum(true)), written(withQuorum(false))]).toEqual([['a'], []]);
});

it('a node whose pods are not listed may have one, and they are listed first; one without a member waits for no list of members', () => {
  const made = withQuorum(true, { pods: new Map() });
  expect([written(made), made.lookUps.map(({ metadata }) => metadata.name)]).toEqual([[], ['a']]);
  expect(written(withQuorum(true, { memberPods: new Map() }))).toEqual([]);
  expect(written(withQuorum(true, { memberPods: new Map() }, [aMember('other', 'b')]))).toEqual(['a']);
});

it('a node with a static pod of a quorum that cannot be counted does not get it', () => {
  expect(written(withQuorum(true, {}, [...MEMBERS, aStaticMember('db-static', 'a')]))).toEqual([]);
});

const MANY = ['a', 'b', 'c', 'd', 'e'];
const AT_ONCE = { concurrency: { maxUpdating: 2 } };

it('one node gets it first, and the condition of the group says why the others wait', () => {
  const made = planOf(
    MANY.map((name) => waiting(name)),
    { spec: AT_ONCE },
  );
  expect(written(made)).toEqual(['a']);
  const [group] = made.groups;
  if (group === undefined) throw new Error('there is a group');
  expect(metadataApplied(group)).toMatchObject({
    status: 'False',
    reason: 'Applying',
    message: expect.stringContaining('Waiting: b: a gets its taints that evict pods first') as string,
  });
});

it('the others wait until the first has been Ready with it for a minute, and then go within the limits', () => {
  const others = ['b', 'c', 'd', 'e'].map((name) => waiting(name));
  expect(written(planOf([tainted('a', MINUTE - 1), ...others], { spec: AT_ONCE }))).toEqual([]);
  expect(written(planOf([tainted('a', MINUTE, false), ...others], { spec: AT_ONCE }))).toEqual([]);
  expect(written(planOf([tainted('a', MINUTE), ...others], { spec: AT_ONCE }))).toEqual(['b', 'c']);
  expect(written(planOf([tainted('a', MINUTE), ...others]))).toEqual(['b']);
  const half = [tainted('a', MINUTE), tainted('b', 1_000), waiting('c')];
  expect(written(planOf(half))).toEqual([]);
  expect(written(planOf(half, { spec: AT_ONCE }))).toEqual(['c']);
});

it.each([
  ['whose write is rejected', { rejection: 'denied' }],
  ['that another writer changes back', { rejection: undefined, isChangedBack: true }],
])('a Node %s is tried last, and keeps no slot from the others', (_, found) => {
  const nodes = ['a', 'b', 'c'].map((name) => waiting(name));
  const uid = nodes[0]?.node?.metadata.uid ?? '';
  const metadataNotes = new Map([[uid, { conflicts: [], ...found, checkAt: NOW + MINUTE }]]);
  const world = { snapshot: { metadataNotes } };
  expect(written(planOf(nodes, world))).toEqual(['b']);
  expect(written(planOf([...nodes.slice(0, 1), tainted('b', MINUTE), waiting('c')], world))).toEqual(['c']);
  expect(written(planOf([...nodes.slice(0, 1), tainted('b', 2 * MINUTE), tainted('c', MINUTE)], world))).toEqual(['a']);
});

it('a node that is not Ready soon after it got it stops the others for ten minutes', () => {
  const nodes = (ms: number): ManagedNode[] => [tainted('a', 20 * MINUTE), tainted('b', ms, false), waiting('c')];
  expect(written(planOf(nodes(5 * MINUTE), { spec: AT_ONCE }))).toEqual([]);
  expect(written(planOf(nodes(10 * MINUTE), { spec: AT_ONCE }))).toEqual(['c']);
});

function leftOut(managedNode: ManagedNode): ManagedNode {
  const { node } = managedNode;
  if (node === undefined) throw new Error('there is a Node');
  const annotations = { ...node.metadata.annotations, [SKIP_ANNOTATION]: 'true' };
  return { ...managedNode, node: { ...node, metadata: { ...node.metadata, annotations } } };
}

it('if the first one goes off with it, another one is tried after ten minutes, or once a user leaves the first out', () => {
  const off = (name: string, ms: number): ManagedNode => tainted(name, ms, false);
  const others = [waiting('b'), waiting('c')];
  expect(written(planOf([off('a', 5 * MINUTE), ...others]))).toEqual([]);
  expect(written(planOf([off('a', 10 * MINUTE), ...others]))).toEqual(['b']);
  expect(written(planOf([leftOut(off('a', 5 * MINUTE)), ...others]))).toEqual(['b']);
});

it('a node that is off gets it after those that are Ready, as it proves nothing', () => {
  expect(written(planOf([waiting('a', { ready: false }), waiting('b'), waiting('c')]))).toEqual(['b']);
});

it('if two go off with it and none has proved it, no other one gets it until a user leaves them out', () => {
  const two = [tainted('a', 50 * MINUTE, false), tainted('b', 10 * MINUTE, false)];
  const made = planOf([...two, waiting('c')]);
  const [metadata] = made.groups.map((group) => metadataApplied(group));
  expect(written(made)).toEqual([]);
  expect(metadata?.message).toContain('c: a, b got its taints that evict pods first, and have not been Ready since');
  expect(written(planOf([...two.map(leftOut), waiting('c')]))).toEqual(['c']);
  expect(written(planOf([...two, tainted('d', MINUTE), waiting('c')]))).toEqual(['c']);
});

it.each<readonly [string, World, NodeParts]>([
  ['during a pause', { spec: { paused: true } }, {}],
  ['outside of the windows', { spec: { maintenance: { windows: [{ schedule: '0 1 1 1 *', duration: '1h' }] } } }, {}],
  ['while the clock is wrong', { snapshot: { clockSkewMs: 3_600_000 } }, {}],
  ['on a node that a user has left out', {}, { annotations: { [SKIP_ANNOTATION]: 'true' } }],
])('no node gets it %s', (_, world, node) => {
  expect(written(planOf([waiting('a', node)], world))).toEqual([]);
});

it('taints that evict nothing, and the removal of one that does, wait for nothing', () => {
  expect(
    written(
      planOf(
        MANY.map((name) => waiting(name)),
        { effect: 'NoSchedule', spec: { paused: true } },
      ),
    ),
  ).toEqual(MANY);
  const left = tainted('a', MINUTE);
  const made = planOf([left], { effect: 'NoSchedule', spec: { paused: true } });
  expect(written(made)).toEqual(['a']);
});

it('a node that has just got it holds a slot, so no update starts meanwhile', () => {
  const outdated = aManagedNode('z');
  const started = (ms: number): number => planOf([tainted('a', ms), outdated]).specs.length;
  expect([started(1_000), started(MINUTE)]).toEqual([0, 1]);
});

describe('since when a node has them', () => {
  const [made] = withGroups(aSnapshot([waiting('a')]), [groupWith()]).managedNodes;
  const { group } = made ?? {};
  const node = { ...aNode({ name: 'a' }), taints: [TAINT] };
  const at = (ms: number) => instantAt(NOW + ms);
  const since = (memory: NodeMemory): number | undefined => memory.evictedSince({ node, group }, at(MINUTE));

  it('is when this process saw it, until the Node has them no more', () => {
    const memory = new NodeMemory();
    memory.node('a', { ...node, taints: [] }, undefined, at(0));
    expect(since(memory)).toBeUndefined();
    memory.node('a', node, undefined, at(1));
    memory.node('a', node, undefined, at(2));
    expect(since(memory)).toBe(NOW + 1);
    memory.node('a', { ...node, taints: [] }, undefined, at(3));
    expect(since(memory)).toBeUndefined();
  });

  it('does not change with the labels and annotations that a kubelet writes, and concerns no taint of another writer', () => {
    const memory = new NodeMemory();
    memory.node('a', node, undefined, at(1));
    memory.node('a', { ...node, metadata: { ...node.metadata, labels: {} } }, undefined, at(2));
    expect(memory.evictedSince({ node, group: undefined }, at(MINUTE))).toBeUndefined();
    const more = [{ key: 'node.kubernetes.io/not-ready', effect: 'NoExecute' }, TAINT];
    memory.node('a', { ...node, taints: more }, undefined, at(3));
    expect(since(memory)).toBe(NOW + 1);
    memory.node('a', { ...node, taints: [{ ...TAINT, value: 'web' }] }, undefined, at(4));
    expect(since(memory)).toBeUndefined();
  });
});
