import {
  CORDONED_ANNOTATION,
  REBOOT_REQUESTED_ANNOTATION,
  UPDATE_STARTED_ANNOTATION,
  ZONE_LABEL,
} from '@brupop/shared/api/names';
import { ago, aNode, aShadow, MINUTE, NOW } from '../testing/objects.ts';
import { zoneOf } from './node.ts';
import { NodeMemory } from './node-memory.ts';

const HOUR = 60 * MINUTE;
const inZone = (zone: string, uid = 'uid-a') => aNode({ name: 'a', uid, labels: { [ZONE_LABEL]: zone } });
const cordoned = aNode({ name: 'a', unschedulable: true });
const young = aShadow({ node: 'a', creationTimestamp: ago(0) });

describe('the zone of a Node', () => {
  it('is the zone in which the Node was first observed', () => {
    const memory = new NodeMemory();
    memory.node('a', aNode({ name: 'a' }), undefined, NOW);
    memory.node('a', inZone('x'), undefined, NOW);
    memory.node('a', inZone('y'), undefined, NOW);
    expect(zoneOf(memory.asObserved(inZone('y')))).toBe('x');
    expect(zoneOf(memory.asObserved(inZone('y', 'another')))).toBe('y');
  });
});

describe('the time under a cordon', () => {
  it('adds up over several cordons', () => {
    const memory = new NodeMemory();
    memory.node('a', cordoned, young, NOW);
    memory.node('a', aNode({ name: 'a' }), young, NOW + 10 * HOUR);
    expect(memory.of('a').cordonedSince).toBeUndefined();
    memory.node('a', cordoned, young, NOW + 11 * HOUR);
    expect(memory.of('a').cordonedSince).toBe(NOW + HOUR);
  });

  it('restarts after a day without a cordon', () => {
    const memory = new NodeMemory();
    memory.node('a', cordoned, young, NOW);
    memory.node('a', aNode({ name: 'a' }), young, NOW + HOUR);
    memory.node('a', cordoned, young, NOW + 25 * HOUR);
    expect(memory.of('a').cordonedSince).toBe(NOW + 25 * HOUR);
  });

  it('continues after a kubelet deletes and registers its Node again', () => {
    const memory = new NodeMemory();
    memory.node('a', cordoned, young, NOW);
    memory.node('a', undefined, young, NOW + HOUR);
    memory.node('a', cordoned, young, NOW + HOUR);
    expect(memory.of('a').cordonedSince).toBe(NOW);
  });

  it('excludes the cordon of an update', () => {
    const memory = new NodeMemory();
    const ours = aNode({ name: 'a', unschedulable: true, annotations: { [CORDONED_ANNOTATION]: ago(0) } });
    memory.node('a', ours, aShadow({ node: 'a', spec: { state: 'RebootedIntoUpdate' } }), NOW);
    expect(memory.of('a').cordonedSince).toBeUndefined();
    memory.node('a', ours, young, NOW);
    expect(memory.of('a').cordonedSince).toBe(NOW);
  });
});

describe('a shadow', () => {
  const updated = aShadow({
    node: 'a',
    annotations: { [UPDATE_STARTED_ANNOTATION]: ago(MINUTE), [REBOOT_REQUESTED_ANNOTATION]: ago(0) },
  });

  it('is new if the process observed its creation', () => {
    const memory = new NodeMemory();
    expect(memory.of('a').former).toBeUndefined();
    memory.shadowAdded('a', aNode({ name: 'a' }), NOW);
    expect(memory.of('a').former?.slotUntil).toBe(NOW);
  });

  it('may have been recreated if the Node has the operator’s cordon', () => {
    const memory = new NodeMemory();
    memory.shadowAdded('a', aNode({ name: 'a', annotations: { [CORDONED_ANNOTATION]: ago(0) } }), NOW);
    expect(memory.of('a').former).toBeUndefined();
  });

  it('holds a slot for at most an hour after its deletion during an update, also if its successors are deleted', () => {
    const memory = new NodeMemory();
    memory.shadowDeleted('a', updated, NOW);
    for (const minutes of [10, 20, 30]) {
      memory.shadowAdded('a', aNode({ name: 'a' }), NOW + minutes * MINUTE);
      memory.shadowDeleted('a', young, NOW + (minutes + 5) * MINUTE);
    }
    expect(memory.of('a').former).toEqual({ startedAt: NOW - MINUTE, slotUntil: NOW + HOUR });
  });
});
