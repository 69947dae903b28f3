import type { EvictionOutcome } from '@brupop/shared/drain/evictions';
import type { DrainPod } from '@brupop/shared/drain/pods';
import { Changes } from '@brupop/shared/runtime/changes';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { aPod } from '@brupop/shared/testing/pods';
import { EvictionLoop, type EvictionLoopOptions } from './drain-pass.ts';
import { EvictionOrder } from './eviction-order.ts';

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
  mayContinue = (): boolean => true,
  startMs = 0,
) {
  const clock = new FakeClock();
  const changes = new Changes(clock);
  const order = new EvictionOrder('apps/self');
  const requested: string[] = [];
  let together = 0;
  let most = 0;
  const remove = (pod: DrainPod): void => {
    pods.splice(pods.indexOf(pod), 1);
    changes.notify();
  };
  const evict = async (pod: DrainPod): Promise<EvictionOutcome> => {
    const { name } = pod.metadata;
    requested.push(name);
    together += 1;
    most = Math.max(most, together);
    await clock.sleep(1);
    together -= 1;
    const outcome = answer(name, requested.filter((one) => one === name).length);
    if (outcome.kind === 'accepted') clock.after(endMs, () => remove(pod));
    return outcome;
  };
  const handovers: EvictionLoopOptions['handovers'] = {
    pending: (all) => {
      const pod = all.find((one) => one.claims.length > 0 && order.isLeaving(one));
      return Promise.resolve(pod === undefined ? undefined : { pod });
    },
    start: async () => {
      await clock.sleep(startMs);
      return true;
    },
    requested: () => undefined,
    blocks: () => [],
  };
  const deadline = clock.monotonic() + 8_000;
  const loop = new EvictionLoop({
    pods: () => [...pods],
    evict,
    handovers,
    order,
    mayContinue,
    changes,
    clock,
    deadline,
  });
  const stop = new AbortController();
  const result = loop.run(stop.signal);
  return { clock, requested, result, stop, most: () => most };
}

const accept = (): EvictionOutcome => ({ kind: 'accepted' });

describe('the evictions of a drain pass', () => {
  it('end when all pods are gone', async () => {
    const { clock, result, requested } = setUp([aPod('a'), aPod('b')], accept, 3_000);
    await clock.advance(4_000);
    expect(await result).toEqual({ evicted: 2, remaining: 0, blockedBy: [] });
    expect(requested).toEqual(['a', 'b']);
  });

  it('are at most ten at a time', async () => {
    const pods = Array.from({ length: 30 }, (_, number) => aPod(`pod-${number}`));
    const { clock, result, most } = setUp(pods, accept);
    await clock.advance(1_000);
    expect((await result).evicted).toBe(30);
    expect(most()).toBe(10);
  });

  it('wait with a pod with a volume until the one before is gone', async () => {
    const { clock, result, requested } = setUp(
      [aPod('a', { claims: ['a'] }), aPod('b', { claims: ['b'] })],
      accept,
      2_000,
    );
    await clock.advance(1_900);
    expect(requested).toEqual(['a']);
    await clock.advance(3_000);
    expect(requested).toEqual(['a', 'b']);
    expect((await result).remaining).toBe(0);
  });

  it('continue with pods of a lower rank while one terminates slowly', async () => {
    const stuck = aPod('a', { claims: ['a'], goneBy: '2026-01-02T03:04:05Z' });
    const pods = [stuck, aPod('b', { claims: ['b'] }), aPod('c'), aPod('d', { priority: 9 })];
    const { clock, result, requested } = setUp(pods, accept, 2_000);
    await clock.advance(8_100);
    expect(await result).toMatchObject({ evicted: 1, remaining: 3 });
    expect(requested).toEqual(['c']);
  });

  it('are not requested when the process was frozen after a handover was recorded', async () => {
    const { clock, result, requested } = setUp([aPod('a', { claims: ['a'] })], accept, 0, undefined, 60_000);
    await clock.advance(61_000);
    expect(await result).toMatchObject({ evicted: 0, remaining: 1 });
    expect(requested).toEqual([]);
  });

  it('end at the deadline while pods terminate', async () => {
    const { clock, result } = setUp([aPod('a')], accept, 60_000);
    await clock.advance(8_100);
    expect(await result).toMatchObject({ evicted: 1, remaining: 1, blockedBy: [{ reason: 'Terminating' }] });
  });

  it('retry a pod once that a budget blocks, then end', async () => {
    const { clock, result, requested } = setUp([aPod('a')], () => held);
    await clock.advance(8_100);
    expect(await result).toMatchObject({ evicted: 0, remaining: 1, blockedBy: [{ reason: 'DisruptionBudget' }] });
    expect(requested).toEqual(['a', 'a']);
  });

  it('continue with retries while others are leaving, since that may free the budget', async () => {
    const answer = (name: string, count: number): EvictionOutcome => (name === 'a' && count < 3 ? held : accept());
    const { clock, result } = setUp([aPod('a'), aPod('b')], answer, 4_000);
    await clock.advance(8_100);
    expect(await result).toMatchObject({ evicted: 2, remaining: 0 });
  });

  it('name the pods that do not go by themselves before those that end', async () => {
    const answer = (name: string): EvictionOutcome => (name === 'web' ? held : accept());
    const pods = [...Array.from({ length: 30 }, (_, number) => aPod(`batch-${number}`)), aPod('web')];
    const { clock, result } = setUp(pods, answer, 60_000);
    await clock.advance(8_100);
    const { blockedBy, remaining } = await result;
    expect(remaining).toBe(31);
    expect(blockedBy.slice(0, 2).map(({ pod, reason }) => `${pod} ${reason}`)).toEqual([
      'apps/web DisruptionBudget',
      'apps/batch-0 Terminating',
    ]);
  });

  it('wait for Retry-After of the API server', async () => {
    const { clock, requested, result } = setUp([aPod('a')], () => ({ ...held, retryAfterMs: 5_000 }));
    await clock.advance(4_900);
    expect(requested).toHaveLength(1);
    await clock.advance(4_000);
    await result;
    expect(requested).toHaveLength(2);
  });

  it('end when another actor uncordons the node', async () => {
    let cordoned = true;
    const { clock, result } = setUp([aPod('a')], accept, 60_000, () => cordoned);
    await clock.advance(1_000);
    cordoned = false;
    await clock.advance(1_100);
    expect(await result).toMatchObject({ evicted: 1, remaining: 1 });
  });

  it('end at once when the agent disconnects', async () => {
    const { clock, result, stop } = setUp([aPod('a')], accept, 60_000);
    await clock.advance(100);
    stop.abort(new Error('away'));
    await expect(result).rejects.toThrow('away');
  });
});
