import { UPDATER_SETTINGS } from '@brupop/shared/api/settings';
import { updaterLeaves } from '@brupop/shared/testing/settings';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { type Execution, rowOf } from './actions.ts';
import { StaleDecisionError } from './host/host.ts';
import { FakeApiserver } from './testing/fake-apiserver.ts';
import { FakeHost } from './testing/fake-host.ts';

const { signal } = new AbortController();

/** A change of the settings that the host has now. */
async function arrange() {
  const clock = new FakeClock();
  const host = new FakeHost('1.26.0');
  const execution: Execution = {
    host,
    api: new FakeApiserver(clock),
    clock,
    shadow: undefined,
    decidedMs: clock.monotonic(),
    isCurrent: () => true,
    signal,
  };
  const expected = await host.settings(UPDATER_SETTINGS);
  const changes = updaterLeaves({ versionLock: '1.25.0' });
  const action = { do: 'configure', changes, expected, reason: '' } as const;
  return { host, execution, action };
}

it('changes settings that are as they were observed', async () => {
  const { host, execution, action } = await arrange();
  await rowOf(action).perform(action, execution);
  expect(host.stored).toEqual({ versionLock: '1.25.0', ignoreWaves: false });
});

it('changes nothing when a user has set the same setting since it was observed', async () => {
  const { host, execution, action } = await arrange();
  host.setSettings({ versionLock: '1.24.0' });
  await expect(rowOf(action).perform(action, execution)).rejects.toThrow(StaleDecisionError);
  expect(host.stored.versionLock).toBe('1.24.0');
});

it('leaves another setting as a user has set it meanwhile', async () => {
  const { host, execution, action } = await arrange();
  host.setSettings({ ignoreWaves: true });
  await rowOf(action).perform(action, execution);
  expect(host.stored).toEqual({ versionLock: '1.25.0', ignoreWaves: true });
});
