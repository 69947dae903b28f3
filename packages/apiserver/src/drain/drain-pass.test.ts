import { FakeClock } from '@brupop/shared/fake-clock';

import { DrainPass } from './drain-pass.ts';
import type { DrainPod } from './drain-policy.ts';
import type { EvictionOutcome } from './eviction.ts';

const makePod = (name: string, attached = false): DrainPod => ({
  metadata: { name, namespace: 'apps', uid: name, resourceVersion: '1' },
  mirror: false,
  finished: false,
  attached,
  own: false,
});

const held: EvictionOutcome = {
  kind: 'blocked',
  block: { reason: 'DisruptionBudget', message: 'held' },
  retryAfterMs: 0,
};

/** A node whose pods end `endMs` after an accepted eviction. */
function setUp(pods: DrainPod[], answer: (pod: string, count: number) => EvictionOutcome, endMs = 0) {
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
  const pass = new DrainPass({ pods: () => [...pods], evict, clock, deadline: clock.monotonic() + 8_000 });
  const stop = new AbortController();
  const result = pass.run(stop.signal);
  return { clock, asked, result, stop, most: () => most };
}

const accept = (): EvictionOutcome => ({ kind: 'accepted' });

describe('a drain pass', () => {
  it('returns when all are gone', async () => {
    const { clock, result, asked } = setUp([makePod('a'), makePod('b')], accept, 3_000);
    await clock.advance(4_000);
    expect(await result).toEqual({ done: false, evicted: 2, remaining: 0, blockedBy: [] });
    expect(asked).toEqual(['a', 'b']);
  });

  it('asks for at most ten pods at a time', async () => {
    const pods = Array.from({ length: 30 }, (_, number) => makePod(`pod-${number}`));
    const { clock, result, most } = setUp(pods, accept);
    await clock.advance(1_000);
    expect((await result).evicted).toBe(30);
    expect(most()).toBe(10);
  });

  it('asks for a pod with a volume only when the one before is gone', async () => {
    const { clock, result, asked } = setUp([makePod('a', true), makePod('b', true)], accept, 2_000);
    await clock.advance(1_900);
    expect(asked).toEqual(['a']);
    await clock.advance(3_000);
    expect(asked).toEqual(['a', 'b']);
    expect((await result).remaining).toBe(0);
  });

  it('ends at its deadline while pods take their time', async () => {
    const { clock, result } = setUp([makePod('a')], accept, 60_000);
    await clock.advance(8_100);
    expect(await result).toMatchObject({ evicted: 1, remaining: 1, blockedBy: [{ reason: 'Terminating' }] });
  });

  it('asks once more for a pod that a budget holds up, then returns', async () => {
    const { clock, result, asked } = setUp([makePod('a')], () => held);
    await clock.advance(8_100);
    expect(await result).toMatchObject({ evicted: 0, remaining: 1, blockedBy: [{ reason: 'DisruptionBudget' }] });
    expect(asked).toEqual(['a', 'a']);
  });

  it('goes on asking while others are on their way, since that may free the budget', async () => {
    const answer = (name: string, count: number): EvictionOutcome => (name === 'a' && count < 3 ? held : accept());
    const { clock, result } = setUp([makePod('a'), makePod('b')], answer, 4_000);
    await clock.advance(8_100);
    expect(await result).toMatchObject({ evicted: 2, remaining: 0 });
  });

  it('waits as long as the API server asks before it asks again', async () => {
    const { clock, asked, result } = setUp([makePod('a')], () => ({ ...held, retryAfterMs: 5_000 }));
    await clock.advance(4_900);
    expect(asked).toHaveLength(1);
    await clock.advance(4_000);
    await result;
    expect(asked).toHaveLength(2);
  });

  it('stops at once when the agent goes away', async () => {
    const { clock, result, stop } = setUp([makePod('a')], accept, 60_000);
    await clock.advance(100);
    stop.abort(new Error('away'));
    await expect(result).rejects.toThrow('away');
  });
});
