/** The whole agent and the settings of its host. */
import { pinned, pinRecords } from '@brupop/shared/testing/settings';
import { HostError } from './host/host.ts';
import { endWorlds, IDLE, MINUTE, NEW, OLD, STAGE, world } from './testing/world.ts';

afterEach(endWorlds);

const OLDER = '1.25.0';
const PINNED = { ...IDLE, settings: pinned({ versionLock: OLDER }) };
const refusal = (): HostError => new HostError('answer', 'PATCH /settings: 400 Invalid version string');

it('records a pin, sets it, refreshes with it, and confirms the spec with the offered version', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.calls.length = 0;
  w.api.reports.length = 0;
  await w.spec(PINNED, 1000);
  expect(w.host.calls).toEqual([`configure ${OLDER}`]);
  expect(w.status).toMatchObject({ observedGeneration: 1, target_version: NEW });
  await w.pass(1000);
  expect(w.host.calls).toEqual([`configure ${OLDER}`, 'refresh']);
  const settings = { records: pinRecords({ versionLock: OLDER }) };
  expect(w.status).toMatchObject({ observedGeneration: 2, target_version: OLDER, settings });
  expect(w.status?.settings).not.toHaveProperty('inFlight');
  expect(w.api.reports).toHaveLength(2);
  await w.pass(60 * MINUTE);
  expect(w.api.reports).toHaveLength(2);
});

it('follows the newest version after a pin, whatever lock it had before, and confirms only when the offer belongs to it', async () => {
  const w = world();
  w.host.setSettings({ versionLock: '1.26.9', ignoreWaves: true });
  await w.pass(MINUTE);
  await w.spec({ ...IDLE, settings: pinned({ versionLock: OLDER, ignoreWaves: false }) }, MINUTE);
  expect(w.host.stored).toEqual({ versionLock: OLDER, ignoreWaves: false });
  await w.spec(IDLE, 1000);
  expect(w.host.stored).toEqual({ versionLock: 'latest', ignoreWaves: false });
  expect(w.status?.observedGeneration).toBe(2);
  await w.pass(1000);
  expect(w.status).toMatchObject({ observedGeneration: 3, target_version: NEW });
  expect(w.status).not.toHaveProperty('settings');
});

it('reports a lock that no pin explains, while the node is at rest, and that it is gone', async () => {
  const w = world();
  w.host.setSettings({ versionLock: '1.25.0' });
  await w.pass(MINUTE);
  expect(w.status).toMatchObject({ observedGeneration: 1, settings: { hostLock: '1.25.0' } });
  w.host.failCall('settings', ...Array.from({ length: 3 }, () => refusal()));
  await w.pass(6 * MINUTE);
  expect(w.status?.settings).toEqual({ hostLock: '1.25.0' });
  await w.spec(PINNED, MINUTE);
  expect(w.status?.settings).not.toHaveProperty('hostLock');
  await w.spec(IDLE, MINUTE);
  expect(w.host.stored.versionLock).toBe('latest');
  expect(w.status).not.toHaveProperty('settings');
});

it.each([
  ['the lock of the pin', OLDER],
  ['another lock', '1.24.0'],
])(
  'follows the fleet after a pin whose record was lost with the shadow, when the host has %s',
  async (_, versionLock) => {
    const w = world();
    await w.pass(MINUTE);
    await w.spec(PINNED, MINUTE);
    w.host.setSettings({ versionLock });
    w.api.recreateShadow();
    await w.spec(PINNED, MINUTE);
    expect(w.status?.settings?.records).toEqual(pinRecords({ versionLock: OLDER }));
    await w.spec(IDLE, MINUTE);
    expect(w.host.stored.versionLock).toBe('latest');
    expect(w.status).not.toHaveProperty('settings');
  },
);

it.each([
  ['another pin', { ...IDLE, settings: pinned({ versionLock: OLDER }) }, OLDER],
  ['no pin any more', IDLE, NEW],
])('checks again a minute after %s, which a slow host has not applied to its first check', async (_, spec, offered) => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec({ ...IDLE, settings: pinned({ versionLock: OLD }) }, 5 * MINUTE);
  w.host.applies = false;
  await w.spec(spec, 10_000);
  expect(w.status?.target_version).toBe(OLD);
  w.host.setSettings(new Map());
  await w.pass(MINUTE);
  expect(w.status?.target_version).toBe(offered);
});

it('needs no settings of a node without requested settings', async () => {
  const w = world();
  w.host.failCall('settings', ...Array.from({ length: 100 }, () => refusal()));
  await w.pass(60 * MINUTE);
  expect(w.status).toMatchObject({ observedGeneration: 1, target_version: NEW });
  expect(w.status).not.toHaveProperty('settings');
  const left = w.host.failing('settings');
  await w.spec(STAGE);
  expect(w.host.failing('settings')).toBe(left);
});

it('refreshes after a new spec although the settings are right: a user may have changed them, and the offer may be older', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(PINNED, MINUTE);
  expect(w.status?.target_version).toBe(OLDER);
  w.host.setSettings({ versionLock: 'latest' });
  await w.spec(IDLE, MINUTE);
  const answers = w.api.reports.filter(({ observedGeneration }) => observedGeneration === 3);
  expect(answers.map((one) => one.target_version)).toEqual([NEW]);
});

it('stores again what an earlier process has stored, unless that was applied for sure', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(PINNED, MINUTE);
  w.host.applies = false;
  await w.spec(IDLE, 500);
  await w.killAgent();
  expect(w.host.appliedLock).toBe(OLDER);
  w.host.applies = true;
  w.startAgent();
  await w.pass(MINUTE);
  expect(w.host.appliedLock).toBe('latest');
  const answers = w.api.reports.filter(({ observedGeneration }) => observedGeneration === 3);
  expect(answers.map((one) => one.target_version)).toEqual([NEW]);
});

it('stores a lock again that the host reports but does not follow', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.applies = false;
  await w.spec(PINNED, 1000);
  w.host.applies = true;
  await w.pass(MINUTE);
  expect(w.status).toMatchObject({ observedGeneration: 2, target_version: OLDER });
  expect(w.host.calls.filter((call) => call.startsWith('configure'))).toHaveLength(2);
});

it('reports no available update and why when the host rejects the settings, and retries slowly', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCall('configure', ...Array.from({ length: 12 }, refusal));
  await w.spec(PINNED, 2 * MINUTE);
  const message = `version-lock ${OLDER}: not in force: PATCH /settings: 400 Invalid version string`;
  expect(w.status).toMatchObject({ observedGeneration: 2, target_version: OLD, settings: { message } });
  const tried = w.host.calls.length;
  await w.pass(10 * MINUTE);
  expect(w.host.calls.length - tried).toBeLessThan(8);
  await w.pass(60 * MINUTE);
  expect(w.status).toMatchObject({ target_version: OLDER });
  expect(w.status?.settings?.records).toEqual(pinRecords({ versionLock: OLDER }));
  expect(w.status?.settings).not.toHaveProperty('message');
});

it('reports why when the host has no settings API, and confirms as usual when nothing is requested any more', async () => {
  const w = world();
  await w.pass(MINUTE);
  const missing = (): HostError => new HostError('unsupported', 'GET /settings: 404');
  w.host.failCall('settings', ...Array.from({ length: 1000 }, missing));
  await w.spec(PINNED, 2 * MINUTE);
  expect(w.status?.settings).toEqual({ message: `version-lock ${OLDER}: not in force: GET /settings: 404` });
  expect(w.status).toMatchObject({ observedGeneration: 2, target_version: OLD });
  await w.spec(IDLE);
  expect(w.status).toMatchObject({ observedGeneration: 3, target_version: NEW });
  expect(w.status).not.toHaveProperty('settings');
});

it('reports why when no refresh succeeds', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCommand('refresh', ...Array.from({ length: 9 }, () => ({ exit: 1, stderr: 'Metadata error' })));
  await w.spec(PINNED, 2 * MINUTE);
  expect(w.status?.settings?.message).toContain('Metadata error');
  expect(w.status).toMatchObject({ observedGeneration: 2, target_version: OLD });
  await w.pass(30 * MINUTE);
  expect(w.status).toMatchObject({ target_version: OLDER });
  expect(w.status?.settings?.message).toBeUndefined();
});

it('confirms the spec after 4 min when another process holds the update lock that long', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.lockedLooks = Infinity;
  await w.host.start('refresh');
  await w.spec(PINNED, 3 * MINUTE);
  expect(w.status?.observedGeneration).toBe(1);
  await w.pass(2 * MINUTE);
  expect(w.status).toMatchObject({ observedGeneration: 2, target_version: OLD });
  expect(w.status?.settings?.message).toContain('no refresh has succeeded for 4 min');
});

it('overrules a user who changes a pinned setting, before the next check for updates', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(PINNED, MINUTE);
  w.host.setSettings({ versionLock: '1.24.0' });
  await w.pass(6 * MINUTE);
  expect(w.host.stored.versionLock).toBe(OLDER);
  expect(w.status?.settings?.records).toEqual(pinRecords({ versionLock: OLDER }));
  expect(w.api.reports.every((one) => one.target_version !== '1.24.0')).toBe(true);
});

it('stages the older version that the host is pinned to, and first sets the pin again when a user has changed it', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(PINNED, MINUTE);
  w.host.setSettings({ versionLock: 'latest' });
  await w.spec({ ...STAGE, version: OLDER, settings: PINNED.settings }, 10_000);
  expect(w.status).toMatchObject({ current_state: 'StagedAndPerformedUpdate' });
  expect(w.host.calls.slice(-3)).toEqual([`configure ${OLDER}`, 'refresh', 'prepare']);
});

it('fails a staging as usual when the host rejects the settings', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCall('settings', ...Array.from({ length: 1000 }, refusal));
  await w.spec({ ...STAGE, version: OLDER, settings: PINNED.settings }, 10 * MINUTE);
  expect(w.status).toMatchObject({ current_state: 'ErrorReset', lastOperation: { errorCode: 'VersionNotOffered' } });
});

it.each([
  ['a newer version with the waves ignored', { ignoreWaves: true }, NEW, '1.28.0'],
  ['no version after a pin was set', { versionLock: OLDER }, OLDER, undefined],
])(
  'ends the staging after one refresh and without a failure when the host offers %s',
  async (_what, pin, version, offered) => {
    const w = world();
    await w.pass(MINUTE);
    await w.spec({ ...IDLE, settings: pinned(pin) }, MINUTE);
    expect(w.status?.target_version).toBe(version);
    w.host.publish(offered);
    w.host.calls.length = 0;
    await w.spec({ ...STAGE, version, settings: pinned(pin) }, 1_000);
    expect(w.host.calls).toEqual(['refresh']);
    expect(w.status).toMatchObject({
      current_state: 'ErrorReset',
      crash_count: 0,
      target_version: offered ?? OLD,
      lastOperation: { errorCode: 'VersionNotOffered' },
    });
  },
);

it('keeps refreshing during a staging until the host applies a pin that was set again', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(PINNED, MINUTE);
  w.host.setSettings({ versionLock: 'latest' });
  w.host.applies = false;
  w.host.calls.length = 0;
  await w.spec({ ...STAGE, version: OLDER, settings: PINNED.settings }, 3_000);
  expect(w.host.calls.slice(0, 2)).toEqual([`configure ${OLDER}`, 'refresh']);
  w.host.setSettings({ versionLock: OLDER });
  await w.pass(10_000);
  expect(w.status).toMatchObject({ current_state: 'StagedAndPerformedUpdate', crash_count: 0 });
});
