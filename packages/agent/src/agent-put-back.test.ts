/** The whole agent after a change of settings that has cut its node off from the apiserver. */
import { grouped } from '@brupop/shared/testing/settings';
import { ApiError } from './apiserver/messages.ts';
import { endWorlds, IDLE, MINUTE, STAGE, type World, world } from './testing/world.ts';

afterEach(endWorlds);

const MOTD = 'settings.motd';
const OWN = '"Welcome to Bottlerocket!"';
const BAD = { settings: grouped({ motd: 'bad' }) };

/** Sets the bad value; from then on no call reaches the apiserver for 4 min. */
async function cutOff(w: World, spec: typeof STAGE, meanwhile: () => void = () => undefined): Promise<void> {
  w.api.setSpec({ ...spec, ...BAD });
  await w.pass(1);
  expect(w.host.valueOf(MOTD)).toBe('"bad"');
  meanwhile();
  w.api.unreachable = true;
  w.api.send(new ApiError('Unreachable', 'socket hang up'));
  await w.pass(4 * MINUTE);
  w.api.unreachable = false;
  await w.pass(2 * MINUTE);
}

it('does not set it again in the next process', async () => {
  const w = world();
  await w.pass(MINUTE);
  await cutOff(w, IDLE);
  const { status } = w;
  expect(status?.settings?.message).toContain('so the former values were set again');
  await w.killAgent();
  w.startAgent();
  await w.pass(60 * MINUTE);
  expect(w.host.valueOf(MOTD)).toBe(OWN);
  expect(w.status).toEqual(status);
  await w.spec({ ...IDLE, settings: grouped({ motd: 'good' }) }, MINUTE);
  expect(w.host.valueOf(MOTD)).toBe('"good"');
  expect(w.status?.settings).not.toHaveProperty('message');
});

it('does not set it again for an update, which does not wait for it', async () => {
  const w = world();
  await w.pass(MINUTE);
  await cutOff(w, IDLE);
  await w.spec({ ...STAGE, ...BAD }, MINUTE);
  expect(w.status?.current_state).toBe('StagedAndPerformedUpdate');
  await w.spec({ ...IDLE, ...BAD }, 10 * MINUTE);
  expect(w.status).toMatchObject({ current_state: 'Idle', observedGeneration: 4 });
  expect(w.status?.settings?.message).toContain('so the former values were set again');
  expect(w.host.valueOf(MOTD)).toBe(OWN);
});

it('puts the former value back in the middle of a staging', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCommand('refresh', ...Array.from({ length: 20 }, () => ({ exit: 1, stderr: 'no route to host' })));
  await cutOff(w, STAGE);
  expect(w.host.valueOf(MOTD)).toBe(OWN);
});

it('leaves what a user has set meanwhile, and reports the conflict', async () => {
  const w = world();
  await w.pass(MINUTE);
  await cutOff(w, IDLE, () => w.host.setSettings(new Map([[MOTD, '"mine"']])));
  expect(w.host.valueOf(MOTD)).toBe('"mine"');
  expect(w.status?.settings?.conflicts).toEqual([MOTD]);
});
