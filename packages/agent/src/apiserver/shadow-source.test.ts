import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import type { ShadowStatus } from '@brupop/shared/api/shadow';
import { createLogger } from '@brupop/shared/runtime/log';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { FakeApiserver } from '../testing/fake-apiserver.ts';
import { ApiError } from './messages.ts';
import { ShadowSource } from './shadow-source.ts';

const status: ShadowStatus = {
  current_state: 'Idle',
  current_version: '1.26.0',
  target_version: '1.26.0',
  crash_count: 0,
  observedGeneration: 1,
  bootID: 'boot-1',
};
const shadow: AgentShadow = { uid: 'uid-1', generation: 2, spec: { state: 'Idle' }, status };

async function follow(first?: AgentShadow, lines: string[] = []) {
  const clock = new FakeClock();
  const api = new FakeApiserver(clock, first);
  const stop = new AbortController();
  let changes = 0;
  const log = createLogger({ clock, write: (line) => void lines.push(line) });
  const source = new ShadowSource({ api, clock, log, changed: () => (changes += 1), random: () => 0.5 });
  const running = source.run(stop.signal);
  await clock.advance(0);
  return {
    clock,
    api,
    source,
    changes: () => changes,
    seen: () => source.view().shadow,
    end: async (): Promise<void> => {
      stop.abort(new Error('the test is over'));
      await clock.advance(0);
      await running;
    },
  };
}

it('creates the shadow before it watches it', async () => {
  const { api, seen, end } = await follow();
  expect(api.calls).toEqual(['read', 'stream']);
  expect(seen()).toMatchObject({ generation: 1 });
  await end();
});

it('ignores a spec older than the known one: another replica may lag behind', async () => {
  const { api, clock, seen, end } = await follow(shadow);
  api.send({ type: 'shadow', shadow: { ...shadow, generation: 1 } });
  await clock.advance(0);
  expect(seen()?.generation).toBe(2);
  api.send({ type: 'shadow', shadow: { ...shadow, uid: 'uid-2', generation: 1 } });
  await clock.advance(0);
  expect(seen()).toMatchObject({ uid: 'uid-2', generation: 1 });
  await end();
});

it('never replaces the known status by one of the stream, whose watch may lag by hours', async () => {
  const { api, clock, source, seen, end } = await follow(shadow);
  source.acknowledged(shadow, { ...status, target_version: '1.27.0' });
  api.shadow = { ...shadow, status: { ...status, target_version: '1.27.0' } };
  api.send({ type: 'shadow', shadow });
  await clock.advance(0);
  expect(seen()?.status?.target_version).toBe('1.27.0');
  for (let minute = 0; minute < 6; minute += 1) {
    await clock.advance(10_000);
    api.send({ type: 'heartbeat' });
  }
  api.send({ type: 'shadow', shadow: { ...shadow, generation: 3 } });
  await clock.advance(0);
  expect(seen()).toMatchObject({ generation: 3, status: { target_version: '1.27.0' } });
  await end();
});

it.each([
  ['wiped', undefined],
  ['changed', { ...status, crash_count: 7 }],
])('reads live what a user has %s, once the stream has delivered it for a while', async (_what, written) => {
  const { status: _, ...bare } = shadow;
  const edited: AgentShadow = written === undefined ? bare : { ...bare, status: written };
  const { api, clock, seen, end } = await follow(shadow);
  api.shadow = edited;
  api.send({ type: 'shadow', shadow: edited });
  await clock.advance(4_000);
  api.send({ type: 'heartbeat' });
  await clock.advance(0);
  expect(seen()?.status).toEqual(status);
  await clock.advance(1_000);
  api.send({ type: 'heartbeat' });
  await clock.advance(1_000);
  expect(seen()).toEqual(edited);
  expect(api.calls.filter((call) => call === 'read')).toHaveLength(2);
  await end();
});

it('takes an earlier spec with another status, which is in a live read: etcd was restored from a backup', async () => {
  const { api, clock, seen, end } = await follow({ ...shadow, generation: 12 });
  const restored = { ...shadow, generation: 9, status: { ...status, observedGeneration: 9 } };
  api.shadow = restored;
  api.send({ type: 'shadow', shadow: restored });
  await clock.advance(5_000);
  api.send({ type: 'heartbeat' });
  await clock.advance(1_000);
  expect(seen()).toEqual(restored);
  api.send({ type: 'shadow', shadow: { ...restored, generation: 10 } });
  await clock.advance(0);
  expect(seen()?.generation).toBe(10);
  await end();
});

it('takes an earlier spec when a report was acknowledged between the restore of etcd and the relist', async () => {
  const { api, clock, source, seen, end } = await follow({ ...shadow, generation: 10 });
  const reported = { ...status, crash_count: 1 };
  const restored = { ...shadow, generation: 8, status: reported };
  api.shadow = restored;
  source.acknowledged(restored, reported);
  expect(seen()?.generation).toBe(10);
  api.send({ type: 'shadow', shadow: restored });
  await clock.advance(10_000);
  api.send({ type: 'heartbeat' });
  await clock.advance(1_000);
  expect(seen()).toEqual(restored);
  await end();
});

it('reads live once for each heartbeat at most while a replica shows an earlier spec', async () => {
  const { api, clock, seen, end } = await follow({ ...shadow, generation: 2 });
  const beats = 6;
  for (let beat = 0; beat < beats; beat += 1) {
    api.send({ type: 'shadow', shadow: { ...shadow, generation: 1 } });
    await clock.advance(10_000);
    api.send({ type: 'heartbeat' });
    await clock.advance(1_000);
  }
  expect(seen()?.generation).toBe(2);
  expect(api.calls.filter((call) => call === 'read')).toHaveLength(1 + beats);
  await end();
});

it('keeps a report that the stream delivered before its acknowledgement', async () => {
  const { api, clock, source, end } = await follow(shadow);
  const reported = { ...status, crash_count: 1 };
  api.send({ type: 'shadow', shadow: { ...shadow, status: reported } });
  await clock.advance(10);
  source.acknowledged(shadow, reported);
  for (let beat = 0; beat < 6; beat += 1) {
    await clock.advance(10_000);
    api.send({ type: 'heartbeat' });
  }
  await clock.advance(1_000);
  expect(api.calls).toEqual(['read', 'stream']);
  await end();
});

it('keeps a report that was acknowledged during a live read', async () => {
  const { api, clock, source, seen, end } = await follow(shadow);
  const { status: _, ...bare } = shadow;
  api.send({ type: 'shadow', shadow: bare });
  await clock.advance(5_000);
  const live = await api.read();
  api.read = async () => {
    source.acknowledged(shadow, { ...status, crash_count: 1 });
    return live;
  };
  api.send({ type: 'heartbeat' });
  await clock.advance(1_000);
  expect(seen()?.status?.crash_count).toBe(1);
  await end();
});

it('uses the status that was read live at its start, not an older one of the stream', async () => {
  const { api, clock, seen, end } = await follow(shadow);
  api.send({ type: 'shadow', shadow: { ...shadow, status: { ...status, crash_count: 7 } } });
  await clock.advance(0);
  expect(seen()?.status?.crash_count).toBe(0);
  await end();
});

it('keeps its reported status when the stream delivers the next spec before the response', async () => {
  const { api, clock, source, seen, end } = await follow(shadow);
  source.acknowledged(shadow, status);
  const failed: ShadowStatus = { ...status, current_state: 'ErrorReset', crash_count: 1, observedGeneration: 2 };
  api.send({ type: 'shadow', shadow: { ...shadow, generation: 3, status: failed } });
  await clock.advance(0);
  source.acknowledged(shadow, failed);
  expect(seen()).toEqual({ ...shadow, generation: 3, status: failed });
  await end();
});

it('counts staleness from the last message, and as infinite while no stream is connected', async () => {
  const { api, clock, source, end } = await follow(shadow);
  await clock.advance(5000);
  expect(source.view().specAgeMs).toBe(5000);
  api.send({ type: 'heartbeat' });
  await clock.advance(1000);
  expect(source.view().specAgeMs).toBe(1000);
  api.send(new Error('reset'));
  await clock.advance(0);
  expect(source.view().specAgeMs).toBe(Infinity);
  await clock.advance(1000);
  expect(source.view().specAgeMs).toBeLessThan(1000);
  await end();
});

it('counts an acknowledged report as a confirmation of the spec', async () => {
  const { api, clock, source, end } = await follow(shadow);
  api.unreachable = true;
  api.send(new Error('reset'));
  await clock.advance(5000);
  source.acknowledged(shadow, status);
  await clock.advance(1000);
  expect(source.view().specAgeMs).toBe(1000);
  await end();
});

it('reconnects at once on an updating node when the server ends the stream, on an idle one after a random pause', async () => {
  const pauses: number[] = [];
  for (const state of ['RebootedIntoUpdate', 'Idle'] as const) {
    const { api, clock, end } = await follow({ ...shadow, spec: { state, version: '1.27.0' } });
    api.send({ type: 'end', reason: 'the apiserver is shutting down' });
    const before = api.calls.length;
    const endedAt = clock.monotonic();
    while (api.calls.length === before) await clock.advance(10);
    pauses.push(clock.monotonic() - endedAt);
    await end();
  }
  expect(pauses[0]).toBeLessThan(300);
  expect(pauses[1]).toBeGreaterThan(1000);
});

it('reconnects with jittered pauses that grow to 30 s', async () => {
  const { api, clock, end } = await follow(shadow);
  api.unreachable = true;
  api.send(new Error('reset'));
  await clock.advance(10 * 60_000);
  api.unreachable = false;
  const before = api.calls.length;
  await clock.advance(30_000);
  expect(api.calls.length).toBe(before + 1);
  expect(api.streams).toBe(1);
  await end();
});

it('retries when the shadow cannot be created', async () => {
  const { api, clock, seen, end } = await follow(shadow);
  api.shadow = undefined;
  api.fail('read', ...Array.from({ length: 3 }, () => new ApiError('NotFound', 'no such Node')));
  api.send({ type: 'deleted' });
  await clock.advance(0);
  expect(seen()).toBeUndefined();
  await clock.advance(30_000);
  expect(seen()?.uid).toBe('uid-1');
  await end();
});

it('opens another stream when the current one is reported to lag', async () => {
  const { api, clock, source, end } = await follow(shadow);
  source.reconnect();
  await clock.advance(5000);
  expect(api.calls).toEqual(['read', 'stream', 'stream']);
  expect(api.streams).toBe(1);
  await end();
});

it('announces each change', async () => {
  const { api, clock, changes, end } = await follow(shadow);
  const before = changes();
  api.setSpec({ state: 'StagedAndPerformedUpdate', version: '1.27.0' });
  await clock.advance(0);
  expect(changes()).toBe(before + 1);
  await end();
});

it('backs off from a stream that breaks right after each shadow, and logs that once', async () => {
  const lines: string[] = [];
  const { api, clock, end } = await follow(shadow, lines);
  for (let second = 0; second < 300; second += 1) {
    api.send(new ApiError('Unintelligible', `garbage ${second}`));
    await clock.advance(1000);
  }
  expect(api.calls.filter((call) => call === 'stream').length).toBeLessThan(30);
  expect(lines).toHaveLength(1);
  await end();
});
