/** The whole agent and settings that take effect with a boot. */
import type { Allowed, ShadowSpec } from '@brupop/shared/api/shadow';
import { grouped, pinned } from '@brupop/shared/testing/settings';
import { HostError } from './host/host.ts';
import { endWorlds, IDLE, MINUTE, MONITOR, NEW, OLD, REBOOT, STAGE, type World, world } from './testing/world.ts';

afterEach(endWorlds);

const KEY = 'settings.kernel.lockdown';
const LOCKDOWN = { kernel: { lockdown: 'integrity' } };
const settingsOf = (nested: object, allow: Allowed): Pick<ShadowSpec, 'settings'> => ({
  settings: grouped(nested, allow),
});
const granted = settingsOf(LOCKDOWN, 'NeedsReboot');
const atRest = (nested: object = LOCKDOWN): ShadowSpec => ({ ...IDLE, ...settingsOf(nested, 'None') });
/** The node is to boot the version that it runs. */
const STAGE_AGAIN: ShadowSpec = { ...STAGE, ...granted, version: OLD };
const REBOOT_AGAIN: ShadowSpec = { ...REBOOT, ...granted, version: OLD };
const AGAIN = { current_state: 'RebootedIntoUpdate', current_version: OLD, crash_count: 0 };

/** A host at rest that runs what a reboot would boot, and for which the settings are requested. */
async function idleWorld(before: string | undefined = 'none'): Promise<World> {
  const w = world(undefined, undefined);
  w.host.classOf = () => 'NeedsReboot';
  if (before !== undefined) w.host.setSettings(new Map([[KEY, JSON.stringify(before)]]));
  await w.pass(MINUTE);
  await w.spec(atRest(), 3000);
  w.host.calls.length = 0;
  w.api.calls.length = 0;
  return w;
}

async function rebooted(w: World): Promise<void> {
  await w.spec(STAGE_AGAIN, 5000);
  await w.spec(REBOOT_AGAIN, 10_000);
  await w.boot();
}

it('sets what needs a reboot with an update, after the drain, and confirms it after the boot', async () => {
  const w = await idleWorld();
  w.host.publish(NEW);
  await w.spec({ ...STAGE, ...granted }, 10_000);
  expect(w.status?.current_state).toBe('StagedAndPerformedUpdate');
  expect(w.host.calls).toEqual(['refresh', 'prepare']);
  await w.spec({ ...REBOOT, ...granted }, 10_000);
  expect(w.host.calls).toEqual(['refresh', 'prepare', 'configure integrity', 'activate', 'reboot']);
  expect(w.status?.settings).toMatchObject({ inFlight: {}, records: [{ before: '"none"', bootID: 'boot-1' }] });
  await w.boot();
  await w.spec({ ...MONITOR, ...granted });
  await w.spec(atRest(), 10_000);
  const { lastApplied, ...settings } = w.status?.settings ?? {};
  expect(lastApplied?.hash).toBeDefined();
  expect(settings).toEqual({
    records: [{ key: KEY, value: '"integrity"', before: '"none"', owner: 'BottlerocketNodeGroup/web' }],
  });
});

it.each(['settings', 'classify', 'configure'] as const)(
  'needs no other reboot for settings when one answer to %s is lost after the drain of an update',
  async (call) => {
    const w = await idleWorld();
    w.host.publish(NEW);
    await w.spec({ ...STAGE, ...granted }, 10_000);
    const drain = w.api.drain.bind(w.api);
    w.api.drain = (reference) => {
      w.host.failCall(call, new HostError('unanswered', 'no answer'));
      w.api.drain = drain;
      return drain(reference);
    };
    await w.spec({ ...REBOOT, ...granted }, 20_000);
    expect([w.host.failing(call), w.host.rebootAsked, w.host.valueOf(KEY)]).toEqual([0, true, '"integrity"']);
  },
);

it('reboots into an update without settings that the host refuses, after a few seconds', async () => {
  const w = await idleWorld();
  w.host.publish(NEW);
  await w.spec({ ...STAGE, ...granted }, 10_000);
  w.host.failCall('configure', ...Array.from({ length: 99 }, () => new HostError('answer', 'PATCH /settings: 400')));
  await w.spec({ ...REBOOT, ...granted }, 20_000);
  expect([w.host.rebootAsked, w.host.valueOf(KEY)]).toEqual([true, '"none"']);
});

it('reboots a drained node for settings alone, once', async () => {
  const w = await idleWorld();
  expect(w.status?.settings?.pending).toMatchObject([{ key: KEY, class: 'NeedsReboot' }]);
  await w.spec(STAGE_AGAIN, 5000);
  expect(w.status?.current_state).toBe('StagedAndPerformedUpdate');
  expect(w.host.calls).toEqual([]);
  await w.spec(REBOOT_AGAIN, 10_000);
  expect(w.host.calls).toEqual(['configure integrity', 'reboot']);
  expect(w.api.calls).toContain('drain');
  expect(w.api.calls).not.toContain('restore');
  await w.boot();
  expect(w.status).toMatchObject({ ...AGAIN, lastOperation: { operation: 'Restore', state: 'Succeeded' } });
  expect(w.api.calls).toContain('restore');
  await w.spec(atRest(), 10_000);
  expect(w.status?.settings).not.toHaveProperty('pending');
  await w.pass(60 * MINUTE);
  expect(w.host.calls.filter((call) => call === 'reboot')).toHaveLength(1);
});

it('neither drains nor reboots when nothing is left to set', async () => {
  const w = await idleWorld('integrity');
  await w.spec(STAGE_AGAIN, 5000);
  await w.spec(REBOOT_AGAIN, 10_000);
  expect(w.status).toMatchObject(AGAIN);
  expect([w.host.calls, w.api.calls.includes('drain')]).toEqual([[], false]);
});

it('neither drains nor reboots for a version lock that a user has changed', async () => {
  const w = await idleWorld('integrity');
  const leaves = [...(pinned({ versionLock: OLD })?.leaves ?? []), ...(granted.settings?.leaves ?? [])];
  const settings = { leaves, allow: 'NeedsReboot' } as const;
  await w.spec({ ...STAGE_AGAIN, settings }, 5000);
  w.host.setSettings({ versionLock: 'latest' });
  await w.spec({ ...REBOOT_AGAIN, settings }, 10_000);
  expect(w.status).toMatchObject(AGAIN);
  expect(w.api.calls).not.toContain('drain');
});

it('neither drains nor reboots for settings that the spec does not allow', async () => {
  const w = await idleWorld();
  const { settings } = atRest();
  await w.spec({ ...STAGE_AGAIN, settings: settings ?? null }, 5000);
  await w.spec({ ...REBOOT_AGAIN, settings: settings ?? null }, 10_000);
  expect(w.status).toMatchObject(AGAIN);
  expect([w.host.calls, w.api.calls.includes('drain')]).toEqual([[], false]);
});

it('boots no update that another actor has activated', async () => {
  const w = await idleWorld();
  w.host.publish(NEW);
  await w.spec(STAGE_AGAIN, 5000);
  for (const command of ['refresh', 'prepare', 'activate'] as const) await w.host.command(command);
  w.host.calls.length = 0;
  await w.spec(REBOOT_AGAIN, 20_000);
  expect(w.host.calls).toEqual(['deactivate', 'configure integrity', 'reboot']);
  await w.boot();
  expect(w.status).toMatchObject(AGAIN);
});

it('fails after a bounded number of tries when the host cannot undo what another actor has activated', async () => {
  const w = await idleWorld();
  w.host.publish(NEW);
  await w.spec(STAGE_AGAIN, 5000);
  for (const command of ['refresh', 'prepare', 'activate'] as const) await w.host.command(command);
  w.host.calls.length = 0;
  const stderr = 'Failed to fetch timestamp.json';
  w.host.failCommand('deactivate', ...Array.from({ length: 1000 }, () => ({ exit: 1, stderr })));
  await w.spec(REBOOT_AGAIN, MINUTE);
  expect(w.host.calls.length).toBeLessThanOrEqual(7);
  await w.pass(5 * MINUTE);
  expect(w.status).toMatchObject({ current_state: 'ErrorReset', lastOperation: { errorCode: 'ActivateFailed' } });
  expect(w.status?.lastOperation?.message).toContain(stderr);
  expect(w.api.calls).not.toContain('drain');
});

it('leaves no node drained when a user changes what was set, and the answer to that was lost', async () => {
  const w = await idleWorld();
  await w.spec(STAGE_AGAIN, 5000);
  const change = w.host.changeSettings.bind(w.host);
  w.host.changeSettings = async (changes) => {
    await change(changes);
    w.host.setSettings(new Map([[KEY, '"confidentiality"']]));
    throw new HostError('unanswered', 'no answer');
  };
  await w.spec(REBOOT_AGAIN, 20_000);
  expect(w.host.rebootAsked).toBe(true);
  await w.boot();
  expect(w.status).toMatchObject(AGAIN);
  await w.spec(atRest(), 10_000);
  expect(w.status?.settings?.conflicts).toEqual([KEY]);
  expect(w.host.valueOf(KEY)).toBe('"confidentiality"');
});

it('reports settings that are stored and not booted as pending, until any boot', async () => {
  const w = await idleWorld();
  await w.spec(STAGE_AGAIN, 5000);
  w.host.failCall(
    'reboot',
    ...Array.from({ length: 1000 }, () => new HostError('answer', 'POST /actions/reboot: 409')),
  );
  await w.spec(REBOOT_AGAIN, MINUTE);
  await w.spec(atRest(), 10 * MINUTE);
  const reason = 'it is stored, and takes effect with the next boot';
  expect(w.status?.settings?.pending).toEqual([{ key: KEY, class: 'NeedsReboot', reason }]);
  await w.boot();
  await w.pass(MINUTE);
  expect(w.status?.settings).not.toHaveProperty('pending');
  expect(w.status?.settings?.records).toHaveLength(1);
});

it('does not reboot without settings that the host refuses: the attempt fails, and leaves no reboot behind', async () => {
  const w = await idleWorld();
  await w.spec(STAGE_AGAIN, 5000);
  w.host.failCall('configure', ...Array.from({ length: 5 }, () => new HostError('answer', 'PATCH /settings: 400')));
  await w.spec(REBOOT_AGAIN, 10 * MINUTE);
  expect(w.status).toMatchObject({
    current_state: 'ErrorReset',
    crash_count: 1,
    lastOperation: { state: 'Failed', errorCode: 'SettingsFailed', message: 'PATCH /settings: 400' },
  });
  expect(w.host.calls).not.toContain('reboot');
  expect(w.api.calls.at(-1)).not.toBe('drain');
  await w.spec(IDLE, 10 * MINUTE);
  expect(w.status).toMatchObject({ current_state: 'Idle' });
  expect(w.status).not.toHaveProperty('settings');
});

it('restores former values with another reboot, and reports that until the boot', async () => {
  const w = await idleWorld();
  await rebooted(w);
  await w.spec(IDLE, 10_000);
  expect(w.host.valueOf(KEY)).toBe('"integrity"');
  expect(w.status?.settings?.pending).toMatchObject([{ key: KEY, class: 'NeedsReboot' }]);
  const back = settingsOf({}, 'NeedsReboot');
  await w.spec({ ...STAGE_AGAIN, ...back }, 5000);
  await w.spec({ ...REBOOT_AGAIN, ...back }, 10_000);
  expect(w.host.valueOf(KEY)).toBe('"none"');
  expect(w.host.calls).toEqual(['configure integrity', 'reboot', 'configure none', 'reboot']);
  await w.boot();
  expect(w.status).toMatchObject(AGAIN);
  await w.spec(IDLE, 10_000);
  expect(w.status).not.toHaveProperty('settings');
});

it.each([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 25, 30, 40])(
  'reboots once when its process is killed after %s turns',
  async (turns) => {
    const w = await idleWorld();
    await w.spec(STAGE_AGAIN, 5000);
    w.api.setSpec(REBOOT_AGAIN);
    for (let turn = 0; turn < turns; turn += 1) await w.clock.advance(0);
    await w.killAgent();
    w.startAgent();
    await w.pass(20 * MINUTE);
    if (w.status?.current_state !== 'RebootedIntoUpdate') await w.boot();
    expect(w.status).toMatchObject(AGAIN);
    expect(w.host.valueOf(KEY)).toBe('"integrity"');
    expect(w.host.calls).toContain('reboot');
    await w.spec(atRest(), 10_000);
    expect(w.status?.settings).not.toHaveProperty('pending');
  },
);

it.each([OLD, NEW])(
  'reboots within seconds into %s when its process is killed right before it requests the reboot',
  async (version) => {
    const w = await idleWorld();
    w.host.publish(NEW);
    await w.spec({ ...STAGE_AGAIN, version }, 10_000);
    w.host.reboot = () => new Promise(() => undefined);
    w.api.setSpec({ ...REBOOT_AGAIN, version });
    await w.pass(10_000);
    expect(w.status?.lastOperation?.operation).toBe('Reboot');
    Reflect.deleteProperty(w.host, 'reboot');
    w.startAgent();
    await w.pass(10_000);
    expect(w.host.rebootAsked).toBe(true);
    expect(w.host.calls.filter((call) => call.startsWith('configure'))).toHaveLength(1);
  },
);
