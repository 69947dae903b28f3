import type { NodeRecord } from '@brupop/shared/api/record';
import type { ReflectorEvent } from '@brupop/shared/kube/reflector';
import type { ShadowView } from '../../cluster/shadow.ts';
import { aManagedNode, aNode, aShadow, POLICY, type ShadowParts, underWay } from '../../testing/objects.ts';
import { isBack, succeededIn } from './nodes.ts';

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
