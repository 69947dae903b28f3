import type { DrainPod } from '@brupop/shared/drain/pods';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { aPod } from '@brupop/shared/testing/pods';
import { DrainPass, type HandoverKeeper } from './drain-pass.ts';
import type { EvictionOutcome } from './eviction.ts';

const held: EvictionOutcome = {
  kind: 'blocked',
  block: { reason: 'DisruptionBudget', message: 'held' },
  retryAfterMs: 0,
};

/** A node whose pods end `endMs` after an accepted eviction. */
function setUp(
  pods: DrainPod[],
  answer: (pod: string, count: number) => EvictionOutcome,
  endMs = 0,
  mayGoOn = (): boolean => true,
) {
  const clock = new FakeClock();
  const asked: string[] = [];
  let together = 0;
  let most = 0;
  const remove = (pod: DrainPod): void => {
    pods.splice(pods.indexOf(pod), 1);
    pass.wake();
  };
  const evict = async (pod: DrainPod): Promise<EvictionOutcome> => {
    const { name } = pod.metadata;
    asked.push(name);
    together += 1;
    most = Math.max(most, together);
    await clock.sleep(1);
    together -= 1;
    const outcome = answer(name, asked.filter((one) => one === name).length);
    if (outcome.kind === 'accepted') clock.after(endMs, () => remove(pod));
    return outcome;
  };
  const handovers: HandoverKeeper = {
    pending: (all, isLeaving) => {
      const pod = all.find((one) => one.claims.length > 0 && isLeaving(one));
      return Promise.resolve(pod === undefined ? undefined : { pod });
    },
    begin: () => Promise.resolve(true),
    blocks: () => [],
  };
  const deadline = clock.monotonic() + 8_000;
  const pass = new DrainPass({ pods: () => [...pods], evict, handovers, mayGoOn, clock, deadline });
  const stop = new AbortController();
  const result = pass.run(stop.signal);
  return { clock, asked, result, stop, most: () => most };
}

const accept = (): EvictionOutcome => ({ kind: 'accepted' });

describe('a drain pass', () => {
  it('returns when all are gone', async () => {
    const { clock, result, asked } = setUp([aPod('a'), aPod('b')], accept, 3_000);
    await clock.advance(4_000);
    expect(await result).toEqual({ evicted: 2, remaining: 0, blockedBy: [] });
    expect(asked).toEqual(['a', 'b']);
  });

  it('asks for at most ten pods at a time', async () => {
    const pods = Array.from({ length: 30 }, (_, number) => aPod(`pod-${number}`));
    const { clock, result, most } = setUp(pods, accept);
    await clock.advance(1_000);
    expect((await result).evicted).toBe(30);
    expect(most()).toBe(10);
  });

  it('asks for a pod with a volume only when the one before is gone', async () => {
    const { clock, result, asked } = setUp([aPod('a', { claims: ['a'] }), aPod('b', { claims: ['b'] })], accept, 2_000);
    await clock.advance(1_900);
    expect(asked).toEqual(['a']);
    await clock.advance(3_000);
    expect(asked).toEqual(['a', 'b']);
    expect((await result).remaining).toBe(0);
  });

  it('goes on with pods that go before one that takes its time', async () => {
    const stuck = aPod('a', { claims: ['a'], goneBy: '2026-01-02T03:04:05Z' });
    const pods = [stuck, aPod('b', { claims: ['b'] }), aPod('c'), aPod('d', { priority: 9 })];
    const { clock, result, asked } = setUp(pods, accept, 2_000);
    await clock.advance(8_100);
    expect(await result).toMatchObject({ evicted: 1, remaining: 3 });
    expect(asked).toEqual(['c']);
  });

  it('ends at its deadline while pods take their time', async () => {
    const { clock, result } = setUp([aPod('a')], accept, 60_000);
    await clock.advance(8_100);
    expect(await result).toMatchObject({ evicted: 1, remaining: 1, blockedBy: [{ reason: 'Terminating' }] });
  });

  it('asks once more for a pod that a budget holds up, then returns', async () => {
    const { clock, result, asked } = setUp([aPod('a')], () => held);
    await clock.advance(8_100);
    expect(await result).toMatchObject({ evicted: 0, remaining: 1, blockedBy: [{ reason: 'DisruptionBudget' }] });
    expect(asked).toEqual(['a', 'a']);
  });

  it('goes on asking while others are on their way, since that may free the budget', async () => {
    const answer = (name: string, count: number): EvictionOutcome => (name === 'a' && count < 3 ? held : accept());
    const { clock, result } = setUp([aPod('a'), aPod('b')], answer, 4_000);
    await clock.advance(8_100);
    expect(await result).toMatchObject({ evicted: 2, remaining: 0 });
  });

  it('waits as long as the API server asks before it asks again', async () => {
    const { clock, asked, result } = setUp([aPod('a')], () => ({ ...held, retryAfterMs: 5_000 }));
    await clock.advance(4_900);
    expect(asked).toHaveLength(1);
    await clock.advance(4_000);
    await result;
    expect(asked).toHaveLength(2);
  });

  it('ends when somebody makes the node schedulable', async () => {
    let cordoned = true;
    const { clock, result } = setUp([aPod('a')], accept, 60_000, () => cordoned);
    await clock.advance(1_000);
    cordoned = false;
    await clock.advance(1_100);
    expect(await result).toMatchObject({ evicted: 1, remaining: 1 });
  });

  it('stops at once when the agent goes away', async () => {
    const { clock, result, stop } = setUp([aPod('a')], accept, 60_000);
    await clock.advance(100);
    stop.abort(new Error('away'));
    await expect(result).rejects.toThrow('away');
  });
});
