import type { Order } from '@brupop/shared/api/config-spec';
import { PRIORITY_ANNOTATION } from '@brupop/shared/api/names';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { ago, aManagedNode, aNode, aShadow, aSnapshot, MINUTE, NEW, NOW, POLICY } from '../testing/objects.ts';
import type { Candidate } from './facts/reasons.ts';
import { inOrder } from './gates/admission.ts';
import { wholePlan as plan } from '../whole-plan.ts';

interface Parts {
  readonly priority?: string;
  readonly bootTime?: string;
  readonly cancelled?: number;
  readonly startedMs?: number;
  readonly endedByConfig?: boolean;
  readonly former?: ManagedNode['former'];
}

function candidate(
  name: string,
  { priority, bootTime, cancelled, startedMs, endedByConfig = false, former }: Parts,
  version = NEW,
): Candidate {
  const node = aNode({ name, annotations: priority === undefined ? {} : { [PRIORITY_ANNOTATION]: priority } });
  const record = {
    ...(cancelled !== undefined && { unsuccessful: cancelled }),
    ...(startedMs !== undefined && { startedAt: ago(startedMs) }),
    ...(endedByConfig && { endedByConfigAt: ago(0) }),
  };
  const shadow = aShadow({ node: name, record, status: bootTime === undefined ? {} : { bootTime } });
  const { status } = shadow;
  if (status === undefined) throw new Error('it has one');
  const rules = { group: undefined, policy: POLICY };
  return {
    isRollback: false,
    isReboot: false,
    name,
    missingSince: NOW,
    former,
    node,
    shadow,
    status,
    version,
    ...rules,
  };
}

const sorted = (parts: Readonly<Record<string, Parts>>, order: Order = 'Name', version = NEW): string[] =>
  inOrder(
    Object.entries(parts).map(([name, one]) => ({ ...candidate(name, one, version), policy: { ...POLICY, order } })),
    { ownNode: 'own', now: NOW },
  ).map(({ node }) => node.metadata.name);

const orders: Record<string, [string[], string[]]> = {
  'nodes are ordered by name': [sorted({ c: {}, a: {}, b: {} }), ['a', 'b', 'c']],
  'a node with a higher priority goes first, and a missing priority is 0': [
    sorted({ a: { priority: '-1' }, b: {}, c: { priority: '10' }, d: { priority: '9' } }),
    ['c', 'd', 'b', 'a'],
  ],
  'a priority that is not an integer counts as missing': [
    sorted({ b: { priority: 'high' }, a: { priority: '1e9' }, c: { priority: '1' } }),
    ['c', 'a', 'b'],
  ],
  'a node that had an attempt goes behind all nodes that had none, also with a higher priority': [
    sorted({ a: { priority: '9', startedMs: MINUTE }, b: {}, c: { startedMs: 5 * MINUTE } }),
    ['b', 'c', 'a'],
  ],
  'a node that had an attempt goes behind others also after its shadow was deleted': [
    sorted({ a: { priority: '9', former: { startedAt: NOW - MINUTE, slotUntil: NOW } }, b: {} }),
    ['b', 'a'],
  ],
  'an attempt more than 24 hours ago or in the future does not count': [
    sorted({ a: { startedMs: 24 * 60 * MINUTE }, b: { startedMs: -60 * MINUTE }, c: {} }),
    ['a', 'b', 'c'],
  ],
  'priority goes before failures': [sorted({ a: {}, b: { priority: '1', cancelled: 3 } }), ['b', 'a']],
  'a node with fewer failures goes first': [sorted({ a: { cancelled: 1 }, b: {} }), ['b', 'a']],
  'the node of the controller goes last, whatever its priority': [
    sorted({ own: { priority: '100' }, z: { cancelled: 1 } }),
    ['z', 'own'],
  ],
  'the node of the controller goes before nodes that had an attempt': [
    sorted({ own: {}, z: { startedMs: MINUTE } }),
    ['own', 'z'],
  ],
  'an attempt that a pause or the end of a window ended does not count': [
    sorted({ a: {}, z: { priority: '9', startedMs: MINUTE, endedByConfig: true } }),
    ['z', 'a'],
  ],
  'OldestBoot: the node that booted first goes first': [
    sorted({ a: { bootTime: ago(1_000) }, b: { bootTime: ago(9_000) }, c: {} }, 'OldestBoot'),
    ['b', 'a', 'c'],
  ],
};
test.each(Object.entries(orders))('%s', (_, [found, expected]) => expect(found).toEqual(expected));

test('a random order is the same for the same version, and another one for another', () => {
  const many = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`node-${i}`, {}]));
  const once = sorted(many, 'Random');
  expect(sorted(Object.fromEntries(Object.entries(many).toReversed()), 'Random')).toEqual(once);
  expect(sorted(many, 'Random', '1.22.0')).not.toEqual(once);
  expect(once.toSorted()).toEqual(Object.keys(many).toSorted());
  expect(once).not.toEqual(sorted(many));
});

test.each([
  ['First', ['c', 'a', 'b']],
  ['Last', ['a', 'b', 'c']],
])(
  'nodes with a condition of spec.health.conditions go %s if the configuration says so',
  (unhealthyNodes, expected) => {
    const nodes = [aManagedNode('a'), aManagedNode('b'), aManagedNode('c', { conditions: ['DiskPressure'] })];
    const spec = { health: { unhealthyNodes }, concurrency: { maxUpdating: 3 } };
    const started = plan(aSnapshot(nodes, spec), NOW).specs.map(({ node }) => node.metadata.name);
    expect(started).toHaveLength(3);
    const one = plan(aSnapshot(nodes, { ...spec, concurrency: { maxUpdating: 1 } }), NOW);
    expect([...one.specs.map(({ node }) => node.metadata.name), ...one.forecast.queue.map(({ node }) => node)]).toEqual(
      expected,
    );
  },
);
