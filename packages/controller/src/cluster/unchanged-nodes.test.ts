import { aManagedNode, aNode, NOW } from '../testing/objects.ts';
import { UnchangedNodes } from './managed-nodes.ts';
import type { ManagedNode } from './snapshot.ts';

const former = { startedAt: NOW, slotUntil: NOW };
const before: ManagedNode = { ...aManagedNode('a'), former, cordonedSince: NOW };

function isRecognised(changes: Partial<ManagedNode>): boolean {
  const nodes = new UnchangedNodes();
  nodes.recognised([before]);
  return nodes.recognised([{ ...before, ...changes }])[0] === before;
}

it.each<[string, Partial<ManagedNode>]>([
  ['with nothing new', {}],
  ['whose times are computed anew', { missingSince: NOW + 1, cordonedSince: NOW - 1 }],
  ['whose former shadow is read anew', { former: { ...former, slotUntil: NOW + 999 } }],
])('recognises a node %s', (_, changes) => expect(isRecognised(changes)).toBe(true));

it.each<[string, Partial<ManagedNode>]>([
  ['Node', { node: aNode({ name: 'a' }) }],
  ['shadow', { shadow: undefined }],
  ['policy', { policy: { ...before.policy } }],
  ['time of its cordon', { cordonedSince: NOW + 1_000 }],
  ['end of its cordon', { cordonedSince: undefined }],
  ['former shadow', { former: undefined }],
  ['Lease', { leaseExpired: true }],
  ['rejection', { writeRejection: '403' }],
])('takes a node with another %s for changed', (_, changes) => expect(isRecognised(changes)).toBe(false));

it('forgets a node that is gone', () => {
  const nodes = new UnchangedNodes();
  nodes.recognised([before]);
  nodes.recognised([]);
  expect(nodes.recognised([{ ...before }])[0]).not.toBe(before);
});
