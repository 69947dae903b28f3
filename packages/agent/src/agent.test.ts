import { messageOf } from '@brupop/shared/runtime/errors';
import { ApiError } from './apiserver/messages.ts';
import { HostError } from './host/host.ts';
import { endWorlds, IDLE, MINUTE, MONITOR, NEW, OLD, REBOOT, STAGE, world } from './testing/world.ts';

afterEach(endWorlds);

it('updates a node from Idle back to Idle, in the order that protects the workloads', async () => {
  const w = world();
  await w.pass(MINUTE);
  expect(w.status).toMatchObject({ current_state: 'Idle', current_version: OLD, target_version: NEW, crash_count: 0 });
  await w.spec(STAGE);
  expect(w.status).toMatchObject({ current_state: 'StagedAndPerformedUpdate', lastOperation: { state: 'Succeeded' } });
  w.api.calls.length = 0;
  await w.spec(REBOOT);
  expect(w.host.rebootAsked).toBe(true);
  expect(w.api.calls).toEqual([
    'report StagedAndPerformedUpdate, Drain Processing',
    'exclude',
    'drain',
    'report StagedAndPerformedUpdate, Activate Processing',
    'report StagedAndPerformedUpdate, Reboot Processing',
    'drain',
  ]);
  expect(w.host.calls).toEqual(['refresh', 'refresh', 'prepare', 'activate', 'reboot']);
  w.api.calls.length = 0;
  await w.boot();
  expect(w.api.calls).toEqual(['read', 'stream', 'restore', 'report RebootedIntoUpdate, Restore Succeeded']);
  expect(w.status).toMatchObject({ current_version: NEW, target_version: NEW, crash_count: 0, bootID: 'boot-2' });
  await w.spec(MONITOR);
  expect(w.status?.current_state).toBe('MonitoringUpdate');
  await w.spec(IDLE);
  expect(w.status).toMatchObject({ current_state: 'Idle', observedGeneration: 5 });
});

it('treats an offered release with build metadata as the release that the spec names without it', async () => {
  const w = world(undefined, `${NEW}+build.7`);
  await w.pass(MINUTE);
  expect(w.status).toMatchObject({ current_state: 'Idle', target_version: `${NEW}+build.7` });
  await w.spec(STAGE);
  expect(w.status).toMatchObject({ current_state: 'StagedAndPerformedUpdate', lastOperation: { state: 'Succeeded' } });
  await w.spec(REBOOT);
  await w.boot();
  expect(w.status).toMatchObject({
    current_state: 'RebootedIntoUpdate',
    current_version: `${NEW}+build.7`,
    crash_count: 0,
  });
});

it('writes nothing when nothing changes', async () => {
  const w = world();
  await w.pass(MINUTE);
  const before = w.api.reports.length;
  await w.pass(60 * MINUTE);
  expect(w.api.reports).toHaveLength(before);
  expect(w.host.calls.length).toBeGreaterThanOrEqual(2);
});

it('keeps the known target version when a refresh fails, and retries soon', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCommand('refresh', { exit: 1, stderr: 'Metadata error' });
  await w.pass(29.5 * MINUTE);
  expect(w.host.calls).toEqual(['refresh', 'refresh']);
  expect(w.status?.target_version).toBe(NEW);
  await w.pass(MINUTE);
  expect(w.host.calls).toHaveLength(3);
});

it('deactivates, within 5 minutes, what a user has activated on a host at rest, and logs that', async () => {
  const w = world();
  await w.pass(MINUTE);
  for (const command of ['refresh', 'prepare', 'activate'] as const) await w.host.command(command);
  w.host.calls.length = 0;
  w.log.length = 0;
  await w.pass(5 * MINUTE);
  expect(w.host.calls).toEqual(['deactivate']);
  expect(w.log[0]).toMatch(/"level":"info","msg":"deactivating the update"/);
  expect(w.status).toMatchObject({ current_state: 'Idle', crash_count: 0, target_version: NEW });
});

it('waits while another command holds the lock, then continues', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.lockedLooks = 100;
  await w.host.start('refresh');
  await w.spec(STAGE, 5 * MINUTE);
  expect(w.status?.current_state).toBe('StagedAndPerformedUpdate');
});

it('stages again when prepare wrote another version than the requested one', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCommand('prepare', { writes: '1.28.0' }, { writes: '' });
  await w.spec(STAGE, MINUTE);
  expect(w.host.calls.filter((call) => call === 'prepare')).toHaveLength(3);
  expect(w.status?.current_state).toBe('StagedAndPerformedUpdate');
});

it('fails once after a bounded number of tries, and undoes its changes', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCommand('prepare', ...Array.from({ length: 9 }, () => ({ exit: 1, stderr: 'No space left on device' })));
  await w.spec(STAGE, 10 * MINUTE);
  expect(w.status).toMatchObject({
    current_state: 'ErrorReset',
    crash_count: 1,
    lastOperation: { operation: 'Stage', state: 'Failed', errorCode: 'PrepareFailed' },
  });
  expect(w.status?.lastOperation?.message).toContain('No space left on device');
  expect(w.host.calls.filter((call) => call === 'prepare')).toHaveLength(3);
  await w.spec(IDLE);
  expect(w.status).toMatchObject({ current_state: 'Idle', crash_count: 1, lastOperation: { state: 'Failed' } });
});

it('prepares again when a prepare died without a record', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCommand('prepare', 'dies');
  await w.spec(STAGE, MINUTE);
  expect(w.status?.current_state).toBe('StagedAndPerformedUpdate');
  expect(w.host.calls.filter((call) => call === 'prepare')).toHaveLength(2);
});

it('continues after its process was killed during a prepare, without preparing again', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.lockedLooks = 3;
  await w.spec(STAGE, 40);
  await w.killAgent();
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Stage', state: 'Processing' });
  w.startAgent();
  await w.pass(MINUTE);
  expect(w.status?.current_state).toBe('StagedAndPerformedUpdate');
  expect(w.host.calls.filter((call) => call === 'prepare')).toHaveLength(1);
});

it('repeats drain passes until the node is empty, and activates only then', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE);
  const blocked = { pod: 'a/b', reason: 'DisruptionBudget', message: 'needs 1' } as const;
  w.api.drains = Array.from({ length: 5 }, () => ({ done: false, evicted: 0, remaining: 1, blockedBy: [blocked] }));
  await w.spec(REBOOT, 3000);
  expect(w.host.calls).not.toContain('activate');
  await w.pass(MINUTE);
  expect(w.host.rebootAsked).toBe(true);
});

it.each([
  [
    'passes report that it has failed',
    10,
    { failure: { code: 'DrainTimedOut', message: 'pods were there after 30 min' } },
  ],
  ['passes continue past the limit that they have reported', 5000, { limitRemainingMs: 3 * MINUTE }],
] as const)('fails a drain when %s, reports what blocks it, and restores the Node', async (_when, length, more) => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE);
  const blocked = { pod: 'a/b', reason: 'DisruptionBudget', message: 'needs 1' } as const;
  const held = { done: false, evicted: 0, remaining: 1, blockedBy: [blocked] };
  const passes = Array.from({ length }, (_, pass) => ('failure' in more || pass === 0 ? { ...held, ...more } : held));
  w.api.drains = passes;
  await w.spec(REBOOT, 10 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Drain', errorCode: 'DrainTimedOut' });
  expect(w.status?.lastOperation?.message).toContain('a/b');
  expect(w.api.calls.at(-1)).toBe('restore');
  expect(w.host.calls).not.toContain('activate');
});

it('reports in the shadow why no drain runs, while that lasts and when the drain has failed', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE);
  const messages = ['429 too many drains', '503 no answer from the Kubernetes API'];
  const errors = Array.from({ length: 5000 }, (_, n) => new ApiError('Unavailable', messages[n % 2] ?? ''));
  w.api.fail('drain', ...errors);
  const before = w.api.reports.length;
  await w.spec(REBOOT, 5 * MINUTE);
  expect(w.status?.lastOperation?.message).toMatch(/^no drain for now: (429|503) /);
  // The start of the drain, and a cause each minute at most.
  expect(w.api.reports.length - before).toBeLessThanOrEqual(1 + 5);
  await w.pass(27 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ errorCode: 'DrainTimedOut' });
  expect(w.status?.lastOperation?.message).toContain('no drain for now');
});

it('takes back why no drain runs when one does', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE);
  w.api.fail('drain', ...Array.from({ length: 20 }, () => new ApiError('Unavailable', 'too many drains')));
  w.api.drains = Array.from({ length: 5000 }, () => ({ done: false, evicted: 0, remaining: 1, blockedBy: [] }));
  await w.spec(REBOOT, MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ message: 'no drain for now: too many drains' });
  await w.pass(10 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Drain', state: 'Processing' });
  expect(w.status?.lastOperation).not.toHaveProperty('message');
});

it('reports in the shadow why the Node cannot be restored, until it is restored', async () => {
  const w = world();
  await w.toReboot();
  const denied = new ApiError('Internal', 'PATCH /api/v1/nodes/a: 403 denied');
  w.api.fail('restore', ...Array.from({ length: 20 }, () => denied));
  await w.boot();
  await w.pass(MINUTE);
  const message = 'the Node cannot be restored for now: PATCH /api/v1/nodes/a: 403 denied';
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Reboot', state: 'Processing', message });
  await w.pass(20 * MINUTE);
  expect(w.status).toMatchObject({ current_state: 'RebootedIntoUpdate' });
  expect(w.status?.lastOperation).not.toHaveProperty('message');
});

it('reports after a failed attempt why the Node cannot be restored, and then only the failure', async () => {
  const w = world();
  await w.toReboot();
  const denied = new ApiError('Internal', 'PATCH /api/v1/nodes/a: 403 denied');
  w.api.fail('restore', ...Array.from({ length: 20 }, () => denied));
  await w.boot({ rollsBack: true });
  const failure = w.status?.lastOperation;
  await w.pass(MINUTE);
  const message = `the Node cannot be restored for now: ${messageOf(denied)}. Before: ${failure?.message}`;
  expect(w.status).toMatchObject({ current_state: 'ErrorReset', lastOperation: { ...failure, message } });
  await w.spec(IDLE);
  expect(w.status).toMatchObject({ current_state: 'ErrorReset', observedGeneration: 3 });
  await w.pass(20 * MINUTE);
  expect(w.status).toMatchObject({ current_state: 'Idle', lastOperation: failure });
});

it('restores the Node also while reports fail', async () => {
  const w = world();
  await w.toReboot();
  w.api.fail('restore', ...Array.from({ length: 20 }, () => new ApiError('Unavailable', 'no response')));
  w.api.fail('report', ...Array.from({ length: 5000 }, () => new ApiError('Unavailable', 'no response')));
  await w.boot();
  await w.pass(10 * MINUTE);
  expect(w.api.calls).toContain('restore');
});

it('waits for load balancers before it evicts anything', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE);
  w.api.exclusion = { remainingMs: 30_000 };
  await w.spec(REBOOT, 20_000);
  expect(w.api.calls).not.toContain('drain');
  await w.pass(20_000);
  expect(w.api.calls).toContain('drain');
});

it('reports a rollback once, and never reboots again by itself', async () => {
  const w = world();
  await w.toReboot();
  await w.boot({ rollsBack: true });
  await w.pass(60 * MINUTE);
  expect(w.status).toMatchObject({
    current_state: 'ErrorReset',
    crash_count: 1,
    lastOperation: { errorCode: 'RolledBack' },
  });
  expect(w.host.calls.filter((call) => call === 'reboot')).toHaveLength(1);
  expect(w.api.calls.at(-1)).toBe('restore');
});

it('detects a rollback also when the spec went back to Idle meanwhile', async () => {
  const w = world();
  await w.toReboot();
  await w.killAgent();
  w.api.setSpec(IDLE);
  await w.boot({ rollsBack: true });
  expect(w.status).toMatchObject({ current_state: 'Idle', crash_count: 1, lastOperation: { errorCode: 'RolledBack' } });
});

it('reports StagedImageLost when the host rebooted before the activation', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE);
  await w.killAgent();
  w.api.setSpec(REBOOT);
  await w.boot();
  expect(w.status?.lastOperation).toMatchObject({ state: 'Failed', errorCode: 'StagedImageLost' });
  expect(w.api.calls).not.toContain('drain');
});

it('reports StagedImageLost, and no rollback, when the host rebooted while the activation failed', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE);
  w.host.failCommand('activate', ...Array.from({ length: 7 }, () => ({ exit: 1, stderr: 'Failed to fetch' })));
  await w.spec(REBOOT, 5_000);
  expect(w.status?.lastOperation).toMatchObject({
    state: 'Processing',
    message: 'the update is not activated yet: activate: exit status 1: Failed to fetch',
  });
  await w.boot();
  expect(w.status?.lastOperation).toMatchObject({ state: 'Failed', errorCode: 'StagedImageLost' });
});

it('drains again in a new process before it reboots an activated host', async () => {
  const w = world();
  w.host.failCall('reboot', new HostError('refused', 'connect ECONNREFUSED'));
  await w.pass(MINUTE);
  await w.spec(STAGE);
  await w.spec(REBOOT, 10);
  await w.killAgent();
  w.api.calls.length = 0;
  w.host.calls.length = 0;
  w.startAgent();
  await w.pass(1000);
  expect(w.api.calls).toContain('drain');
  expect(w.host.calls).toEqual(['reboot']);
});

it('requests the reboot again after 6 min when the host stays up, drains before that, and fails after 15 min', async () => {
  const w = world();
  await w.toReboot();
  await w.pass(5.5 * MINUTE);
  expect(w.host.calls.filter((call) => call === 'reboot')).toHaveLength(1);
  await w.pass(MINUTE);
  expect(w.host.calls.filter((call) => call === 'reboot')).toHaveLength(2);
  expect(w.api.calls.filter((call) => call === 'drain')).toHaveLength(4);
  await w.pass(15 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Reboot', errorCode: 'RebootTimedOut' });
  expect(w.host.calls.at(-1)).toBe('deactivate');
  expect(w.api.calls.at(-1)).toBe('restore');
});

it('records when it requests the reboot again, and requests none that could come after the step has failed', async () => {
  const w = world();
  await w.toReboot();
  const { startTime, lastUpdateTime } = w.status?.lastOperation ?? {};
  expect(lastUpdateTime).toBe(startTime);
  await w.pass(7 * MINUTE);
  const again = w.status?.lastOperation;
  expect(again?.startTime).toBe(startTime);
  expect(again?.lastUpdateTime).not.toBe(startTime);
  await w.killAgent();
  w.startAgent();
  await w.pass(7.5 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Reboot', state: 'Processing' });
  const afterRestart = w.host.calls.filter((call) => call === 'reboot').length;
  await w.pass(3 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ errorCode: 'RebootTimedOut' });
  expect(w.host.calls.filter((call) => call === 'reboot')).toHaveLength(afterRestart);
});

it('restores nothing in a new process while the reboot that the old one requested may still come', async () => {
  const w = world();
  await w.toReboot();
  await w.killAgent();
  w.api.setSpec(IDLE);
  w.api.calls.length = 0;
  w.startAgent();
  await w.pass(6 * MINUTE);
  expect(w.api.calls).toEqual(['read', 'stream']);
  expect(w.host.calls.at(-1)).toBe('reboot');
  await w.pass(2 * MINUTE);
  expect(w.host.calls).toContain('deactivate');
  expect(w.api.calls).toContain('restore');
});

it('fails with RebootRefused when an inhibitor remains, and undoes the activation', async () => {
  const w = world();
  w.host.failCall(
    'reboot',
    ...Array.from({ length: 9 }, () => new HostError('answer', '500 Failed to reboot, exit code: 1')),
  );
  await w.toReboot();
  await w.pass(10 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ errorCode: 'RebootRefused' });
  expect(w.host.calls.filter((call) => call === 'reboot')).toHaveLength(5);
  expect(w.host.calls.at(-1)).toBe('deactivate');
});

it('undoes an activation when the spec goes back to Idle before the reboot, and no later reboot counts as a rollback', async () => {
  const w = world();
  w.host.failCall('reboot', ...Array.from({ length: 9 }, () => new HostError('refused', 'connect ECONNREFUSED')));
  await w.toReboot();
  await w.spec(IDLE, MINUTE);
  expect(w.host.calls.at(-1)).toBe('deactivate');
  expect(w.status).toMatchObject({
    current_state: 'Idle',
    lastOperation: { operation: 'Restore', state: 'Succeeded' },
  });
  await w.boot();
  expect(w.status).toMatchObject({ current_state: 'Idle', crash_count: 0, current_version: OLD });
});

it('reports an activation that cannot be undone, until it is undone', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.host.command('prepare');
  await w.host.command('activate');
  w.host.failCommand('deactivate', ...Array.from({ length: 4 }, () => ({ exit: 1, stderr: 'signpost failed' })));
  await w.killAgent();
  w.startAgent();
  await w.pass(10_000);
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Restore', state: 'Processing' });
  expect(w.status?.lastOperation?.message).toContain('signpost failed');
  await w.pass(2 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Restore', state: 'Succeeded' });
});

it('starts nothing while a host with a requested reboot may still go down', async () => {
  const w = world();
  await w.toReboot();
  await w.spec(IDLE, 2 * MINUTE);
  expect(w.host.calls.at(-1)).toBe('reboot');
  await w.boot();
  expect(w.status).toMatchObject({ current_state: 'Idle', current_version: NEW, crash_count: 0 });
});

it('never reboots before the apiserver has acknowledged the step', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE);
  w.api.exclusion = { remainingMs: 5000 };
  await w.spec(REBOOT, 3000);
  w.api.unreachable = true;
  w.api.send(new Error('reset'));
  await w.pass(5 * MINUTE);
  expect(w.host.calls).not.toContain('activate');
  w.api.unreachable = false;
  await w.pass(MINUTE);
  expect(w.host.rebootAsked).toBe(true);
  expect(w.status?.crash_count).toBe(0);
});
