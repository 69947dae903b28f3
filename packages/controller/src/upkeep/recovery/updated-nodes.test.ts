import type { NodeRecord } from '@brupop/shared/api/record';
import type { ReflectorEvent } from '@brupop/shared/kube/reflector';
import type { ShadowView } from '../../cluster/shadow.ts';
import { aManagedNode, aNode, aShadow, POLICY, type ShadowParts, underWay } from '../../testing/objects.ts';
import { isBack, succeededIn, UpdatedNodes } from './updated-nodes.ts';

const monitored = (name: string, ready = true) => ({
  ...aManagedNode(name),
  name,
  node: aNode({ name, ready }),
  shadow: aShadow({ spec: underWay('MonitoringUpdate') }),
  policy: POLICY,
});
const names = Array.from({ length: 25 }, (_, index) => `node-${String(index).padStart(2, '0')}`);
const all = names.map((name) => monitored(name));
const namesOf = (nodes: readonly { readonly name: string }[]): string[] => nodes.map(({ name }) => name);

it('each node is looked at in its turn, at most ten in a run, also when the first ones never are back', () => {
  const nodes = new UpdatedNodes();
  const runs = [1, 2, 3].map(() => namesOf(nodes.next(all, [])));
  expect(runs.map((run) => run.length)).toEqual([10, 10, 10]);
  expect(new Set(runs.flat())).toEqual(new Set(names));
});

it('a node is looked at until its window is open, and while it is Ready', () => {
  const nodes = new UpdatedNodes();
  const [one, other] = [monitored('node-a'), monitored('node-b', false)];
  expect(namesOf(nodes.next([one, other], []))).toEqual(['node-a']);
  nodes.opened(one);
  expect(nodes.next([one, other], [])).toEqual([]);
});

it('a node is left for whose attempt a former leader has opened the window', () => {
  const window = {
    kind: 'Node',
    name: 'node-a',
    since: Infinity,
    until: Infinity,
    evicted: 0,
    pods: new Map(),
  } as const;
  expect(new UpdatedNodes().next([monitored('node-a')], [window])).toEqual([]);
});

const unready = (unreadyDaemonSet: string) => ({ unreadyDaemonSet });
const [CNI, OPERATOR, OTHER] = ['kube-system/cni', 'brupop/agent', 'shop/logs'].map(unready);

function pair(ready: boolean, record: NodeRecord = {}, daemonSets: 'Required' | 'Ignored' = 'Required') {
  const shadow = aShadow({ spec: underWay('MonitoringUpdate'), record });
  const policy = { ...POLICY, health: { ...POLICY.health, daemonSets } };
  return { ...aManagedNode('node-a'), node: aNode({ ready }), shadow, policy };
}

it.each([
  ['its DaemonSets are Ready', pair(true), [{}, OTHER ?? {}]],
  ['only those are not that were not before', pair(true, { unreadyBefore: ['kube-system/cni'] }), [CNI ?? {}]],
  ['DaemonSets do not count', pair(true, {}, 'Ignored'), [CNI ?? {}]],
])('a node is back when %s', (_why, one, pods) => {
  expect(isBack(one, pods, 'brupop')).toBe(true);
});

it.each([
  ['it is not Ready', pair(false), []],
  ['a trusted DaemonSet is not Ready', pair(true), [CNI ?? {}]],
  ['the agent of the operator is not Ready', pair(true), [OPERATOR ?? {}]],
])('a node is not back while %s', (_why, one, pods) => {
  expect(isBack(one, pods, 'brupop')).toBe(false);
});

describe('an update', () => {
  const success = (version: string): NodeRecord => ({ succeeded: { version, at: '2026-11-22T10:00:00Z' } });
  const event = (before: ShadowParts, after: ShadowParts): ReflectorEvent<ShadowView> => {
    return { type: 'Modified', old: aShadow(before), object: aShadow(after) };
  };
  const monitored = { spec: underWay('MonitoringUpdate') };

  it('has succeeded when its success is recorded', () => {
    expect(succeededIn(event(monitored, { record: success('1.21.0') }))).toBe('node-a');
  });

  it('has not succeeded when it ends without it', () => {
    expect(succeededIn(event(monitored, {}))).toBeUndefined();
  });

  it('has not just succeeded when the record is an older one', () => {
    const record = success('1.20.0');
    expect(succeededIn(event({ ...monitored, record }, { record }))).toBeUndefined();
  });
});
