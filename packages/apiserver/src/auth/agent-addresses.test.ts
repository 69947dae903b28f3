import type { Listener } from '@brupop/shared/kube/reflector';
import { AgentAddresses } from './agent-addresses.ts';
import { type AgentPod, slimAgentPod } from './agent-pods.ts';

const daemonSet = { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'brupop-agent', uid: 'o', controller: true };

interface Given {
  readonly uid: string;
  readonly nodeName: string;
  readonly ips: readonly string[];
  readonly phase?: string;
  readonly owner?: object;
}

function pod({ uid, nodeName, ips, phase = 'Running', owner = daemonSet }: Given): AgentPod {
  const labels = { 'brupop.bottlerocket.aws/component': 'brupop-agent' };
  const metadata = { name: uid, namespace: 'brupop', uid, resourceVersion: '1', labels, ownerReferences: [owner] };
  return slimAgentPod({ metadata, spec: { nodeName }, status: { phase, podIPs: ips.map((ip) => ({ ip })) } }, 'brupop');
}

function setUp(): { emit: Listener<AgentPod>; at: (address: string) => string | undefined } {
  const listeners: Listener<AgentPod>[] = [];
  const subscribe = (listener: Listener<AgentPod>) => {
    listeners.push(listener);
    return () => undefined;
  };
  const addresses = new AgentAddresses({ subscribe });
  const emit: Listener<AgentPod> = (event) => listeners.forEach((listener) => listener(event));
  return { emit, at: (address) => addresses.nodesAt(address) };
}

const one = pod({ uid: 'a', nodeName: 'node-a', ips: ['10.0.1.5', 'fd00::5'] });

it('returns the node of each address of an agent', () => {
  const { emit, at } = setUp();
  emit({ type: 'Added', object: one });
  expect(['10.0.1.5', 'fd00::5', '10.0.1.6'].map(at)).toEqual(['node-a', 'node-a', undefined]);
});

it('forgets the addresses that a pod no longer has, and those of a deleted pod', () => {
  const { emit, at } = setUp();
  const changed = pod({ uid: 'a', nodeName: 'node-a', ips: ['10.0.1.6'] });
  emit({ type: 'Added', object: one });
  emit({ type: 'Modified', object: changed, old: one });
  expect(['10.0.1.5', '10.0.1.6'].map(at)).toEqual([undefined, 'node-a']);
  emit({ type: 'Deleted', object: changed });
  expect(at('10.0.1.6')).toBeUndefined();
});

it('returns all nodes whose pods report the same address', () => {
  const { emit, at } = setUp();
  const claim = pod({ uid: 'b', nodeName: 'node-b', ips: ['10.0.1.5'] });
  emit({ type: 'Added', object: one });
  emit({ type: 'Added', object: claim });
  expect(at('10.0.1.5')).toBe('node-a node-b');
  emit({ type: 'Deleted', object: claim });
  expect(at('10.0.1.5')).toBe('node-a');
});

it.each<readonly [string, Partial<Given>]>([
  ['of another workload', { owner: { ...daemonSet, name: 'other' } }],
  ['that a kubelet created itself', { owner: { ...daemonSet, apiVersion: 'v1', kind: 'Node' } }],
  ['that has terminated', { phase: 'Failed' }],
])('ignores the addresses of a pod %s', (_what, more) => {
  const { emit, at } = setUp();
  emit({ type: 'Added', object: pod({ uid: 'a', nodeName: 'node-a', ips: ['10.0.1.5'], ...more }) });
  expect(at('10.0.1.5')).toBeUndefined();
});

it('uses at most two addresses of a pod', () => {
  const { emit, at } = setUp();
  const ips = Array.from({ length: 5 }, (_, index) => `10.0.1.${index}`);
  emit({ type: 'Added', object: pod({ uid: 'a', nodeName: 'node-a', ips }) });
  expect(ips.filter((ip) => at(ip) !== undefined)).toHaveLength(2);
});
