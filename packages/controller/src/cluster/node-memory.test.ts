import { CORDONED_ANNOTATION, ZONE_LABEL } from '@brupop/shared/api/names';
import type { Instant } from '@brupop/shared/runtime/clock';
import { ago, aGroup, aNode, aShadow, instantAt, MINUTE, NOW } from '../testing/objects.ts';
import { readNodeGroups } from '../policy/node-groups.ts';
import { readPolicy } from '../policy/policy.ts';
import { zoneOf } from './node.ts';
import { NodeMemory } from './node-memory.ts';

const HOUR = 60 * MINUTE;
const LATER = instantAt(NOW + 26 * HOUR);
const inZone = (zone: string, uid = 'uid-a') => aNode({ name: 'a', uid, labels: { [ZONE_LABEL]: zone } });
const cordoned = aNode({ name: 'a', unschedulable: true });
const young = aShadow({ node: 'a', creationTimestamp: ago(0) });

describe('the zone of a Node', () => {
  it('is the zone in which the Node was first observed', () => {
    const memory = new NodeMemory();
    memory.node('a', aNode({ name: 'a' }), undefined, instantAt(NOW));
    memory.node('a', inZone('x'), undefined, instantAt(NOW));
    memory.node('a', inZone('y'), undefined, instantAt(NOW));
    expect(zoneOf(memory.asObserved(inZone('y')))).toBe('x');
    expect(zoneOf(memory.asObserved(inZone('y', 'another')))).toBe('y');
  });
});

describe('the time under a cordon', () => {
  it('adds up over several cordons', () => {
    const memory = new NodeMemory();
    memory.node('a', cordoned, young, instantAt(NOW));
    memory.node('a', aNode({ name: 'a' }), young, instantAt(NOW + 10 * HOUR));
    expect(memory.of('a', LATER).cordonedSince).toBeUndefined();
    memory.node('a', cordoned, young, instantAt(NOW + 11 * HOUR));
    expect(memory.of('a', LATER).cordonedSince).toBe(NOW + HOUR);
  });

  it('restarts after a day without a cordon', () => {
    const memory = new NodeMemory();
    memory.node('a', cordoned, young, instantAt(NOW));
    memory.node('a', aNode({ name: 'a' }), young, instantAt(NOW + HOUR));
    memory.node('a', cordoned, young, instantAt(NOW + 25 * HOUR));
    expect(memory.of('a', LATER).cordonedSince).toBe(NOW + 25 * HOUR);
  });

  it('continues after a kubelet deletes and registers its Node again', () => {
    const memory = new NodeMemory();
    memory.node('a', cordoned, young, instantAt(NOW));
    memory.node('a', undefined, young, instantAt(NOW + HOUR));
    memory.node('a', cordoned, young, instantAt(NOW + HOUR));
    expect(memory.of('a', LATER).cordonedSince).toBe(NOW);
  });

  it('excludes the cordon of an update', () => {
    const memory = new NodeMemory();
    const ours = aNode({ name: 'a', unschedulable: true, annotations: { [CORDONED_ANNOTATION]: ago(0) } });
    memory.node('a', ours, aShadow({ node: 'a', spec: { state: 'RebootedIntoUpdate' } }), instantAt(NOW));
    expect(memory.of('a', LATER).cordonedSince).toBeUndefined();
    memory.node('a', ours, young, instantAt(NOW));
    expect(memory.of('a', LATER).cordonedSince).toBe(NOW);
  });
});

describe('a shadow', () => {
  const updated = aShadow({
    node: 'a',
    record: { startedAt: ago(MINUTE), rebootRequestedAt: ago(0) },
  });

  it('is new if the process observed its creation', () => {
    const memory = new NodeMemory();
    expect(memory.of('a', LATER).former).toBeUndefined();
    memory.shadowAdded('a', aNode({ name: 'a' }), instantAt(NOW));
    expect(memory.of('a', LATER).former?.slotUntil).toBe(NOW);
  });

  it('may have been recreated if the Node has the operator’s cordon', () => {
    const memory = new NodeMemory();
    memory.shadowAdded('a', aNode({ name: 'a', annotations: { [CORDONED_ANNOTATION]: ago(0) } }), instantAt(NOW));
    expect(memory.of('a', LATER).former).toBeUndefined();
  });

  it('holds a slot for at most an hour after its deletion during an update, also if its successors are deleted', () => {
    const memory = new NodeMemory();
    memory.shadowDeleted('a', updated, instantAt(NOW));
    for (const minutes of [10, 20, 30]) {
      memory.shadowAdded('a', aNode({ name: 'a' }), instantAt(NOW + minutes * MINUTE));
      memory.shadowDeleted('a', young, instantAt(NOW + (minutes + 5) * MINUTE));
    }
    expect(memory.of('a', LATER).former).toEqual({ startedAt: NOW - MINUTE, slotUntil: NOW + HOUR });
  });
});

it('the settings of a host count from when they were seen, and not again while nothing changes', () => {
  const memory = new NodeMemory();
  const applied = { hash: 'a1', time: ago(HOUR) };
  const shadow = (settings: object) => aShadow({ node: 'a', status: { settings } });
  memory.settings('a', shadow({ lastApplied: applied, inFlight: applied }), instantAt(NOW));
  memory.settings('a', shadow({ lastApplied: applied }), instantAt(NOW + MINUTE));
  memory.settings('a', shadow({ lastApplied: applied, conflicts: ['settings.motd'] }), instantAt(NOW + 2 * MINUTE));
  expect(memory.of('a', LATER).settingsSince).toBe(NOW + MINUTE);
});

describe('a clock that is hours ahead at the start of the process, and is set back', () => {
  const AHEAD = 6 * HOUR;
  const early: Instant = { wall: NOW + AHEAD, monotonic: 0 };
  const corrected: Instant = { wall: NOW + MINUTE, monotonic: MINUTE };
  const taint = { key: 'example.com/dedicated', value: 'gpu', effect: 'NoExecute' } as const;
  const dropped = { labels: [], annotations: [], taints: [] };
  const rendered = { generation: 1, conflicts: 'Respect', labels: {}, annotations: {}, settings: {}, dropped } as const;
  const made = { ...aGroup('gpu'), status: { rendered: { ...rendered, taints: [taint] } } };
  const [group] = readNodeGroups([made], readPolicy(undefined));

  it('changes neither since when a node is cordoned, nor since when it has a taint', () => {
    const memory = new NodeMemory();
    const node = { ...aNode({ name: 'a', unschedulable: true }), taints: [taint] };
    memory.node('a', node, young, early);
    expect(memory.of('a', corrected)).toMatchObject({ cordonedSince: NOW });
    expect(memory.evictedSince({ node, group }, corrected)).toBe(NOW);
  });

  it('changes nothing of since when a shadow is missing', () => {
    const memory = new NodeMemory();
    memory.missing('a', true, early);
    expect(memory.of('a', corrected).missingSince).toBe(NOW);
  });

  it('does not let a new shadow hold a slot', () => {
    const memory = new NodeMemory();
    memory.shadowAdded('b', aNode({ name: 'b' }), early);
    expect(memory.of('b', corrected).former?.slotUntil).toBe(NOW);
  });
});
