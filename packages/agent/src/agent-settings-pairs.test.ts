/** The whole agent and two settings of different classes that change together. */
import type { Allowed, ShadowSpec } from '@brupop/shared/api/shadow';
import type { SettingClass } from '@brupop/shared/api/settings';
import { grouped } from '@brupop/shared/testing/settings';
import { endWorlds, IDLE, MINUTE, OLD, REBOOT, STAGE, type World, world } from './testing/world.ts';

afterEach(endWorlds);

type Value = 'a' | 'b' | undefined;
/** What a setting has of the group before, and then. */
const CHANGES: readonly (readonly [name: string, before: Value, then: Value])[] = [
  ['set', undefined, 'a'],
  ['changed', 'a', 'b'],
  ['dropped', 'a', undefined],
];
const CLASSES: readonly SettingClass[] = ['Live', 'RestartsService', 'NeedsReboot'];
const KEYS = ['settings.motd', 'settings.kernel.lockdown'] as const;

const stories = CLASSES.flatMap((one) =>
  CLASSES.flatMap((other) => CHANGES.flatMap((first) => CHANGES.map((second) => ({ one, other, first, second })))),
);

it.each(stories)(
  'ends with $one $first.0 and $other $second.0 together, and one reboot at most',
  async ({ one, other, first, second }) => {
    const w = world(undefined, undefined);
    w.host.classOf = (key) => (key === KEYS[0] ? one : other);
    w.host.setSettings(new Map(KEYS.map((key) => [key, '"own"'])));
    await w.pass(MINUTE);
    const needsReboot = [one, other].includes('NeedsReboot');
    await change(w, first[1], second[1], needsReboot);
    w.host.calls.length = 0;
    await change(w, first[2], second[2], needsReboot);
    const { settings } = w.status ?? {};
    expect(settings ?? {}).not.toHaveProperty('inFlight');
    expect(settings ?? {}).not.toHaveProperty('pending');
    const live = await w.host.settings(KEYS);
    expect([...live]).toEqual([
      [KEYS[0], JSON.stringify(first[2] ?? 'own')],
      [KEYS[1], JSON.stringify(second[2] ?? 'own')],
    ]);
    expect(w.host.calls.filter((call) => call === 'reboot')).toHaveLength(needsReboot ? 1 : 0);
  },
);

/** What the controller does: it grants what a host at rest may set, waits for the confirmation, then reboots. */
async function change(w: World, motd: Value, lockdown: Value, needsReboot: boolean): Promise<void> {
  const nested = { ...(motd && { motd }), ...(lockdown && { kernel: { lockdown } }) };
  const given = (spec: ShadowSpec, allow: Allowed): ShadowSpec => ({ ...spec, settings: grouped(nested, allow) });
  await w.spec(given(IDLE, 'None'), MINUTE);
  await w.spec(given(IDLE, 'RestartsService'), MINUTE);
  expect(w.status?.settings ?? {}).not.toHaveProperty('inFlight');
  await w.spec(given(IDLE, 'None'), MINUTE);
  const isLeft = w.status?.settings?.pending !== undefined;
  expect(isLeft && !needsReboot).toBe(false);
  if (!isLeft) return;
  await w.spec({ ...given(STAGE, 'NeedsReboot'), version: OLD }, 10_000);
  await w.spec({ ...given(REBOOT, 'NeedsReboot'), version: OLD }, 10_000);
  await w.boot();
  await w.spec(given(IDLE, 'None'), MINUTE);
}
