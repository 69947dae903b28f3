import { pinned } from '@brupop/shared/testing/settings';
import { HostError } from './host/host.ts';
import { endAfterRelease } from './release.ts';
import { endWorlds, IDLE, MINUTE, NEW, REBOOT, STAGE, takes, world, type World } from './testing/world.ts';

afterEach(endWorlds);

const OLDER = '1.25.0';
const PINNED = { ...IDLE, settings: pinned({ versionLock: OLDER }) };

/** The kubelet asks the agent to end. */
function asked(w: World): AbortSignal {
  return endAfterRelease(AbortSignal.abort(new Error('SIGTERM')), w.clock, () => w.agent.shadow());
}

async function pinnedWorld(): Promise<World> {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(PINNED, MINUTE);
  expect(w.host.stored.versionLock).toBe(OLDER);
  return w;
}

it('an agent without settings to release ends at once', async () => {
  const w = world();
  await w.pass(MINUTE);
  expect(asked(w).aborted).toBe(true);
});

it('an agent whose label was removed releases the version lock before it ends', async () => {
  const w = await pinnedWorld();
  const end = asked(w);
  await w.pass(3000);
  expect(end.aborted).toBe(false);
  await w.spec(IDLE, 500);
  expect([w.host.stored.versionLock, end.aborted]).toEqual(['latest', false]);
  await w.pass(3000);
  expect(w.status).not.toHaveProperty('settings');
  expect(end.aborted).toBe(true);
});

it('an agent whose label was removed releases the version lock while its host still writes the update', async () => {
  const w = world();
  await w.pass(MINUTE);
  const settings = pinned({ versionLock: NEW });
  await w.spec({ ...IDLE, settings }, MINUTE);
  takes(w, 'prepare', 12 * MINUTE);
  await w.spec({ ...STAGE, settings }, MINUTE);
  expect(w.host.stored.versionLock).toBe(NEW);
  const end = asked(w);
  await w.spec(IDLE, 5_000);
  expect([w.host.stored.versionLock, end.aborted]).toEqual(['latest', false]);
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Restore', state: 'Processing' });
  await w.pass(20_000);
  expect(end.aborted).toBe(true);
});

it('an agent that is only replaced keeps the lock, and ends after 5 seconds', async () => {
  const w = await pinnedWorld();
  const end = asked(w);
  await w.pass(4900);
  expect(end.aborted).toBe(false);
  await w.pass(200);
  expect([w.host.stored.versionLock, end.aborted]).toEqual([OLDER, true]);
});

it('an agent whose host refuses ends after 20 seconds', async () => {
  const w = await pinnedWorld();
  w.host.failCall('configure', ...Array.from({ length: 1000 }, () => new HostError('answer', 'PATCH /settings: 500')));
  const end = asked(w);
  await w.spec(IDLE, 19_000);
  expect(end.aborted).toBe(false);
  await w.pass(2000);
  expect(end.aborted).toBe(true);
});

it('an agent whose host reboots ends at once', async () => {
  const w = await pinnedWorld();
  await w.spec({ ...PINNED, state: REBOOT.state, version: OLDER });
  expect(asked(w).aborted).toBe(true);
});
