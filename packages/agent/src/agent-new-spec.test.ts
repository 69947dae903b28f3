/** Another spec arrives while the host runs a command for the one before it. */
import { HostError } from './host/host.ts';
import { endWorlds, IDLE, MINUTE, REBOOT, STAGE, takes, world, type World } from './testing/world.ts';

afterEach(endWorlds);

function prepares({ host }: World): number {
  return host.calls.filter((call) => call === 'prepare').length;
}

/** The host writes an update, for 12 minutes, and the update is cancelled. */
async function cancelled(): Promise<World> {
  const w = world();
  await w.pass(MINUTE);
  takes(w, 'prepare', 12 * MINUTE);
  await w.spec(STAGE, MINUTE);
  await w.spec(IDLE, 5_000);
  return w;
}

it('confirms Idle within seconds, and the host finishes what it writes', async () => {
  const w = await cancelled();
  expect(w.status).toMatchObject({ current_state: 'Idle', observedGeneration: w.api.shadow?.generation });
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Restore', state: 'Processing' });
  await w.pass(15 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Restore', state: 'Succeeded' });
  expect([w.status?.crash_count, prepares(w)]).toEqual([0, 1]);
});

it('stages what the host still writes when that is requested again, without writing it twice', async () => {
  const w = await cancelled();
  await w.spec(STAGE, 5_000);
  expect(w.status).toMatchObject({ current_state: 'Idle', lastOperation: { operation: 'Stage', state: 'Processing' } });
  await w.pass(15 * MINUTE);
  expect(w.status).toMatchObject({ current_state: 'StagedAndPerformedUpdate', crash_count: 0 });
  expect(prepares(w)).toBe(1);
});

it('starts a staging within seconds while the host checks for updates', async () => {
  const w = world();
  takes(w, 'refresh', 2 * MINUTE);
  await w.pass(MINUTE);
  await w.spec(STAGE, 5_000);
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Stage', state: 'Processing' });
  await w.pass(5 * MINUTE);
  expect(w.status?.current_state).toBe('StagedAndPerformedUpdate');
  expect(w.host.calls).toEqual(['refresh', 'refresh', 'prepare']);
});

it('returns the Node to service only after it has undone an activation that was running', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE);
  takes(w, 'activate', MINUTE);
  await w.spec(REBOOT, 10_000);
  expect(w.host.calls.at(-1)).toBe('activate');
  w.api.calls.length = 0;
  await w.spec(IDLE, 10_000);
  expect(w.api.calls).toEqual([]);
  w.api.restore = async () => void w.api.calls.push(`restore after ${w.host.calls.at(-1)}`);
  await w.pass(2 * MINUTE);
  expect(w.api.calls).toContain('restore after deactivate');
  expect(w.api.calls).not.toContain('restore after activate');
});

it('reports no lock of a long prepare that was cancelled, but one that another process holds later', async () => {
  const w = world();
  await w.pass(MINUTE);
  takes(w, 'prepare', 50 * MINUTE);
  await w.spec({ ...STAGE, timeoutSeconds: 3 * 3600 }, MINUTE);
  await w.spec(IDLE, 60 * MINUTE);
  const isReported = (): boolean => w.api.reports.some((one) => one.lastOperation?.errorCode === 'UpdateCheckFailed');
  expect([w.status?.lastOperation?.state, prepares(w), isReported()]).toEqual(['Succeeded', 1, false]);
  w.host.failCall('updateStatus', ...Array.from({ length: 5000 }, () => new HostError('locked', '423')));
  await w.pass(30 * MINUTE);
  expect(isReported()).toBe(true);
});
