import type { DrainPod } from '@brupop/shared/drain/pods';
import { aPod } from '@brupop/shared/testing/pods';
import { type Attempt, blocks, due, isStuck, turn } from './eviction-order.ts';

const GONE_BY = '2026-01-02T03:04:05Z';
const NOW = Date.UTC(2026, 0, 2, 3, 4, 0);
const names = (pods: readonly DrainPod[]): string[] => pods.map(({ metadata }) => metadata.name);
const volume = { claims: ['data'] };

const attempts = (entries: Record<string, Partial<Attempt>>): Map<string, Attempt> =>
  new Map(Object.entries(entries).map(([uid, attempt]) => [uid, { count: 1, notBefore: 0, ...attempt }]));

const held = { block: { reason: 'DisruptionBudget', message: 'held' } } as const;

describe('whose turn it is', () => {
  it('is all pods without volumes first', () => {
    const pods = [aPod('a'), aPod('b', volume), aPod('c', { own: true }), aPod('d')];
    expect(names(turn(pods, new Map()))).toEqual(['a', 'd']);
  });

  it('is that of the lowest priority, with or without volumes', () => {
    const pods = [aPod('critical', { priority: 2_000_000_000 }), aPod('db', volume), aPod('batch', { priority: -10 })];
    expect(names(turn(pods, new Map()))).toEqual(['batch']);
    expect(names(turn(pods, attempts({ batch: {} })))).toEqual(['db']);
    expect(names(turn(pods, attempts({ batch: {}, db: {} })))).toEqual(['critical']);
  });

  it('comes to those that ask to be last after every priority, and to our own after them', () => {
    const pods = [
      aPod('own', { own: true }),
      aPod('last', { wish: 'last', priority: -5 }),
      aPod('high', { priority: 9 }),
    ];
    expect(names(turn(pods, new Map()))).toEqual(['high']);
    expect(names(turn(pods, attempts({ high: {} })))).toEqual(['last']);
    expect(names(turn(pods, attempts({ high: {}, last: {} })))).toEqual(['own']);
  });

  it('stays with the first while a budget holds one up', () => {
    const pods = [aPod('a'), aPod('b', volume)];
    expect(names(turn(pods, attempts({ a: held })))).toEqual(['a']);
  });

  it('passes on once the others are on their way, accepted or marked', () => {
    const pods = [aPod('a'), aPod('b', { goneBy: GONE_BY }), aPod('c', volume), aPod('d', { own: true })];
    expect(names(turn(pods, attempts({ a: {} })))).toEqual(['c']);
  });

  it('is a finished pod’s at once, whatever it has', () => {
    const pods = [aPod('a'), aPod('b', { ...volume, finished: true, priority: 5 })];
    expect(names(turn(pods, new Map()))).toEqual(['b']);
  });
});

describe('the pods to ask for now', () => {
  it('are those of the turn that are not to be left alone for a while', () => {
    const pods = [aPod('a'), aPod('b')];
    expect(names(due(pods, attempts({ a: { ...held, notBefore: 11 } }), 10))).toEqual(['b']);
    expect(names(due(pods, attempts({ a: { ...held, notBefore: 10 } }), 10))).toEqual(['a', 'b']);
  });

  it('are one at a time when they have volumes, the least tried first', () => {
    const pods = [aPod('a', volume), aPod('b', volume)];
    expect(names(due(pods, new Map(), 0))).toEqual(['a']);
    expect(names(due(pods, attempts({ a: held }), 0))).toEqual(['b']);
  });
});

describe('a pass', () => {
  it.each<[string, boolean, readonly DrainPod[], Record<string, Partial<Attempt>>]>([
    ['nothing was tried', false, [aPod('a')], {}],
    ['each pod was refused once', false, [aPod('a')], { a: held }],
    ['each pod was refused twice', true, [aPod('a')], { a: { ...held, count: 2 } }],
    ['a pod is on its way', false, [aPod('a'), aPod('b', { goneBy: GONE_BY })], { a: { ...held, count: 2 } }],
    ['one was refused twice, another once', false, [aPod('a'), aPod('b')], { a: { ...held, count: 2 }, b: held }],
    ['a later turn is held up by this one', true, [aPod('a'), aPod('b', { own: true })], { a: { ...held, count: 2 } }],
  ])('when %s is stuck: %s', (_when, stuck, pods, tried) => {
    expect(isStuck(pods, attempts(tried))).toBe(stuck);
  });

  it('tells of each pod why it is there, and nothing of those whose turn has not come', () => {
    const pods = [aPod('a'), aPod('b', { goneBy: GONE_BY }), aPod('c'), aPod('d', { own: true })];
    expect(blocks(pods, attempts({ a: held, c: {} }), NOW)).toEqual([
      { pod: 'apps/a', reason: 'DisruptionBudget', message: 'held' },
      { pod: 'apps/b', reason: 'Terminating', message: `is to be gone by ${GONE_BY}` },
      { pod: 'apps/c', reason: 'Terminating', message: 'has just been evicted' },
    ]);
  });

  it('tells what holds a pod that should be gone', () => {
    const pods = [aPod('a', { goneBy: GONE_BY }), aPod('b', { goneBy: GONE_BY, finalizers: ['x/y', 'z'] })];
    expect(blocks(pods, new Map(), NOW + 16_000)).toEqual([
      {
        pod: 'apps/a',
        reason: 'TerminationStuck',
        message: `was to be gone by ${GONE_BY}: its kubelet has not ended it`,
      },
      {
        pod: 'apps/b',
        reason: 'TerminationStuck',
        message: `was to be gone by ${GONE_BY}: finalizers hold it: x/y, z`,
      },
    ]);
  });
});
