import type { ObjectMeta } from '../api/meta.ts';
import { isAgentPod, isReplica } from './operator-pods.ts';

function metadata(component: string, owner: object = {}, namespace = 'brupop'): ObjectMeta {
  const whole = { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'brupop-agent', uid: 'o', controller: true };
  return {
    name: 'x',
    uid: 'u',
    resourceVersion: '1',
    namespace,
    labels: { 'brupop.bottlerocket.aws/component': component },
    ownerReferences: [{ ...whole, ...owner }],
  };
}

describe('a pod of the agents', () => {
  it('is one that their DaemonSet controls', () => {
    expect(isAgentPod(metadata('brupop-agent'), 'brupop')).toBe(true);
  });

  it.each<[string, ObjectMeta]>([
    ['without an owner', { ...metadata('brupop-agent'), ownerReferences: [] }],
    ['without its label', { ...metadata('brupop-agent'), labels: {} }],
    ['of another DaemonSet', metadata('brupop-agent', { name: 'other' })],
    ['of a Node, as a mirror pod', metadata('brupop-agent', { apiVersion: 'v1', kind: 'Node', name: 'node-1' })],
    ['of another kind of that name', metadata('brupop-agent', { apiVersion: 'x.io/v1' })],
    ['of a ReplicaSet of that name', metadata('brupop-agent', { kind: 'ReplicaSet' })],
    ['whose owner is not its controller', metadata('brupop-agent', { controller: false })],
    ['in another namespace', metadata('brupop-agent', {}, 'apps')],
  ])('is not one %s', (_what, found) => {
    expect(isAgentPod(found, 'brupop')).toBe(false);
  });
});

describe('a replica of the operator', () => {
  const owner = { kind: 'ReplicaSet', name: 'brupop-controller-6d5f' };

  it('is one that a ReplicaSet of its Deployment controls', () => {
    expect(isReplica(metadata('brupop-controller', owner), 'brupop')).toBe(true);
  });

  it.each<[string, ObjectMeta]>([
    ['with the label alone', { ...metadata('brupop-controller'), ownerReferences: [] }],
    ['of the other Deployment', metadata('brupop-apiserver', owner)],
    ['of another ReplicaSet', metadata('brupop-controller', { ...owner, name: 'web-1' })],
    ['in another namespace', metadata('brupop-controller', owner, 'apps')],
  ])('is not one %s', (_what, found) => {
    expect(isReplica(found, 'brupop')).toBe(false);
  });
});
