import { FakeClock } from '../testing/fake-clock.ts';
import type { KubeClient } from './client.ts';
import { Events, type EventSource } from './events.ts';

const ABOUT = { apiVersion: 'v1', kind: 'Node', name: 'a', uid: 'u' };

describe('Events of a fleet of 5,000 nodes', () => {
  const clock = new FakeClock();
  const counts: Record<string, number> = {};
  const client = { request: async () => await Promise.resolve({}) } as unknown as KubeClient;
  const log = { warn: () => undefined } as unknown as ConstructorParameters<typeof Events>[0]['log'];
  const count = (result: string): void => void (counts[result] = (counts[result] ?? 0) + 1);
  const events = new Events({ client, clock, log, component: 'test', instance: 'test', count });
  const event = (index: number, isMinor: boolean): EventSource => {
    return { reason: 'Waiting', warning: false, about: ABOUT, message: '', key: `${index}`, isMinor };
  };

  it('are bounded when all nodes begin to wait at once, and leave room for those of updates', async () => {
    for (let index = 0; index < 5_000; index += 1) events.record(event(index, true));
    events.record(event(0, false));
    expect(events.queued).toBe(101);
    await clock.advance(0);
    while ((counts['ok'] ?? 0) < 101) await new Promise((done) => setImmediate(done));
    expect(counts).toEqual({ dropped: 4_900, ok: 101 });
    expect(events.queued).toBe(0);
  });

  it('continue at one a second', async () => {
    await clock.advance(10_000);
    for (let index = 0; index < 20; index += 1) events.record(event(index, true));
    while ((counts['ok'] ?? 0) < 111) await new Promise((done) => setImmediate(done));
    expect(counts).toEqual({ dropped: 4_910, ok: 111 });
  });
});
