import type { DrainBlock } from '@brupop/shared/api/shadow';
import type { DrainPod } from '@brupop/shared/drain/pods';
import { aPod } from '@brupop/shared/testing/pods';
import { EvictionOrder } from './eviction-order.ts';

const GONE_BY = '2026-01-02T03:04:05Z';
const NOW = Date.UTC(2026, 0, 2, 3, 4, 0);
const names = (pods: readonly DrainPod[]): string[] => pods.map(({ metadata }) => metadata.name);
const volume = { claims: ['data'] };

interface Tried {
  readonly block?: Omit<DrainBlock, 'pod'>;
  readonly count?: number;
  readonly retryAfterMs?: number;
}

/** After requests at 0 for these pods, accepted unless they have a block. */
function after(tried: Readonly<Record<string, Tried>> = {}): EvictionOrder {
  const order = new EvictionOrder('apps/self');
  for (const [name, { block, count = 1, retryAfterMs = 0 }] of Object.entries(tried)) {
    const outcome = block === undefined ? ({ kind: 'accepted' } as const) : { kind: 'blocked', block, retryAfterMs };
    for (let request = 0; request < count; request += 1) order.record(aPod(name), outcome as never, 0);
  }
  return order;
}

const held = { block: { reason: 'DisruptionBudget', message: 'held' } } as const;

describe('the eviction order', () => {
  it('starts with all pods without volumes', () => {
    const pods = [aPod('a'), aPod('b', volume), aPod('c', { own: true }), aPod('d')];
    expect(names(after().next(pods))).toEqual(['a', 'd']);
  });

  it('goes by priority, with or without volumes', () => {
    const pods = [aPod('critical', { priority: 2_000_000_000 }), aPod('db', volume), aPod('batch', { priority: -10 })];
    expect(names(after().next(pods))).toEqual(['batch']);
    expect(names(after({ batch: {} }).next(pods))).toEqual(['db']);
    expect(names(after({ batch: {}, db: {} }).next(pods))).toEqual(['critical']);
  });

  it('ends with the drain policy last, the Deployments of the operator, and the replica that drains', () => {
    const pods = [
      aPod('self', { own: true, priority: -9 }),
      aPod('own', { own: true }),
      aPod('last', { drainPolicy: 'last', priority: -5 }),
      aPod('high', { priority: 9 }),
    ];
    expect(names(after().next(pods))).toEqual(['high']);
    expect(names(after({ high: {} }).next(pods))).toEqual(['last']);
    expect(names(after({ high: {}, last: {} }).next(pods))).toEqual(['own']);
    expect(names(after({ high: {}, last: {}, own: held }).next(pods))).toEqual(['own']);
    expect(names(after({ high: {}, last: {}, own: {} }).next(pods))).toEqual(['self']);
  });

  it('goes on to pods that serve volumes when all others have left, also those with the drain policy last', () => {
    const pods = [
      aPod('server', { servesVolumes: true, priority: -9 }),
      aPod('last', { drainPolicy: 'last', ...volume }),
      aPod('own', { own: true }),
      aPod('db', volume),
    ];
    expect(names(after().next(pods))).toEqual(['db']);
    expect(names(after({ db: {} }).next(pods))).toEqual(['last']);
    expect(names(after({ db: {}, last: {} }).next(pods))).toEqual(['server']);
    expect(names(after({ db: {}, last: {}, server: {} }).next(pods))).toEqual(['own']);
  });

  it('stays with a rank while a budget blocks one of its pods', () => {
    const pods = [aPod('a'), aPod('b', volume)];
    expect(names(after({ a: held }).next(pods))).toEqual(['a']);
  });

  it('continues once all before are leaving, accepted or terminating', () => {
    const pods = [aPod('a'), aPod('b', { goneBy: GONE_BY }), aPod('c', volume), aPod('d', { own: true })];
    expect(names(after({ a: {} }).next(pods))).toEqual(['c']);
  });

  it('has finished pods first, whatever they have', () => {
    const pods = [aPod('a'), aPod('b', { ...volume, finished: true, priority: 5 })];
    expect(names(after().next(pods))).toEqual(['b']);
  });
});

describe('the pods to request now', () => {
  it('are those of the rank whose retry is due', () => {
    const pods = [aPod('a'), aPod('b')];
    const order = after({ a: { ...held, retryAfterMs: 10_000 } });
    expect(names(order.due(pods, 9_999))).toEqual(['b']);
    expect(names(order.due(pods, 10_000))).toEqual(['a', 'b']);
  });

  it('are one at a time when they have volumes, the one with the fewest attempts first', () => {
    const pods = [aPod('a', volume), aPod('b', volume)];
    expect(names(after().due(pods, 60_000))).toEqual(['a']);
    expect(names(after({ a: held }).due(pods, 60_000))).toEqual(['b']);
  });
});

describe('a pass', () => {
  it.each<[string, boolean, readonly DrainPod[], Record<string, Tried>]>([
    ['nothing was requested', false, [aPod('a')], {}],
    ['each pod was rejected once', false, [aPod('a')], { a: held }],
    ['each pod was rejected twice', true, [aPod('a')], { a: { ...held, count: 2 } }],
    ['a pod is leaving', false, [aPod('a'), aPod('b', { goneBy: GONE_BY })], { a: { ...held, count: 2 } }],
    ['one was rejected twice, another once', false, [aPod('a'), aPod('b')], { a: { ...held, count: 2 }, b: held }],
    ['a later rank waits for this one', true, [aPod('a'), aPod('b', { own: true })], { a: { ...held, count: 2 } }],
  ])('when %s is stuck: %s', (_when, stuck, pods, tried) => {
    expect(after(tried).isStuck(pods)).toBe(stuck);
  });

  it('reports why each pod is there, without those of later ranks', () => {
    const pods = [aPod('a'), aPod('b', { goneBy: GONE_BY }), aPod('c'), aPod('d', { own: true })];
    expect(after({ a: held, c: {} }).blocks(pods, NOW)).toEqual([
      { pod: 'apps/a', reason: 'DisruptionBudget', message: 'held' },
      { pod: 'apps/b', reason: 'Terminating', message: `terminating until ${GONE_BY}` },
      { pod: 'apps/c', reason: 'Terminating', message: 'has just been evicted' },
    ]);
  });

  it('reports what keeps a pod that should be gone', () => {
    const pods = [aPod('a', { goneBy: GONE_BY }), aPod('b', { goneBy: GONE_BY, finalizers: ['x/y', 'z'] })];
    expect(after().blocks(pods, NOW + 16_000)).toEqual([
      {
        pod: 'apps/a',
        reason: 'TerminationStuck',
        message: `its grace period ended at ${GONE_BY}: the kubelet has not terminated it`,
      },
      {
        pod: 'apps/b',
        reason: 'TerminationStuck',
        message: `its grace period ended at ${GONE_BY}: finalizers hold it: x/y, z`,
      },
    ]);
  });
});
