/** A host that answers slowly, and one that others use at the same time. */
import type { DrainResult } from '@brupop/shared/api/agent-protocol';
import { grouped, pinned } from '@brupop/shared/testing/settings';
import { HostError } from './host/host.ts';
import { endWorlds, IDLE, MINUTE, NEW, OLD, REBOOT, STAGE, world, type World } from './testing/world.ts';

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

it('drains again before the reboot, however fast the host answers', async () => {
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

/** The host starts each command, but its answer is lost. */
function losesAnswers({ host }: World): void {
  const start = host.start.bind(host);
  host.start = async (command, signal, guard) => {
    await start(command, signal, guard);
    throw new HostError('unanswered', `POST ${command}: no complete answer within 10000 ms`);
  };
}

it('checks for updates no more often when the answers of a host at rest to the start of a command are lost', async () => {
  const w = world();
  await w.pass(MINUTE);
  losesAnswers(w);
  w.host.calls.length = 0;
  await w.pass(180 * MINUTE);
  expect(w.host.calls).toEqual(Array.from({ length: 6 }, () => 'refresh'));
});

it('updates a node whose host starts each command, but whose answers to that are lost', async () => {
  const w = world();
  await w.pass(MINUTE);
  losesAnswers(w);
  w.host.calls.length = 0;
  w.host.lockedLooks = 20;
  await w.spec(STAGE, MINUTE);
  await w.spec(REBOOT, MINUTE);
  expect(w.host.calls).toEqual(['refresh', 'prepare', 'activate', 'reboot']);
  expect([w.host.rebootAsked, w.status?.crash_count]).toEqual([true, 0]);
});

it('tries a command again, without counting a failure, when the host has neither answered nor started it', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCall('prepare', ...Array.from({ length: 5 }, () => new HostError('unanswered', 'no answer')));
  await w.spec(STAGE, 2 * MINUTE);
  expect(w.status).toMatchObject({ current_state: 'StagedAndPerformedUpdate', crash_count: 0 });
});

/** Another actor checks for updates before the last pass of the drain, which ends the drain in time. */
async function checkedDuringDrain(): Promise<World> {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE, MINUTE);
  const blocked = { pod: 'a/b', reason: 'DisruptionBudget', message: 'needs 1' } as const;
  const pass: DrainResult = {
    done: false,
    evicted: 0,
    remaining: 1,
    blockedBy: [blocked],
    limitRemainingMs: 2 * MINUTE,
  };
  w.api.drains = [
    ...Array.from({ length: 5 }, () => pass),
    { done: true, evicted: 1, remaining: 0, blockedBy: [], limitRemainingMs: MINUTE },
  ];
  await w.spec(REBOOT, 3_000);
  w.host.calls.length = 0;
  await w.host.command('refresh');
  return w;
}

it('writes the image again when another actor checks for updates while the node is drained', async () => {
  const w = await checkedDuringDrain();
  w.api.calls.length = 0;
  // The download takes longer than the drain has left: it is over.
  w.host.lockedLooks = 300;
  for (let i = 0; i < 20 && !w.host.calls.includes('prepare'); i += 1) await w.pass(1_000);
  w.host.lockedLooks = 0;
  await w.pass(8 * MINUTE);
  expect(w.api.calls.slice(0, 2)).toEqual(['drain', 'drain']);
  expect(w.host.calls.slice(0, 4)).toEqual(['refresh', 'prepare', 'activate', 'reboot']);
  expect([w.host.rebootAsked, w.status?.crash_count]).toEqual([true, 0]);
});

it('tries three times to write it, and then fails with what the host says, and returns the Node to service', async () => {
  const w = await checkedDuringDrain();
  w.host.failCommand('prepare', ...Array.from({ length: 9 }, () => ({ exit: 1, stderr: 'No space left on device' })));
  await w.pass(5 * MINUTE);
  expect(w.host.calls).toEqual(['refresh', 'prepare', 'prepare', 'prepare']);
  expect(w.status).toMatchObject({ current_state: 'ErrorReset', lastOperation: { errorCode: 'PrepareFailed' } });
  expect(w.status?.lastOperation?.message).toContain('No space left on device');
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

/** A group asks for what needs a reboot, and the drain of the node takes one pass. */
async function stagedForSettings() {
  const w = world();
  await w.pass(MINUTE);
  w.host.classOf = () => 'NeedsReboot';
  const settings = grouped({ kernel: { lockdown: 'integrity' } }, 'NeedsReboot');
  w.api.drains = [{ done: true, evicted: 1, remaining: 0, blockedBy: [], limitRemainingMs: MINUTE }];
  await w.spec({ ...STAGE, version: OLD, settings }, 10_000);
  return { w, settings };
}

it('reads the settings of a drained node again within seconds when one answer is lost', async () => {
  const { w, settings } = await stagedForSettings();
  w.host.onSettings = () => {
    if (w.api.calls.at(-1) !== 'drain') return;
    w.api.calls.push('the answer is lost');
    w.host.failCall('settings', new HostError('unanswered', 'no answer'));
  };
  await w.spec({ ...REBOOT, version: OLD, settings }, 20_000);
  expect(w.api.calls).toContain('the answer is lost');
  expect(w.host.rebootAsked).toBe(true);
});

it('leaves no node drained for long when its settings cannot be read any more', async () => {
  const { w, settings } = await stagedForSettings();
  w.host.onSettings = () => {
    if (w.api.calls.includes('drain')) w.host.failCall('settings', new HostError('answer', '500'));
  };
  await w.spec({ ...REBOOT, version: OLD, settings }, 15 * MINUTE);
  expect([w.status?.lastOperation?.operation, w.status?.lastOperation?.state]).toEqual(['Drain', 'Processing']);
  w.api.calls.length = 0;
  w.api.calls.push('drain');
  await w.pass(15 * MINUTE);
  expect(w.status).toMatchObject({ current_state: 'ErrorReset', lastOperation: { errorCode: 'DrainTimedOut' } });
  expect(w.api.calls).toContain('restore');
});
