import { aManagedNode, aNode, aShadow, POLICY, underWay } from '../../testing/objects.ts';
import { UpdatedNodes } from './updated-nodes.ts';

const monitored = (name: string, ready = true) => ({
  ...aManagedNode(name),
  name,
  node: aNode({ name, ready }),
  shadow: aShadow({ spec: underWay('MonitoringUpdate') }),
  policy: POLICY,
});
const names = Array.from({ length: 25 }, (_, index) => `node-${String(index).padStart(2, '0')}`);
const all = names.map((name) => monitored(name));
const namesOf = (nodes: readonly { readonly name: string }[]): string[] => nodes.map(({ name }) => name);

it('each node is looked at in its turn, at most ten in a run, also when the first ones never are back', () => {
  const nodes = new UpdatedNodes();
  const runs = [1, 2, 3].map(() => namesOf(nodes.next(all, [])));
  expect(runs.map((run) => run.length)).toEqual([10, 10, 10]);
  expect(new Set(runs.flat())).toEqual(new Set(names));
});

it('a node is looked at until its window is open, and while it is Ready', () => {
  const nodes = new UpdatedNodes();
  const [one, other] = [monitored('node-a'), monitored('node-b', false)];
  expect(namesOf(nodes.next([one, other], []))).toEqual(['node-a']);
  nodes.opened(one);
  expect(nodes.next([one, other], [])).toEqual([]);
});

it('a node is left for whose attempt a former leader has opened the window', () => {
  const window = {
    kind: 'Node',
    name: 'node-a',
    since: Infinity,
    until: Infinity,
    evicted: 0,
    pods: new Map(),
  } as const;
  expect(new UpdatedNodes().next([monitored('node-a')], [window])).toEqual([]);
});
