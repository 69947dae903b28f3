import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { act } from './act.ts';
import { StaleDecisionError } from './host/host.ts';
import type { Observation } from './state/observe.ts';
import { FakeApiserver } from './testing/fake-apiserver.ts';
import { FakeHost } from './testing/fake-host.ts';

const { signal } = new AbortController();

/** A host that was seen as it is now, and everything that an action needs. */
async function arranged() {
  const clock = new FakeClock();
  const host = new FakeHost('1.26.0');
  const clients = { host, api: new FakeApiserver(clock), clock };
  const settings = { kind: 'read', settings: await host.settings() } as const;
  const seen: Observation = {
    shadow: undefined,
    specAgeMs: 0,
    apiSilentMs: 0,
    wallMs: clock.now(),
    nowMs: clock.monotonic(),
    bootID: 'b',
    uptimeMs: 0,
    host: { kind: 'answered', version: '1.26.0', update: { kind: 'uninitialized' }, settings },
  };
  return { host, clients, seen };
}

const configure = { do: 'configure', changes: { versionLock: '1.25.0' }, reason: '' } as const;

it('changes settings that are as they were seen', async () => {
  const { host, clients, seen } = await arranged();
  await act(configure, seen, clients, signal);
  expect(host.stored).toEqual({ versionLock: '1.25.0', ignoreWaves: false });
});

it.each([{ versionLock: '1.24.0' }, { ignoreWaves: true }])(
  'changes nothing when a person has set %j since the settings were looked at',
  async (byHand) => {
    const { host, clients, seen } = await arranged();
    await host.changeSettings(byHand);
    const before = host.stored;
    await expect(act(configure, seen, clients, signal)).rejects.toThrow(StaleDecisionError);
    expect(host.stored).toBe(before);
  },
);
