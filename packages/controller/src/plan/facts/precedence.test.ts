import { byPrecedence } from './suspects.ts';

const orderOf = (names: readonly string[], rankOf: (name: string) => number = () => 0): string[] =>
  byPrecedence(names, (name) => name, rankOf);

it('each namespace has one workload in turn, in the order of their names', () => {
  const names = ['ReplicaSet a/3', 'ReplicaSet a/2', 'ReplicaSet a/1', 'StatefulSet m/db db-1', 'DaemonSet z/log'];
  expect(orderOf(names)).toEqual([
    'DaemonSet z/log',
    'ReplicaSet a/1',
    'StatefulSet m/db db-1',
    'ReplicaSet a/2',
    'ReplicaSet a/3',
  ]);
});

it('a lower rank comes before all turns of the others', () => {
  const names = ['ReplicaSet a/1', 'ReplicaSet b/1', 'ReplicaSet z/1', 'ReplicaSet z/2'];
  expect(orderOf(names, (name) => (name.includes(' z/') ? 0 : 1))).toEqual([
    'ReplicaSet z/1',
    'ReplicaSet z/2',
    'ReplicaSet a/1',
    'ReplicaSet b/1',
  ]);
});

it('the order does not depend on the one in which they are found', () => {
  const names = ['ReplicaSet a/1', 'ReplicaSet b/1', 'ReplicaSet a/2'];
  expect(orderOf(names.toReversed())).toEqual(orderOf(names));
});
