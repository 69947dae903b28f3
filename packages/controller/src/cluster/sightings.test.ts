import { rfc3339 } from '@brupop/shared/runtime/clock';
import { aPod } from '@brupop/shared/testing/pods';
import { ago, aNode, MINUTE, NOW, instantAt } from '../testing/objects.ts';
import type { NodeView } from './node.ts';
import { NodeMemory } from './node-memory.ts';
import { podAsSighted, podSightingsOf } from './sightings.ts';

const HOUR = 60 * MINUTE;
const at = (time: number): string => rfc3339(time);
const clocks = [
  ['an hour behind', -HOUR],
  ['right', 0],
  ['an hour ahead', HOUR],
] as const;

describe.each(clocks)('a kubelet whose clock is %s', (_, skew) => {
  const node = (ready: boolean, since: number): NodeView =>
    aNode({ ready, readySince: at(since + skew), clearedAt: { DiskPressure: at(since + skew) } });

  it('reports a Node that became Ready now: it counts from when that was seen', () => {
    const memory = new NodeMemory();
    memory.node('a', node(false, NOW - MINUTE), undefined, instantAt(NOW - MINUTE));
    memory.node('a', node(true, NOW), undefined, instantAt(NOW));
    memory.node('a', node(true, NOW), undefined, instantAt(NOW + MINUTE));
    expect(memory.asObserved(node(true, NOW))).toMatchObject({
      readySince: NOW,
      clearedAt: { DiskPressure: NOW },
    });
  });

  it('reports a container that was restarted now: it counts from when the count was seen to be higher', () => {
    const crashed = (restarts: number, since: number) =>
      aPod('web', { restarts, restartedAt: since + skew, readyChanged: since + skew });
    const first = podSightingsOf([crashed(1, NOW - HOUR)], undefined, NOW - MINUTE);
    const second = podSightingsOf([crashed(2, NOW)], first, NOW);
    const third = podSightingsOf([crashed(2, NOW)], second, NOW + MINUTE);
    expect(podAsSighted(crashed(2, NOW), third)).toMatchObject({ restartedAt: NOW, readyChanged: NOW });
  });
});

describe('a process that has just started', () => {
  it('keeps a Node once that reports whole seconds before the start', () => {
    const memory = new NodeMemory();
    const node = aNode({ readySince: at(NOW - MINUTE), clearedAt: { DiskPressure: at(NOW - HOUR) } });
    memory.node('a', node, undefined, instantAt(NOW));
    expect(memory.asObserved(node)).toBe(node);
  });

  it.each([
    ['before', NOW - MINUTE, NOW - MINUTE],
    ['in the future', NOW + HOUR, NOW],
    ['at no time', undefined, undefined],
  ])('takes a time that is reported %s, at the latest its start', (_, readySince, expected) => {
    const memory = new NodeMemory();
    const node = { ...aNode({}), readySince };
    memory.node('a', node, undefined, instantAt(NOW));
    expect(memory.asObserved(node).readySince).toBe(expected);
  });

  it('learns nothing of a Node from an earlier one of that name', () => {
    const memory = new NodeMemory();
    const before = aNode({ uid: 'former', readySince: ago(MINUTE) });
    memory.node('a', before, undefined, instantAt(NOW - MINUTE));
    memory.forget(before);
    const node = aNode({ readySince: ago(2 * MINUTE) });
    memory.node('a', node, undefined, instantAt(NOW));
    expect(memory.asObserved(node).readySince).toBe(NOW - 2 * MINUTE);
  });
});

it('what was seen while the own clock was ahead counts from when the clock was right again', () => {
  const memory = new NodeMemory();
  const changed = aNode({ ready: true, readySince: at(NOW) });
  memory.node('a', aNode({ ready: false, readySince: ago(MINUTE) }), undefined, instantAt(NOW - MINUTE));
  memory.node('a', changed, undefined, instantAt(NOW + HOUR));
  memory.node('a', changed, undefined, instantAt(NOW + MINUTE));
  expect(memory.asObserved(changed).readySince).toBe(NOW + MINUTE);
  memory.node('a', changed, undefined, instantAt(NOW + 2 * MINUTE));
  expect(memory.asObserved({ ...changed }).readySince).toBe(NOW + MINUTE);
});

it('a pod that was not in the former list counts from the one in which it is', () => {
  const pod = aPod('new', { readyChanged: NOW - HOUR });
  expect(podAsSighted(pod, podSightingsOf([pod], new Map(), NOW)).readyChanged).toBe(NOW);
  expect(podAsSighted(pod, podSightingsOf([pod], undefined, NOW)).readyChanged).toBe(NOW - HOUR);
});
