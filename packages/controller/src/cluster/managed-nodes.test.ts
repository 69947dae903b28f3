import { aManagedNode, NOW, POLICY } from '../testing/objects.ts';
import { ManagedNodes } from './managed-nodes.ts';
import type { ManagedNode } from './snapshot.ts';

/** `made`: the names of the nodes that the latest list made again. */
function world() {
  const nodes = new Map(['a', 'b', 'c'].map((name) => [name, aManagedNode(name)]));
  const expired = new Set<string>();
  const managed = new ManagedNodes();
  const made: string[] = [];
  const make = (name: string): ManagedNode | undefined => {
    made.push(name);
    const node = nodes.get(name);
    return node && { ...node, leaseExpired: expired.has(name) };
  };
  const list = (): readonly ManagedNode[] => {
    made.length = 0;
    return managed.list(make, (name) => expired.has(name));
  };
  for (const name of nodes.keys()) managed.change(name);
  list();
  return { nodes, expired, managed, made, list };
}

test('returns the same list when nothing has changed', () => {
  const { list, made } = world();
  expect(list()).toBe(list());
  expect(made).toEqual([]);
});

test('makes only the nodes again that have changed', () => {
  const { list, managed, made } = world();
  const [first, second] = list();
  managed.change('b');
  const after = list();
  expect(made).toEqual(['b']);
  expect(after[0]).toBe(first);
  expect(after[1]).not.toBe(second);
});

test('leaves out a node that is gone, and has one that is new', () => {
  const { nodes, list, managed } = world();
  nodes.delete('a');
  nodes.set('d', aManagedNode('d'));
  for (const name of ['a', 'd']) managed.change(name);
  expect(list().map(({ name }) => name)).toEqual(['b', 'c', 'd']);
});

test('a Node that is not managed changes nothing', () => {
  const { list, managed } = world();
  const before = list();
  managed.change('other');
  expect(list()).toBe(before);
});

test('a Lease that expires changes its node alone', () => {
  const { list, expired, made } = world();
  const [first] = list();
  expired.add('c');
  expect(list().map(({ leaseExpired }) => leaseExpired)).toEqual([false, false, true]);
  expect(list()[0]).toBe(first);
  expect(made).toEqual([]);
});

test.each([
  ['with other groups', { groups: [] }],
  ['after the clock was set', { wallAtStart: NOW + 1_000 }],
])('makes all nodes again %s', (_, other) => {
  const { list, managed, made } = world();
  const madeWith = { fleet: POLICY, groups: [], wallAtStart: NOW };
  managed.makeWith(madeWith);
  list();
  managed.makeWith(madeWith);
  list();
  expect(made).toEqual([]);
  managed.makeWith({ ...madeWith, ...other });
  list();
  expect(made).toEqual(['a', 'b', 'c']);
});
