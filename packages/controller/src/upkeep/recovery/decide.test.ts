import { MAX_RECORDED_PODS, MAX_RECOVERIES } from '@brupop/shared/api/config-recovery';
import type { Instant } from '@brupop/shared/runtime/clock';
import {
  choose as chooseAt,
  CLOSED,
  current as currentAt,
  type Eviction,
  forget,
  isFirst,
  isNews,
  listed,
  nextRequestAt,
  openIn,
  recovered,
  type RecoveryState,
  refuse,
  requested,
  resumed,
  type Scope,
} from './decide.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const WATCH_FOR = 5 * MINUTE;
const scope = { kind: 'Service', name: 'etcd' } as const;
const always = (): boolean => true;

/** The same on both clocks, as long as none is set. */
const instant = (ms: number): Instant => ({ wall: ms, monotonic: ms });
const choose = (state: RecoveryState, found: readonly Eviction[], perMinute: number, now: number) =>
  chooseAt(state, found, perMinute, instant(now));
const current = (state: RecoveryState, isWanted: (one: Scope) => boolean, now: number): RecoveryState =>
  currentAt(state, isWanted, instant(now));
const crashing = (...uids: string[]): Eviction[] => crashingOf(scope, ...uids);
const crashingOf = (of: Scope, ...uids: string[]): Eviction[] =>
  uids.map((uid) => ({ scope: of, pod: { uid, name: uid, namespace: 'shop', node: 'node-1' }, listedAt: 0 }));
const many = (count: number): string[] => Array.from({ length: count }, (_, index) => `uid-${index}`);
const uidsOf = (evictions: readonly Eviction[]): string[] => evictions.map(({ pod }) => pod.uid);
const open = recovered(CLOSED, scope, WATCH_FOR, 0);

/** Runs each time of `times` with the pods that crash then; returns which are evicted when. */
function replay(
  state: RecoveryState,
  times: readonly number[],
  podsAt: (now: number) => readonly string[],
  perMinute = 10,
) {
  const evicted: [number, string][] = [];
  let next = state;
  for (const now of times) {
    next = current(next, always, now);
    const pods = next.recoveries.length === 0 ? [] : podsAt(now);
    const chosen = choose(next, crashing(...pods), perMinute, now);
    next = chosen.state;
    evicted.push(...uidsOf(chosen.evictions).map((uid): [number, string] => [now, uid]));
  }
  return { evicted, state: next };
}

describe('the example of etcd and its API servers', () => {
  // t=0: etcd goes down; t=10: the API servers wait in CrashLoopBackOff; t=100: etcd recovers.
  const at = (seconds: number): number => seconds * SECOND;

  it('leaves the pods while etcd is down, and evicts them when it recovers', () => {
    const before = replay(CLOSED, [0, 10, 50, 99].map(at), () => ['api-0', 'api-1']);
    expect(before.evicted).toEqual([]);
    const after = replay(recovered(before.state, scope, WATCH_FOR, at(100)), [at(101)], () => ['api-0', 'api-1']);
    expect(after.evicted).toEqual([
      [at(101), 'api-0'],
      [at(101), 'api-1'],
    ]);
  });

  it('evicts none of them twice while they terminate until t=104', () => {
    const state = recovered(CLOSED, scope, WATCH_FOR, at(100));
    const { evicted } = replay(state, [100, 101, 102, 103, 104].map(at), () => ['api-0', 'api-1']);
    expect(evicted).toHaveLength(2);
  });
});

describe('a window', () => {
  it('ends after watchFor, and leaves pods that never recover', () => {
    const every5s = Array.from({ length: 120 }, (_, index) => index * 5 * SECOND);
    const { evicted, state } = replay(open, every5s, (now) => [`pod-at-${now}`]);
    expect(Math.max(...evicted.map(([at]) => at))).toBeLessThan(WATCH_FOR);
    expect(state.recoveries).toEqual([]);
  });

  it('is extended by a further recovery', () => {
    const [one] = recovered(open, scope, WATCH_FOR, 4 * MINUTE).recoveries;
    expect(one).toMatchObject({ since: 0, until: 9 * MINUTE });
  });

  it('is never made shorter', () => {
    expect(recovered(open, scope, SECOND, SECOND).recoveries[0]?.until).toBe(WATCH_FOR);
  });

  it('ends an hour after its start at the latest', () => {
    let state = open;
    for (let now = 0; now < 60 * MINUTE; now += MINUTE)
      state = recovered(current(state, always, now), scope, WATCH_FOR, now);
    expect(state.recoveries[0]?.until).toBe(60 * MINUTE);
    expect(current(state, always, 60 * MINUTE).recoveries).toEqual([]);
  });

  it('is a new one when it recovers after the end of the last, however long ago that was', () => {
    const late = recovered(open, scope, WATCH_FOR, 2 * 60 * MINUTE);
    expect(late.recoveries).toMatchObject([{ since: 120 * MINUTE, until: 125 * MINUTE }]);
  });

  it('closes when it is no longer asked for', () => {
    expect(current(open, () => false, 0).recoveries).toEqual([]);
  });

  it('is not opened beyond the limit', () => {
    const full = many(MAX_RECOVERIES).reduce(
      (state, name) => recovered(state, { kind: 'Node', name }, WATCH_FOR, 0),
      CLOSED,
    );
    expect(recovered(full, scope, WATCH_FOR, 0)).toBe(full);
    expect(isNews(full, scope, WATCH_FOR, 0)).toBe(false);
    expect(isNews(full, { kind: 'Node', name: 'uid-0' }, WATCH_FOR, MINUTE)).toBe(true);
  });

  it('is opened at once, and its pods are listed at once for an extension half a minute later', () => {
    expect(isNews(CLOSED, scope, WATCH_FOR, 0)).toBe(true);
    expect([1, 29, 30, 301].map((seconds) => isNews(open, scope, WATCH_FOR, seconds * SECOND))).toEqual([
      false,
      false,
      true,
      true,
    ]);
    const extended = recovered(open, scope, WATCH_FOR, 30 * SECOND);
    expect([31, 59, 60].map((seconds) => isNews(extended, scope, WATCH_FOR, seconds * SECOND))).toEqual([
      false,
      false,
      true,
    ]);
  });

  it('has its pods listed more often until it would have ended without extensions', () => {
    const extended = recovered(open, scope, WATCH_FOR, 4 * MINUTE);
    expect([4, 5, 8].map((minutes) => isFirst(extended, WATCH_FOR, minutes * MINUTE))).toEqual([true, false, false]);
  });
});

describe('evictions', () => {
  it('are at most ten a minute of 5,000 pods', () => {
    const every5s = Array.from({ length: 60 }, (_, index) => index * 5 * SECOND);
    const { evicted } = replay(open, every5s, () => many(5_000));
    expect(evicted).toHaveLength(50);
    for (const start of every5s) {
      const inMinute = evicted.filter(([at]) => at >= start && at < start + MINUTE);
      expect(inMinute.length).toBeLessThanOrEqual(10);
    }
  });

  it('are at most ten a minute also when the clock is set forward', () => {
    const { state } = choose(open, crashing(...many(20)), 10, 0);
    const stepped = { wall: 62 * SECOND, monotonic: SECOND };
    const next = currentAt(state, always, stepped);
    expect(chooseAt(next, crashing('a'), 10, stepped).evictions).toEqual([]);
    expect(nextRequestAt(next, 10, stepped.monotonic)).toBe(MINUTE);
  });

  it('may be requested again a minute after the oldest of the last ten', () => {
    const { state } = choose(open, crashing(...many(20)), 10, 7 * SECOND);
    expect(nextRequestAt(state, 10, 8 * SECOND)).toBe(67 * SECOND);
    expect(nextRequestAt(state, 11, 8 * SECOND)).toBe(8 * SECOND);
  });

  it('count from when they were requested, which a next leader only knows from the record', () => {
    const { state } = choose(open, crashing('a', 'b'), 2, 0);
    const sent = requested(state, 0, 3 * SECOND);
    for (const [before, untilMs] of [
      [sent, 3 * SECOND],
      [resumed(sent.recoveries, instant(3 * SECOND)), 16 * SECOND],
    ] as const) {
      expect(choose(before, crashing('c'), 2, untilMs + MINUTE - 1).evictions).toEqual([]);
      expect(choose(before, crashing('c'), 2, untilMs + MINUTE).evictions).toHaveLength(1);
    }
  });

  it('are shared by all windows', () => {
    const node = { kind: 'Node', name: 'node-1' } as const;
    const both = recovered(open, node, WATCH_FOR, 0);
    const ofNode = crashingOf(node, ...many(9));
    expect(choose(both, [...crashing('a', 'b', 'c'), ...ofNode], 10, 0).evictions).toHaveLength(10);
  });

  describe('of a window with many pods', () => {
    const [busy, calm] = ['busy', 'calm'].map((name) => ({ kind: 'Service', name }) as const);
    if (busy === undefined || calm === undefined) throw new Error('expected two scopes');
    const both = [busy, calm].reduce((state, one) => recovered(state, one, 30 * MINUTE, 0), CLOSED);
    const found = [...crashingOf(busy, ...many(5_000)), ...crashingOf(calm, 'a', 'b', 'c')];

    it('leave half to those of another window', () => {
      expect(uidsOf(choose(both, found, 6, 0).evictions)).toEqual(['uid-0', 'a', 'uid-1', 'b', 'uid-2', 'c']);
    });

    it('alternate with those of the other when one is evicted a minute, also by the next leader', () => {
      let state = both;
      const evicted = [0, 1, 2, 3].flatMap((minute) => {
        const chosen = choose({ ...CLOSED, recoveries: state.recoveries }, found, 1, minute * MINUTE);
        ({ state } = chosen);
        return uidsOf(chosen.evictions);
      });
      expect(evicted).toEqual(['uid-0', 'a', 'uid-1', 'b']);
    });

    it('leave their turn to those of the other that are refused again and again', () => {
      const [refused] = crashingOf(calm, 'a');
      if (refused === undefined) throw new Error('expected an eviction');
      const state = refuse(both, refused, 0, 0);
      expect(uidsOf(choose(state, [...found.slice(0, 5_000), refused], 2, MINUTE).evictions)).toEqual(['uid-0', 'a']);
    });
  });

  it('name a pod that two windows have only once', () => {
    const node = { kind: 'Node', name: 'node-1' } as const;
    const both = recovered(open, node, WATCH_FOR, 0);
    const again = crashing('a').map((one) => ({ ...one, scope: node }));
    expect(uidsOf(choose(both, [...crashing('a'), ...again], 10, 0).evictions)).toEqual(['a']);
  });

  it('are recorded before they are requested', () => {
    const { state } = choose(open, crashing('a'), 10, SECOND);
    expect(state.recoveries[0]).toMatchObject({ evicted: 1, pods: new Map([['a', SECOND]]) });
  });

  it('wait while the record of the window is full', () => {
    const { state } = choose(open, crashing(...many(MAX_RECORDED_PODS)), MAX_RECORDED_PODS, 0);
    expect(choose(state, crashing('a'), 60, 2 * MINUTE).evictions).toEqual([]);
  });
});

describe('a recorded pod', () => {
  const { state } = choose(open, crashing('a'), 10, 0);

  it('is not evicted again, also by the next leader', () => {
    const { recoveries } = state;
    const next = { ...CLOSED, recoveries };
    expect(choose(next, crashing('a'), 10, 2 * MINUTE).evictions).toEqual([]);
  });

  it('stays on record while it exists', () => {
    const found = listed(state, scope, new Set(['a']), 4 * MINUTE);
    expect(choose(found, crashing('a'), 10, 4 * MINUTE).evictions).toEqual([]);
  });

  it('stays on record for a minute, since a list may be outdated', () => {
    expect(listed(state, scope, new Set(), MINUTE - 1).recoveries[0]?.pods.size).toBe(1);
  });

  it('stays on record for a minute after its eviction when the window closes, and for the next window', () => {
    const last = choose(open, crashing('b'), 10, WATCH_FOR - SECOND).state;
    const closed = current(last, always, WATCH_FOR + SECOND);
    expect(openIn(closed, WATCH_FOR + SECOND)).toEqual([]);
    const again = recovered(closed, scope, WATCH_FOR, WATCH_FOR + SECOND);
    expect(openIn(again, WATCH_FOR + SECOND)).toHaveLength(1);
    expect(uidsOf(choose(again, crashing('a', 'b'), 10, WATCH_FOR + SECOND).evictions)).toEqual(['a']);
    expect(current(last, always, WATCH_FOR + MINUTE).recoveries).toEqual([]);
  });

  it('is forgotten when it is gone', () => {
    expect(listed(state, scope, new Set(), MINUTE).recoveries[0]).toMatchObject({ evicted: 1, pods: new Map() });
  });
});

describe('a pod whose eviction was refused', () => {
  const [eviction] = crashing('a');
  if (eviction === undefined) throw new Error('expected an eviction');

  const refusedAt = (state: RecoveryState, now: number): RecoveryState => {
    const chosen = choose(state, [eviction], 10, now);
    expect(uidsOf(chosen.evictions)).toEqual(['a']);
    return refuse(chosen.state, eviction, 0, now);
  };

  it('is evicted later, each time after a longer wait, up to a minute', () => {
    let state = refusedAt(open, 0);
    for (const [from, wait] of [
      [0, 10],
      [10, 20],
      [30, 40],
      [70, 60],
      [130, 60],
    ] as const) {
      const due = (from + wait) * SECOND;
      expect(choose(state, [eviction], 10, due - 1).evictions).toEqual([]);
      state = refusedAt(state, due);
    }
  });

  it('counts for the minute, and is not counted as evicted', () => {
    const state = refusedAt(open, 0);
    expect(state.requests).toEqual([0]);
    expect(state.recoveries[0]).toMatchObject({ evicted: 0, pods: new Map() });
  });

  it('goes after pods that were not refused', () => {
    const state = refusedAt(open, 0);
    expect(uidsOf(choose(state, crashing('a', 'b'), 2, 20 * SECOND).evictions)).toEqual(['b']);
  });

  it('waits for as long as the API server asks for', () => {
    const state = refuse(open, eviction, 30 * SECOND, 0);
    expect(choose(state, [eviction], 10, 30 * SECOND - 1).evictions).toEqual([]);
    expect(choose(state, [eviction], 10, 30 * SECOND).evictions).toHaveLength(1);
  });
});

it('what was not requested after all is no longer on record', () => {
  const { state, evictions } = choose(open, crashing('a'), 10, 0);
  expect(evictions.reduce(forget, state).recoveries).toEqual(open.recoveries);
});
