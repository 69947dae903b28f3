/** The whole agent when the own values of its host are restored, and when settings of a group cannot be classified. */
import { hashOf } from '@brupop/shared/api/settings';
import type { Allowed, ShadowSpec } from '@brupop/shared/api/shadow';
import { grouped, pinned } from '@brupop/shared/testing/settings';
import { ApiError } from './apiserver/messages.ts';
import { HostError } from './host/host.ts';
import {
  configured,
  cutOff,
  endWorlds,
  IDLE,
  MINUTE,
  MONITOR,
  NEW,
  OLD,
  REBOOT,
  STAGE,
  type World,
  world,
} from './testing/world.ts';

afterEach(endWorlds);

const MOTD = 'settings.motd';
const LOCK = 'settings.updates.version-lock';
const PODS = 'settings.kubernetes.max-pods';
const OWN = '"Welcome to Bottlerocket!"';

async function idleWorld(): Promise<World> {
  const w = world();
  w.host.classOf = (key) => (key === PODS ? 'RestartsService' : 'Live');
  await w.pass(MINUTE);
  w.host.calls.length = 0;
  return w;
}

const wanted = (nested: object, allow: Allowed = 'Live'): ShadowSpec => ({ ...IDLE, settings: grouped(nested, allow) });

const dropped = wanted({});

it.each([false, true])(
  'restores its own values again when a loss had nothing to do with them, new process: %s',
  async (isNew) => {
    const w = await idleWorld();
    await w.spec(wanted({ motd: 'a' }), 3000);
    await cutOff(w, dropped);
    await w.pass(3 * MINUTE);
    expect(w.host.valueOf(MOTD)).toBe('"a"');
    if (isNew) {
      await w.killAgent();
      w.startAgent();
    }
    w.api.unreachable = false;
    await w.pass(16 * MINUTE);
    expect(w.host.valueOf(MOTD)).toBe(OWN);
    expect(w.status).toMatchObject({ observedGeneration: 3 });
    expect(w.status?.settings ?? {}).not.toHaveProperty('inFlight');
    expect(w.status?.settings ?? {}).not.toHaveProperty('message');
  },
);

it('restores its own values twice more at most, while that cuts it off', async () => {
  const w = await idleWorld();
  await w.spec(wanted({ motd: 'a' }), 3000);
  await cutOff(w, dropped);
  for (const minutes of [8, 19]) {
    await w.pass(4 * MINUTE);
    expect(w.host.valueOf(MOTD)).toBe('"a"');
    w.api.unreachable = false;
    const before = configured(w).length;
    await w.pass(minutes * MINUTE);
    for (let step = 0; step < 400 && configured(w).length === before; step += 1) await w.pass(500);
    w.api.unreachable = true;
    w.api.send(new ApiError('Unreachable', 'socket hang up'));
  }
  await w.pass(4 * MINUTE);
  w.api.unreachable = false;
  await w.pass(120 * MINUTE);
  expect(configured(w).filter((call) => call === 'configure a')).toHaveLength(4);
  expect(w.host.valueOf(MOTD)).toBe('"a"');
});

describe('settings of a group are not set again, which may restart services, without a grant that covers it', () => {
  const pods = { kubernetes: { 'max-pods': 50 } };
  const { leaves } = grouped(pods, 'None');
  const withPin: ShadowSpec = {
    ...IDLE,
    settings: { allow: 'None', leaves: [...(pinned({ versionLock: NEW })?.leaves ?? []), ...leaves] },
  };
  const proved = async (): Promise<World> => {
    const w = await idleWorld();
    await w.spec(wanted(pods, 'RestartsService'), MINUTE);
    await w.spec(wanted(pods, 'None'), MINUTE);
    w.host.calls.length = 0;
    return w;
  };

  it('when the agent ends while a pin takes effect', async () => {
    const w = await proved();
    w.api.setSpec(withPin);
    for (let turn = 0; turn < 500 && configured(w).length === 0; turn += 1) await w.clock.advance(0);
    await w.killAgent();
    w.startAgent();
    await w.pass(5 * MINUTE);
    expect(configured(w)).toEqual([`configure ${NEW}`, `configure ${NEW}`]);
    expect(w.status?.settings).not.toHaveProperty('inFlight');
    expect(w.status).toMatchObject({ observedGeneration: w.api.shadow?.generation, target_version: NEW });
  });

  it('when the host does not answer the call that sets a pin', async () => {
    const w = await proved();
    w.host.failCall('configure', new HostError('unanswered', 'POST /tx/commit_and_apply: no answer'));
    await w.spec(withPin, 5 * MINUTE);
    expect(configured(w)).toEqual([`configure ${NEW}`, `configure ${NEW}`]);
    expect(w.status).toMatchObject({ observedGeneration: w.api.shadow?.generation, target_version: NEW });
  });

  it('when the agent ends after the reboot that has brought them', async () => {
    const w = await proved();
    w.host.classOf = (key) => (key === MOTD ? 'Live' : 'NeedsReboot');
    const both = { ...pods, kernel: { lockdown: 'integrity' } };
    await w.spec(wanted(both, 'None'), MINUTE);
    const attempt = { version: OLD, settings: grouped(both, 'NeedsReboot') };
    await w.spec({ ...STAGE, ...attempt }, MINUTE);
    await w.spec({ ...REBOOT, ...attempt }, MINUTE);
    await w.boot();
    await w.spec({ ...MONITOR, ...attempt }, MINUTE);
    w.host.calls.length = 0;
    await w.killAgent();
    w.startAgent();
    await w.spec(wanted(both, 'None'), 5 * MINUTE);
    expect(configured(w)).toEqual([]);
    expect(w.status?.settings).not.toHaveProperty('inFlight');
    expect(w.status).toMatchObject({ observedGeneration: w.api.shadow?.generation });
    await w.spec(wanted({ ...both, motd: 'x' }, 'None'), MINUTE);
    await w.spec(wanted({ ...both, motd: 'x' }, 'Live'), MINUTE);
    expect(configured(w)).toEqual(['configure x']);
  });

  it.each(['the agent ends', 'the host does not answer'])('when %s during a change that restarts none', async (end) => {
    const w = await proved();
    w.host.classOf = (key) => (key === MOTD ? 'Live' : 'RestartsService');
    await w.spec(wanted({ ...pods, motd: 'x' }, 'None'), MINUTE);
    if (end !== 'the agent ends') w.host.failCall('configure', new HostError('unanswered', 'POST: no answer'));
    w.api.setSpec(wanted({ ...pods, motd: 'x' }, 'Live'));
    for (let turn = 0; turn < 500 && configured(w).length === 0; turn += 1) await w.clock.advance(0);
    if (end === 'the agent ends') {
      await w.killAgent();
      w.startAgent();
    }
    await w.pass(2 * MINUTE);
    expect(configured(w)).toEqual(['configure x', 'configure x']);
    expect(w.status?.settings).not.toHaveProperty('inFlight');
    expect(w.status).toMatchObject({ observedGeneration: w.api.shadow?.generation });
  });
});

describe('settings of a group while no refresh succeeds with those of the updater', () => {
  const withLock = (nested: object, allow: Allowed): NonNullable<ShadowSpec['settings']> => {
    const lock = pinned({ versionLock: OLD }) ?? { leaves: [] };
    return { allow, leaves: [...lock.leaves, ...grouped(nested, allow).leaves] };
  };

  it('are in force, and only the lock is said not to be', async () => {
    const w = await idleWorld();
    const settings = withLock({ motd: 'a' }, 'Live');
    await w.spec({ ...IDLE, settings: { ...settings, allow: 'None' } }, MINUTE);
    w.host.failCommand('refresh', ...Array.from({ length: 200 }, () => ({ exit: 1, stderr: 'no route to host' })));
    await w.spec({ ...IDLE, settings }, 2 * MINUTE);
    expect(w.host.valueOf(MOTD)).toBe('"a"');
    const message = expect.stringMatching(`^version-lock ${OLD}: not in force: .*no route to host`) as string;
    const hash = hashOf(settings.leaves.map(({ key, value }) => [key, value]));
    expect(w.status).toMatchObject({
      observedGeneration: w.api.shadow?.generation,
      settings: { message, lastApplied: { hash } },
    });
  });

  it('are in force also when the host applies everything but the lock', async () => {
    const w = await idleWorld();
    w.host.applies = false;
    const settings = withLock({ motd: 'a' }, 'Live');
    await w.spec({ ...IDLE, settings: { ...settings, allow: 'None' } }, MINUTE);
    await w.spec({ ...IDLE, settings }, MINUTE);
    const message = expect.stringMatching(`^version-lock ${OLD}: not in force: `) as string;
    const hash = hashOf(settings.leaves.map(({ key, value }) => [key, value]));
    // Also while a retry of the lock takes effect.
    for (let passed = 0; passed < 5 * MINUTE; passed += 500) {
      await w.pass(500);
      expect(w.status).toMatchObject({
        observedGeneration: w.api.shadow?.generation,
        settings: { message, lastApplied: { hash } },
      });
    }
  });

  it('are not said to be in force when the host rejects them', async () => {
    const w = await idleWorld();
    await w.spec({ ...IDLE, settings: withLock({ motd: 'a' }, 'Live') }, MINUTE);
    expect(w.status?.settings).toHaveProperty('lastApplied');
    w.host.failCall('configure', ...Array.from({ length: 200 }, () => new HostError('answer', 'PATCH: 500')));
    await w.spec({ ...IDLE, settings: withLock({ motd: 'b' }, 'Live') }, 10 * MINUTE);
    expect(w.status?.settings?.message).toContain('settings.motd');
    expect(w.status?.settings).not.toHaveProperty('lastApplied');
  });
});

it('settings of a group are set while an update command of another process runs on the host', async () => {
  const w = await idleWorld();
  await w.spec(wanted({ motd: 'a' }, 'None'), MINUTE);
  w.host.lockedLooks = Infinity;
  await w.host.start('refresh');
  w.host.calls.length = 0;
  await w.spec(wanted({ motd: 'a' }), 5 * MINUTE);
  expect(w.host.calls).toEqual(['configure a']);
  expect(w.status).toMatchObject({ observedGeneration: w.api.shadow?.generation });
  expect(w.status?.settings).not.toHaveProperty('message');
});

describe('settings of a group that cannot be classified', () => {
  const group = grouped({ motd: 'a' }, 'None');
  const pin = pinned({ versionLock: NEW });

  it('are no reason to set those in force again in a new process, which may restart services', async () => {
    const w = await idleWorld();
    const pods = { kubernetes: { 'max-pods': 50 } };
    await w.spec(wanted(pods, 'RestartsService'), MINUTE);
    w.host.failCall('classify', ...Array.from({ length: 200 }, () => new HostError('answer', 'GET /services: 500')));
    const { leaves } = grouped({ ...pods, motd: 'a' }, 'None');
    await w.spec({ ...IDLE, settings: { allow: 'None', leaves: [...(pin?.leaves ?? []), ...leaves] } }, 60 * MINUTE);
    expect(w.host.valueOf(LOCK)).toBe(`"${NEW}"`);
    for (let process = 0; process < 3; process += 1) {
      await w.killAgent();
      w.startAgent();
      await w.pass(20 * MINUTE);
    }
    expect(configured(w)).toEqual(['configure 50', `configure ${NEW}`]);
  });

  it('keep no pin from being set, nor from being removed, nor the host from updates', async () => {
    const w = await idleWorld();
    w.host.failCall('classify', ...Array.from({ length: 200 }, () => new HostError('answer', 'GET /services: 500')));
    await w.spec({ ...IDLE, settings: { ...group, leaves: [...(pin?.leaves ?? []), ...group.leaves] } }, 60 * MINUTE);
    expect(w.host.valueOf(LOCK)).toBe(`"${NEW}"`);
    expect(w.status).toMatchObject({ observedGeneration: 2, target_version: NEW });
    expect(w.status?.settings?.message).toContain('GET /services: 500');
    await w.spec({ ...IDLE, settings: group }, 60 * MINUTE);
    expect(w.host.valueOf(LOCK)).toBe('"latest"');
    expect(w.status).toMatchObject({ observedGeneration: 3, target_version: NEW });
  });
});
