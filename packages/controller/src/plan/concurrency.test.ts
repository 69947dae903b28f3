import { CORDONED_ANNOTATION, MANAGED_LABEL, ZONE_LABEL } from '@brupop/shared/api/names';
import type { ManagedNode } from '../cluster/snapshot.ts';
import {
  ago,
  aManagedNode,
  aSnapshot,
  MINUTE,
  NEW,
  type NodeParts,
  NOW,
  type ShadowParts,
  underWay,
} from '../testing/objects.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const names = ['a', 'b', 'c', 'd', 'e', 'f'];
/** Six nodes that wait, but for what is said of some. */
const fleet = (parts: Readonly<Record<string, [NodeParts, ShadowParts?]>>): ManagedNode[] =>
  names.map((name) => aManagedNode(name, ...(parts[name] ?? [])));
const planOf = (managedNodes: readonly ManagedNode[], concurrency: object): Plan =>
  plan(aSnapshot(managedNodes, { concurrency }), NOW);
const changed = ({ specs }: Plan, which: string): string[] =>
  specs.filter(({ outcome }) => outcome === which).map(({ node }) => node.metadata.name);
const started = (made: Plan): string[] => changed(made, 'Started');
const reasonOf = ({ conditions }: Plan, name: string): string | undefined =>
  conditions.flat().find(({ node }) => node.metadata.name === name)?.progressing.reason;
const inZone = (zone: string): [NodeParts] => [{ labels: { [ZONE_LABEL]: zone } }];
const updating: ShadowParts = { spec: underWay('StagedAndPerformedUpdate'), status: { current_state: 'Idle' } };
const staged: ShadowParts = { spec: underWay('StagedAndPerformedUpdate') };
const notReady: NodeParts = { ready: false };

describe('maxUnavailable', () => {
  const most = { maxUpdating: 6, maxUnavailable: 2 };

  it('lets as many nodes start as it allows', () => {
    expect(started(planOf(fleet({}), most))).toEqual(['a', 'b']);
  });

  it.each<[string, NodeParts]>([
    ['a node that is not Ready', notReady],
    ['a node that another actor has cordoned', { unschedulable: true }],
    ['a node that is being deleted', { deletionTimestamp: ago(0) }],
  ])('counts %s', (_, parts) => {
    const made = planOf(fleet({ f: [parts] }), most);
    expect(started(made)).toEqual(['a']);
    expect(reasonOf(made, 'b')).toBe('MaxUnavailableReached');
  });

  it('counts a node that updates and is not Ready for that once', () => {
    expect(started(planOf(fleet({ f: [notReady, updating] }), most))).toEqual(['a']);
  });

  it('does not count nodes that are not managed, nor those that the selector leaves out', () => {
    const others = fleet({ e: [{ ...notReady, managed: false }], f: [{ ...notReady, labels: { pool: 'x' } }] });
    const nodeSelector = { matchExpressions: [{ key: 'pool', operator: 'DoesNotExist' }] };
    expect(started(plan(aSnapshot(others, { concurrency: most, nodeSelector }), NOW))).toEqual(['a', 'b']);
  });

  it('rounds a percentage down, but allows at least one node', () => {
    expect(started(planOf(fleet({}), { maxUpdating: 6, maxUnavailable: '49%' }))).toEqual(['a', 'b']);
    expect(started(planOf(fleet({}), { maxUpdating: 6, maxUnavailable: '1%' }))).toEqual(['a']);
  });

  it('by default counts no other reasons', () => {
    expect(started(planOf(fleet({ e: [notReady], f: [notReady] }), { maxUpdating: 2 }))).toEqual(['a', 'b']);
  });

  it('lets a staged node be drained while the limit is not exceeded', () => {
    expect(changed(planOf(fleet({ e: [{}, staged], f: [notReady] }), most), 'Advanced')).toEqual(['e']);
  });

  it('defers a staged node when others have become unavailable', () => {
    const made = planOf(fleet({ d: [notReady], e: [{}, staged], f: [notReady] }), most);
    expect(changed(made, 'Deferred')).toEqual(['e']);
  });

  it('leaves nodes alone that are past their staging', () => {
    const draining = { spec: underWay('RebootedIntoUpdate'), status: { current_state: 'Idle' } } as const;
    expect(planOf(fleet({ d: [notReady], e: [{}, draining], f: [notReady] }), most).specs).toEqual([]);
  });
});

describe('zones', () => {
  const zones = { a: inZone('x'), b: inZone('x'), c: inZone('y'), d: inZone('y'), e: inZone('z'), f: inZone('z') };

  it('have a limit each', () => {
    const made = planOf(fleet(zones), { maxUpdating: 6, maxPerZone: 1 });
    expect(started(made)).toEqual(['a', 'c', 'e']);
    expect(reasonOf(made, 'b')).toBe('WaitingForZone');
  });

  it('count nodes that are unavailable for other reasons', () => {
    const broken = fleet({ ...zones, b: [{ ...zones.b[0], ready: false }] });
    expect(started(planOf(broken, { maxUpdating: 6, maxPerZone: 1 }))).toEqual(['c', 'e']);
  });

  it('are limited in number', () => {
    expect(started(planOf(fleet(zones), { maxUpdating: 6, maxZones: 1 }))).toEqual(['a', 'b']);
    expect(started(planOf(fleet(zones), { maxUpdating: 6, maxZones: 2 }))).toEqual(['a', 'b', 'c', 'd']);
  });

  it('go on with the zone in which nodes are updating', () => {
    const busy = fleet({ ...zones, e: [zones.e[0], updating] });
    expect(started(planOf(busy, { maxUpdating: 6, maxZones: 1 }))).toEqual(['f']);
  });

  it('that have no name are one', () => {
    expect(started(planOf(fleet({}), { maxUpdating: 6, maxPerZone: 2 }))).toEqual(['a', 'b']);
  });
});

test('a node that has lost its label while it updates still holds a slot', () => {
  const cordon = { [CORDONED_ANNOTATION]: ago(0) };
  const released: NodeParts = { managed: false, unschedulable: true, annotations: cordon };
  const record = { rebootRequestedAt: ago(MINUTE) };
  const ended = { record, spec: { state_transition_timestamp: ago(0) } };
  const made = planOf(fleet({ f: [released, ended] }), { maxUpdating: 1 });
  expect(made.counts.managed).toBe(5);
  expect(fleet({ f: [released] })[5]?.node?.metadata.labels?.[MANAGED_LABEL]).toBeUndefined();
  expect(started(made)).toEqual([]);
});

describe('a cordon by another actor', () => {
  const cordonedFor = (ms: number): string[] => {
    const nodes = fleet({ f: [{ unschedulable: true }, { status: { current_version: NEW } }] });
    const since = nodes.map((one) => (one.name === 'f' ? { ...one, cordonedSince: NOW - ms } : one));
    return started(planOf(since, { maxUpdating: 6, maxUnavailable: 1 }));
  };

  it('counts for 24 hours', () => {
    expect(cordonedFor(24 * 60 * MINUTE - 1)).toEqual([]);
  });

  it('does not stop the fleet indefinitely', () => {
    expect(cordonedFor(24 * 60 * MINUTE)).toEqual(['a']);
  });
});
