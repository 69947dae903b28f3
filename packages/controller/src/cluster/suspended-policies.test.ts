import { aManagedNode, aNode, MINUTE, NOW, POLICY } from '../testing/objects.ts';
import { ZONE_LABEL } from '@brupop/shared/api/names';
import { CONNECTED, type Connectivity } from './connectivity.ts';
import type { ManagedNode } from './snapshot.ts';
import { SuspendedPolicies } from './suspended-policies.ts';

const inZone = (name: string, zone: string): ManagedNode => ({
  ...aManagedNode(name),
  node: aNode({ name, labels: { [ZONE_LABEL]: zone } }),
});
const NODES = [inZone('a', 'east'), inZone('b', 'west')];
const lostUntil = (ms: number, lost = false): Connectivity => ({ ...CONNECTED, lost, lostUntil: ms });

it('leaves the nodes of a fleet that was never lost as they are', () => {
  const { managedNodes, policy } = new SuspendedPolicies().of(NODES, POLICY, CONNECTED);
  expect([managedNodes[0] === NODES[0], managedNodes[1] === NODES[1], policy === POLICY]).toEqual([true, true, true]);
});

it('begins deadlines at the end of a loss, for nodes and for the fleet', () => {
  const { managedNodes, policy } = new SuspendedPolicies().of(NODES, POLICY, lostUntil(NOW, true));
  expect([managedNodes[0]?.policy, policy]).toMatchObject([
    { isSuspended: true, deadlinesFrom: NOW },
    { isSuspended: true, deadlinesFrom: NOW },
  ]);
  expect(managedNodes[0]?.policy).toBe(policy);
});

it('suspends the nodes of a zone that is lost, and no other', () => {
  const zones = new Map([['east', { lost: true, lostUntil: NOW, isOff: true as const }]]);
  const { managedNodes, policy } = new SuspendedPolicies().of(NODES, POLICY, { ...CONNECTED, zones });
  expect(managedNodes[0]?.policy).toMatchObject({ isSuspended: true, isZoneOff: true });
  expect([managedNodes[1] === NODES[1], policy === POLICY]).toEqual([true, true]);
});

it.each<[string, Connectivity, boolean]>([
  ['the same loss, computed anew', lostUntil(NOW - 0.4), true],
  ['a later loss', lostUntil(NOW + MINUTE), false],
  ['a loss that goes on', lostUntil(NOW, true), false],
])('gives %s the same object only if it is the same', (_, loss, isSame) => {
  const policies = new SuspendedPolicies();
  const [before, after] = [lostUntil(NOW), loss].map((one) => policies.of(NODES, POLICY, one).policy);
  expect(before === after).toBe(isSame);
});
