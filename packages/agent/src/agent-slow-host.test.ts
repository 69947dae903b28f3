/** A host that answers slowly, and one that others use at the same time. */
import { pinned } from '@brupop/shared/testing/settings';
import { endWorlds, IDLE, MINUTE, NEW, REBOOT, STAGE, world, type World } from './testing/world.ts';

let slowed: World | undefined;

afterEach(async () => {
  // The agent ends when its call has.
  if (slowed !== undefined) slowed.host.delay = async () => undefined;
  await slowed?.pass(MINUTE);
  slowed = undefined;
  await endWorlds();
});

/** Each answer takes as long. */
function slow(w: World, seconds: number): void {
  slowed = w;
  w.host.delay = () => w.clock.sleep(seconds * 1_000);
}

it('reboots into the update after few drain passes when each answer of the host takes 9 s', async () => {
  const w = world();
  await w.pass(MINUTE);
  slow(w, 9);
  await w.spec(STAGE, 10 * MINUTE);
  expect(w.status?.current_state).toBe('StagedAndPerformedUpdate');
  await w.spec(REBOOT, 10 * MINUTE);
  expect([w.host.rebootAsked, w.status?.crash_count]).toEqual([true, 0]);
  expect(w.api.calls.filter((call) => call.startsWith('drain')).length).toBeLessThanOrEqual(6);
});

it('drains again before the reboot when the activation took long, however fast the host answers', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE, MINUTE);
  w.api.calls.length = 0;
  await w.spec(REBOOT, MINUTE);
  const calls = w.api.calls.filter((call) => call.startsWith('drain'));
  expect(calls.length).toBeGreaterThanOrEqual(2);
});

it.each([2.1, 9])('sets a pin and confirms it when each answer of the host takes %f s', async (seconds) => {
  const w = world();
  await w.pass(MINUTE);
  slow(w, seconds);
  w.api.setSpec({ ...IDLE, settings: pinned({ versionLock: NEW }) });
  await w.pass(5 * MINUTE);
  expect(w.host.stored.versionLock).toBe(NEW);
  expect(w.host.calls.filter((call) => call.startsWith('configure'))).toHaveLength(1);
  expect(w.status).toMatchObject({ observedGeneration: w.api.shadow?.generation, target_version: NEW });
  expect(w.status?.settings?.message).toBeUndefined();
});

it('writes the image again when another actor checks for updates while the node is drained', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE, MINUTE);
  const blocked = { pod: 'a/b', reason: 'DisruptionBudget', message: 'needs 1' } as const;
  w.api.drains = Array.from({ length: 20 }, () => ({ done: false, evicted: 0, remaining: 1, blockedBy: [blocked] }));
  await w.spec(REBOOT, 20_000);
  w.host.calls.length = 0;
  await w.host.command('refresh');
  await w.pass(5 * MINUTE);
  expect(w.host.calls).toEqual(['refresh', 'prepare', 'activate', 'reboot']);
  expect([w.host.rebootAsked, w.status?.crash_count]).toEqual([true, 0]);
});

it('fails, and returns the Node to service, when that image cannot be written', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE, MINUTE);
  w.host.failCommand('prepare', ...Array.from({ length: 9 }, () => ({ exit: 1, stderr: 'no route to host' })));
  await w.host.command('refresh');
  await w.spec(REBOOT, 10 * MINUTE);
  expect(w.status).toMatchObject({ current_state: 'ErrorReset', lastOperation: { errorCode: 'StagedImageLost' } });
  expect(w.status?.lastOperation?.message).toContain('latest command prepare failed');
  expect(w.host.rebootAsked).toBe(false);
  expect(w.api.calls).toContain('restore');
});

it('fails when another version was offered meanwhile, since only that one could be written', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE, MINUTE);
  w.host.publish('1.28.0');
  await w.host.command('refresh');
  await w.spec(REBOOT, MINUTE);
  expect(w.status).toMatchObject({ current_state: 'ErrorReset', lastOperation: { errorCode: 'StagedImageLost' } });
});
