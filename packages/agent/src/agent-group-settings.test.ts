/** The whole agent and the settings that a group requests for its host. */
import type { SettingClass } from '@brupop/shared/api/settings';
import type { Allowed, ShadowSpec } from '@brupop/shared/api/shadow';
import { GROUP, grouped, pinned } from '@brupop/shared/testing/settings';
import { HostError } from './host/host.ts';
import { configured, cutOff, endWorlds, IDLE, MINUTE, NEW, type World, world } from './testing/world.ts';

afterEach(endWorlds);

const MOTD = 'settings.motd';
const PODS = 'settings.kubernetes.max-pods';
const SYSCTL = 'settings.kernel.sysctl."vm.max_map_count"';
const OWN = '"Welcome to Bottlerocket!"';
const CLASSES: Readonly<Record<string, SettingClass>> = { [PODS]: 'RestartsService' };

async function idleWorld(): Promise<World> {
  const w = world();
  w.host.classOf = (key) => CLASSES[key] ?? 'Live';
  await w.pass(MINUTE);
  w.host.calls.length = 0;
  return w;
}

const wanted = (nested: object, allow: Allowed = 'Live', force = false): ShadowSpec => ({
  ...IDLE,
  settings: grouped(nested, allow, force),
});

const dropped = wanted({});

it('reports the class of a change before anything is set, and sets it when the spec allows it', async () => {
  const w = await idleWorld();
  await w.spec(wanted({ motd: 'a' }, 'None'));
  const pending = [{ key: MOTD, class: 'Live', reason: `${MOTD} is known` }];
  expect(w.status).toMatchObject({ observedGeneration: 2, settings: { pending } });
  expect(w.status?.settings).not.toHaveProperty('records');
  expect(w.host.calls).toEqual([]);
  await w.spec(wanted({ motd: 'a' }), 3000);
  expect(w.host.valueOf(MOTD)).toBe('"a"');
  const { lastApplied, ...settings } = w.status?.settings ?? {};
  const owner = 'BottlerocketNodeGroup/web';
  expect(settings).toEqual({ records: [{ key: MOTD, value: '"a"', before: OWN, owner }] });
  expect(lastApplied?.hash).toMatch(/^[0-9a-f]{16}$/u);
});

it('confirms a spec when its settings are applied, without a refresh, and writes nothing at rest', async () => {
  const w = await idleWorld();
  await w.spec(wanted({ motd: 'a' }), 1000);
  expect(w.status).toMatchObject({ observedGeneration: 1, settings: { inFlight: {} } });
  await w.pass(1000);
  expect(w.status).toMatchObject({ observedGeneration: 2, target_version: NEW });
  expect(w.host.calls).toEqual(['configure a']);
  const { length } = w.api.reports;
  await w.pass(20 * MINUTE);
  expect(w.api.reports).toHaveLength(length);
});

it('sets what the spec allows and reports the rest', async () => {
  const w = await idleWorld();
  const nested = { motd: 'a', kubernetes: { 'max-pods': 50 } };
  await w.spec(wanted(nested), 3000);
  expect([w.host.valueOf(MOTD), w.host.valueOf(PODS)]).toEqual(['"a"', undefined]);
  expect(w.status?.settings?.pending).toMatchObject([{ key: PODS, class: 'RestartsService' }]);
  await w.spec(wanted(nested, 'RestartsService'), 3000);
  expect(w.host.valueOf(PODS)).toBe('50');
  expect(configured(w)).toEqual(['configure a', 'configure 50']);
  expect(w.status?.settings).not.toHaveProperty('pending');
});

it('sets nothing but the pin when the host refuses a setting', async () => {
  const w = await idleWorld();
  w.host.classOf = (key) => (key === PODS ? 'Refused' : 'Live');
  const { leaves, allow } = grouped({ motd: 'a', kubernetes: { 'max-pods': 50 } }, 'NeedsReboot');
  const both = [...leaves, ...(pinned({ versionLock: '1.25.0' })?.leaves ?? [])];
  await w.spec({ ...IDLE, settings: { leaves: both, allow } }, 5000);
  expect(configured(w)).toEqual(['configure 1.25.0']);
  expect(w.status?.settings?.pending?.map(({ key, class: found }) => [key, found])).toEqual([
    [PODS, 'Refused'],
    [MOTD, 'Live'],
  ]);
  expect(w.status).toMatchObject({ observedGeneration: 2, target_version: '1.25.0' });
});

it('leaves what a user has set instead and reports the conflict, unless it is forced', async () => {
  const w = await idleWorld();
  await w.spec(wanted({ motd: 'a' }), 3000);
  w.host.setSettings(new Map([[MOTD, '"user"']]));
  await w.pass(20 * MINUTE);
  expect(w.host.valueOf(MOTD)).toBe('"user"');
  expect(w.status?.settings).toMatchObject({ conflicts: [MOTD], records: [{ value: '"a"', before: OWN }] });
  await w.spec(wanted({ motd: 'a' }, 'Live', true), 3000);
  expect(w.host.valueOf(MOTD)).toBe('"a"');
  expect(w.status?.settings).not.toHaveProperty('conflicts');
  await w.spec(dropped, 3000);
  expect(w.host.valueOf(MOTD)).toBe('"user"');
});

it('keeps a value that cannot be unset, and says so', async () => {
  const w = await idleWorld();
  await w.spec(wanted({ kernel: { sysctl: { 'vm.max_map_count': '300000' } } }), 3000);
  expect(w.host.valueOf(SYSCTL)).toBe('"300000"');
  await w.spec(IDLE, 3000);
  expect(w.host.valueOf(SYSCTL)).toBe('"300000"');
  expect(w.status).toMatchObject({ observedGeneration: 3, settings: { cannotUnset: [SYSCTL] } });
});

it('says that a value stays when its record was lost with the shadow, and forgets it when a user sets another one', async () => {
  const w = await idleWorld();
  await w.spec(wanted({ motd: 'a' }), 3000);
  w.api.recreateShadow();
  await w.spec(wanted({ motd: 'a' }), 3000);
  expect(w.status?.settings?.records).toEqual([{ key: MOTD, value: '"a"', owner: GROUP }]);
  await w.spec(dropped, 3000);
  expect(w.host.valueOf(MOTD)).toBe('"a"');
  expect(w.status).toMatchObject({ observedGeneration: 3, settings: { cannotUnset: [MOTD] } });
  w.host.setSettings(new Map([[MOTD, '"user"']]));
  await w.pass(6 * MINUTE);
  expect(w.status).not.toHaveProperty('settings');
});

it('restores former values, and leaves no trace of them', async () => {
  const w = await idleWorld();
  await w.spec(wanted({ motd: 'a' }), 3000);
  await w.spec(wanted({ motd: 'b' }), 3000);
  await w.spec(dropped, 1000);
  expect(w.host.valueOf(MOTD)).toBe(OWN);
  await w.pass(3000);
  expect(w.status).toMatchObject({ observedGeneration: 4 });
  expect(w.status).not.toHaveProperty('settings');
});

it('puts the former values back once when a change has cut it off from the apiserver, and says so', async () => {
  const w = await idleWorld();
  await w.spec(wanted({ motd: 'a' }), 3000);
  await cutOff(w, wanted({ motd: 'b' }));
  await w.pass(MINUTE);
  expect(w.host.valueOf(MOTD)).toBe('"b"');
  await w.pass(2 * MINUTE);
  expect(w.host.valueOf(MOTD)).toBe('"a"');
  w.api.unreachable = false;
  await w.pass(60 * MINUTE);
  expect(configured(w)).toEqual(['configure a', 'configure b', 'configure a']);
  const message = `${MOTD}: not in force: the apiserver was not heard from for 120 s after the change, so the former values were set again`;
  expect(w.status).toMatchObject({ observedGeneration: 3, settings: { message } });
  await w.spec(wanted({ motd: 'c' }), 3000);
  expect(w.host.valueOf(MOTD)).toBe('"c"');
  expect(w.status?.settings).not.toHaveProperty('message');
});

it('puts back what it restored when that has cut it off', async () => {
  const w = await idleWorld();
  await w.spec(wanted({ motd: 'a' }), 3000);
  await cutOff(w, dropped);
  await w.pass(3 * MINUTE);
  expect(w.host.valueOf(MOTD)).toBe('"a"');
});

it('pauses between tries to put values back, and goes on until the host takes them', async () => {
  const w = await idleWorld();
  await cutOff(w, wanted({ motd: 'a' }));
  w.host.failCall('configure', ...Array.from({ length: 3 }, () => new HostError('unanswered', 'no answer')));
  await w.pass(3 * MINUTE);
  expect(w.host.valueOf(MOTD)).toBe(OWN);
  expect(configured(w)).toHaveLength(5);
});

it('keeps a change when the apiserver is heard from again in time', async () => {
  const w = await idleWorld();
  await cutOff(w, wanted({ motd: 'a' }));
  await w.pass(MINUTE);
  w.api.unreachable = false;
  await w.pass(10 * MINUTE);
  expect(w.host.valueOf(MOTD)).toBe('"a"');
  expect(configured(w)).toEqual(['configure a']);
});

it.each([false, true])(
  'puts the former value back once when the host stores another one than was set, forced: %s',
  async (force) => {
    const w = await idleWorld();
    w.host.normalize = (value) => (value === OWN ? value : '"cut short"');
    await w.spec(wanted({ motd: 'a' }, 'Live', force), 60 * MINUTE);
    expect(w.host.valueOf(MOTD)).toBe(OWN);
    expect(configured(w)).toHaveLength(2);
    const message = `${MOTD}: not in force: ${MOTD}: the host has accepted the value, but reports another one, so the former values were set again`;
    expect(w.status).toMatchObject({ observedGeneration: 2, settings: { message, records: [{ before: OWN }] } });
  },
);

it('goes on to look for updates while settings fail that have no part in them', async () => {
  const w = await idleWorld();
  w.host.normalize = (value) => (value === OWN ? value : '"cut short"');
  await w.spec(wanted({ motd: 'a' }), 5 * MINUTE);
  w.host.publish('1.28.0');
  await w.pass(60 * MINUTE);
  expect(w.status?.target_version).toBe('1.28.0');
  expect(w.status?.settings?.message).toContain('reports another one');
});

it('goes on to look for updates on a host without a settings API', async () => {
  const w = await idleWorld();
  const missing = (): HostError => new HostError('unsupported', 'GET /settings: 404');
  w.host.failCall('settings', ...Array.from({ length: 1000 }, missing));
  await w.spec(wanted({ motd: 'a' }), 5 * MINUTE);
  for (const version of ['1.28.0', '1.29.0']) {
    w.host.publish(version);
    await w.pass(35 * MINUTE);
    expect(w.status).toMatchObject({ observedGeneration: 2, target_version: version });
    expect(w.status?.settings).toEqual({ message: `${MOTD}: not in force: GET /settings: 404` });
  }
});

it('stores again what an earlier process may not have applied, also after another spec that it was not allowed to set', async () => {
  const w = await idleWorld();
  w.host.applies = false;
  await w.spec(wanted({ motd: 'a' }), 500);
  expect(configured(w)).toEqual(['configure a']);
  await w.killAgent();
  w.host.applies = true;
  w.startAgent();
  await w.spec(wanted({ motd: 'b' }, 'None'), MINUTE);
  expect(w.status?.settings).toMatchObject({ inFlight: {}, pending: [{ key: MOTD }] });
  const reports = w.api.reports.length;
  await w.pass(30 * MINUTE);
  expect(w.api.reports).toHaveLength(reports);
  await w.spec(wanted({ motd: 'a' }), MINUTE);
  expect(configured(w)).toEqual(['configure a', 'configure a']);
  expect(w.status?.settings).not.toHaveProperty('inFlight');
});

it('reports why when the class of a change cannot be found, and stores nothing again because of it', async () => {
  const w = await idleWorld();
  await w.spec(wanted({ motd: 'a' }), 3000);
  w.host.failCall('classify', ...Array.from({ length: 10 }, () => new HostError('answer', 'GET /services: 500')));
  await w.spec(wanted({ motd: 'a', kubernetes: { 'max-pods': 50 } }, 'RestartsService'), MINUTE);
  expect(w.status?.settings?.message).toContain('not in force: GET /services: 500');
  expect(configured(w)).toEqual(['configure a']);
  await w.pass(30 * MINUTE);
  expect(configured(w)).toEqual(['configure a', 'configure 50']);
  expect(w.status?.settings).not.toHaveProperty('message');
});

it('stores no setting of a group again when an offer contradicts the pin: that may restart services', async () => {
  const w = await idleWorld();
  const settings = grouped({ kubernetes: { 'max-pods': 50 } }, 'RestartsService');
  await w.spec({ ...IDLE, settings }, 3000);
  w.host.applies = false;
  const leaves = [...settings.leaves, ...(pinned({ versionLock: '1.25.0' })?.leaves ?? [])];
  await w.spec({ ...IDLE, settings: { ...settings, leaves } }, 5000);
  w.host.applies = true;
  await w.pass(MINUTE);
  expect(w.status?.target_version).toBe('1.25.0');
  expect(configured(w).filter((call) => call !== 'configure 1.25.0')).toEqual(['configure 50']);
});

it('does not overwrite what a user sets at the same moment where the host had no value', async () => {
  const w = await idleWorld();
  const api = w.api.report.bind(w.api);
  w.api.report = async (body) => {
    const answer = await api(body);
    if (body.status.settings?.inFlight !== undefined) {
      w.api.report = api;
      w.host.onSettings = (call) => {
        if (call === 2) w.host.setSettings(new Map([[SYSCTL, '"1"']]));
      };
    }
    return answer;
  };
  await w.spec(wanted({ kernel: { sysctl: { 'vm.max_map_count': '300000' } } }), 5000);
  expect(w.status?.settings?.conflicts).toEqual([SYSCTL]);
  expect(w.host.valueOf(SYSCTL)).toBe('"1"');
});

const moments: Record<string, (w: World) => Promise<void>> = {
  'recorded, but not set': async (w) => {
    w.host.failCall('configure', ...Array.from({ length: 9 }, () => new HostError('refused', 'not sent')));
    await w.spec(wanted({ motd: 'b' }), 500);
    await w.killAgent();
    w.host.failCall('configure');
  },
  'set, but not applied': async (w) => {
    w.host.applies = false;
    await w.spec(wanted({ motd: 'b' }), 500);
    await w.killAgent();
  },
  'applied, but not reported': async (w) => {
    await w.spec(wanted({ motd: 'b' }), 500);
    await w.killAgent();
  },
};

it.each(
  Object.entries(moments).flatMap(([moment, kill]) => [
    [moment, 'reverted', wanted({ motd: 'a' }), '"a"', kill] as const,
    [moment, 'dropped', dropped, OWN, kill] as const,
    [moment, 'replaced', wanted({ motd: 'c' }), '"c"', kill] as const,
    [moment, 'kept', undefined, '"b"', kill] as const,
  ]),
)('killed when a value is %s, ends as the last spec says when it is %s', async (_moment, _end, spec, value, kill) => {
  const w = await idleWorld();
  await w.spec(wanted({ motd: 'a' }), 3000);
  await kill(w);
  expect(w.status?.settings?.inFlight).toBeDefined();
  w.host.applies = true;
  if (spec !== undefined) w.api.setSpec(spec);
  w.startAgent();
  await w.pass(10_000);
  expect([w.host.valueOf(MOTD), w.host.appliedOf(MOTD)]).toEqual([value, value]);
  expect(w.status?.observedGeneration).toBe(w.api.shadow?.generation);
  expect(w.status?.settings ?? {}).not.toHaveProperty('inFlight');
});
