import { Store } from './store.ts';
import type { KubernetesObject } from '../api/meta.ts';

function object(name: string, uid: string, resourceVersion: string): KubernetesObject {
  return { metadata: { name, uid, resourceVersion } };
}

function recorded(): { store: Store<KubernetesObject>; events: string[] } {
  const store = new Store<KubernetesObject>();
  const events: string[] = [];
  store.subscribe(({ type, object: { metadata } }) =>
    events.push(`${type} ${metadata.name}/${metadata.uid}@${metadata.resourceVersion}`),
  );
  return { store, events };
}

describe('a store', () => {
  it('reports additions, changes and deletions once', () => {
    const { store, events } = recorded();
    store.set(object('a', '1', '1'));
    store.set(object('a', '1', '1'));
    store.set(object('a', '1', '2'));
    store.remove(object('a', '1', '3'));
    store.remove(object('a', '1', '3'));
    expect(events).toEqual(['Added a/1@1', 'Modified a/1@2', 'Deleted a/1@2']);
  });

  it('reports an object with a new UID as a deletion and an addition', () => {
    const { store, events } = recorded();
    store.set(object('a', '1', '1'));
    store.set(object('a', '2', '5'));
    expect(events).toEqual(['Added a/1@1', 'Deleted a/1@1', 'Added a/2@5']);
  });

  it('omits what a namespace has beyond its limit, and says so until the next list', () => {
    const store = new Store<KubernetesObject>({ maxPerNamespace: 2, maxTotal: 100 });
    const inNamespace = (name: string, namespace: string): KubernetesObject => ({
      metadata: { name, namespace, uid: name, resourceVersion: '1' },
    });
    const names = (): string[] => store.list().map(({ metadata }) => metadata.name);
    for (const name of ['a', 'b', 'c']) store.set(inNamespace(name, 'crowded'));
    store.set(inNamespace('d', 'other'));
    expect([names(), [...store.overfull]]).toEqual([['a', 'b', 'd'], ['crowded']]);
    store.remove(inNamespace('a', 'crowded'));
    expect([...store.overfull]).toEqual(['crowded']);
    store.replace(['b', 'c', 'd'].map((name) => inNamespace(name, name === 'd' ? 'other' : 'crowded')));
    expect([names(), [...store.overfull]]).toEqual([['b', 'd', 'c'], []]);
  });

  it('beyond the total keeps an equal share of each namespace, so that a crowded one takes nothing from the others', () => {
    const store = new Store<KubernetesObject>({ maxPerNamespace: 100, maxTotal: 10 });
    const add = (namespace: string, count: number): void => {
      for (let i = 0; i < count; i += 1)
        store.set({ metadata: { name: `${i}`, namespace, uid: `${namespace}/${i}`, resourceVersion: '1' } });
    };
    const kept = (): Record<string, number> =>
      Object.fromEntries(
        [...Map.groupBy(store.list(), ({ metadata }) => metadata.namespace ?? '')].map(([name, some]) => [
          name,
          some.length,
        ]),
      );
    add('crowded', 50);
    expect([kept(), [...store.overfull]]).toEqual([{ crowded: 10 }, ['crowded']]);
    for (const name of ['a', 'b', 'c', 'd']) add(name, 2);
    expect([kept(), [...store.overfull]]).toEqual([{ crowded: 10, a: 2, b: 2, c: 2, d: 2 }, ['crowded']]);
    add('d', 50);
    expect([kept()['d'], [...store.overfull]]).toEqual([2, ['crowded', 'd']]);
  });

  it('counts an object by its weight, also when that changes', () => {
    const weightOf = ({ metadata }: KubernetesObject): number => metadata.generation ?? 1;
    const store = new Store<KubernetesObject>({ maxPerNamespace: 5, maxTotal: 100, weightOf });
    const set = (name: string, generation: number): void =>
      store.set({ metadata: { name, namespace: 'n', uid: name, resourceVersion: `${generation}`, generation } });
    const names = (): string[] => store.list().map(({ metadata }) => metadata.name);
    set('a', 1);
    set('b', 4);
    set('c', 1);
    expect([names(), [...store.overfull]]).toEqual([['a', 'b'], ['n']]);
    set('b', 1);
    set('c', 3);
    expect(names()).toEqual(['a', 'b', 'c']);
    set('a', 2);
    expect(names()).toEqual(['b', 'c']);
    set('a', 1);
    expect(names()).toEqual(['b', 'c', 'a']);
  });

  it('reports the differences to a new list, deletions first', () => {
    const { store, events } = recorded();
    store.replace([object('a', '1', '1'), object('b', '2', '2'), object('c', '3', '3')]);
    events.length = 0;
    store.replace([object('a', '1', '1'), object('c', '3', '9'), object('d', '4', '4')]);
    expect(events).toEqual(['Deleted b/2@2', 'Modified c/3@9', 'Added d/4@4']);
    expect(store.list().map(({ metadata }) => metadata.name)).toEqual(['a', 'c', 'd']);
  });
});
