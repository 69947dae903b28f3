import { messageOf } from '@brupop/shared/runtime/errors';
import { ApiError } from './apiserver/messages.ts';
import { HostError } from './host/host.ts';
import { endWorlds, MINUTE, OLD, REBOOT, STAGE, world, type World } from './testing/world.ts';

afterEach(endWorlds);

it('survives rejections of the apiserver without failing the update', async () => {
  const w = world();
  w.api.fail(
    'report',
    new ApiError('Unavailable', ''),
    new ApiError('Unauthenticated', ''),
    new ApiError('Conflict', ''),
  );
  w.api.fail(
    'drain',
    new ApiError('Unavailable', ''),
    new ApiError('TooManyRequests', ''),
    new ApiError('Internal', ''),
  );
  w.api.fail('restore', new ApiError('Unintelligible', ''));
  await w.pass(MINUTE);
  await w.spec(STAGE, MINUTE);
  await w.spec(REBOOT, MINUTE);
  expect(w.host.rebootAsked).toBe(true);
  expect(w.status?.crash_count).toBe(0);
});

it('survives a host API that is temporarily unreachable', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCall('version', ...Array.from({ length: 6 }, () => new HostError('refused', 'connect ECONNREFUSED')));
  await w.spec(STAGE, 2 * MINUTE);
  expect(w.status).toMatchObject({ current_state: 'StagedAndPerformedUpdate', crash_count: 0 });
});

it('fails a step when the host has been unreachable for too long', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCall('version', ...Array.from({ length: 200 }, () => new HostError('unanswered', 'no answer')));
  await w.spec(STAGE, 6 * MINUTE);
  expect(w.status).toMatchObject({ current_state: 'ErrorReset', lastOperation: { errorCode: 'HostUnreachable' } });
  expect(w.agent.ready()).toContain('does not answer');
});

it('restores the Node when the host API dies after the cordon and never returns', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE);
  const blocked = { pod: 'a/b', reason: 'DisruptionBudget', message: 'needs 1' } as const;
  w.api.drains = Array.from({ length: 5000 }, () => ({ done: false, evicted: 0, remaining: 1, blockedBy: [blocked] }));
  await w.spec(REBOOT);
  w.api.calls.length = 0;
  w.host.failCall('version', ...Array.from({ length: 50_000 }, () => new HostError('refused', 'ECONNREFUSED')));
  for (let restarts = 0; restarts < 12; restarts += 1) {
    await w.pass(3 * MINUTE);
    if (w.ended !== undefined) w.startAgent();
  }
  expect(w.status).toMatchObject({ current_state: 'ErrorReset', lastOperation: { errorCode: 'HostUnreachable' } });
  expect(w.status?.lastOperation?.message).toContain('no answer for');
  expect(w.api.calls).toContain('restore');
});

it('exits when the socket has refused connections for long: its mount is stale', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCall(
    'version',
    ...Array.from({ length: 500 }, () => new HostError('refused', 'connect ECONNREFUSED /run/api.sock')),
  );
  await w.pass(10 * MINUTE);
  expect(messageOf(w.ended)).toContain('mount may be stale');
});

it('exits because of a stale mount 30 s after the host API stopped during a command', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.lockedLooks = 1_000_000;
  await w.spec(STAGE, 10_000);
  expect(w.host.calls.at(-1)).toBe('refresh');
  const refused = new HostError('refused', 'connect ECONNREFUSED /run/api.sock');
  for (const call of ['updateStatus', 'version'] as const)
    w.host.failCall(call, ...Array.from({ length: 5_000 }, () => refused));
  await w.pass(29_000);
  expect(w.ended).toBeUndefined();
  await w.pass(4_000);
  expect(messageOf(w.ended)).toContain('mount may be stale');
});

it.each([
  ['a newer version was published', '1.28.0', '1.28.0'],
  ['the version was withdrawn', undefined, OLD],
])('ends its attempt after one refresh, without counting a failure, when %s', async (_what, published, target) => {
  const w = world();
  await w.pass(MINUTE);
  const before = w.host.calls.length;
  w.host.publish(published);
  await w.spec(STAGE, 500);
  expect(w.host.calls.slice(before)).toEqual(['refresh']);
  expect(w.status).toMatchObject({
    current_state: 'ErrorReset',
    target_version: target,
    crash_count: 0,
    lastOperation: { state: 'Failed', errorCode: 'VersionNotOffered' },
  });
  expect(w.status?.state_transition_failure_timestamp ?? null).toBeNull();
});

it('deactivates the update before it restores the Node when the host rejects the reboot', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE);
  const order: string[] = [];
  const start = w.host.start.bind(w.host);
  const restore = w.api.restore.bind(w.api);
  w.host.start = async (command): Promise<void> => {
    order.push(command);
    await start(command);
  };
  w.api.restore = async (): Promise<void> => {
    order.push('restore');
    await restore();
  };
  w.host.failCall('reboot', ...Array.from({ length: 9 }, () => new HostError('answer', 'Operation inhibited')));
  await w.spec(REBOOT, 10 * MINUTE);
  expect(w.status).toMatchObject({ current_state: 'ErrorReset', lastOperation: { errorCode: 'RebootRefused' } });
  expect(order).toEqual(['activate', 'deactivate', 'restore']);
});

/** The repository goes out of reach when the node is drained, and the host needs it to activate what it has staged. */
async function drainedWithoutRepository(): Promise<World> {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE, MINUTE);
  w.host.repositoryGone = true;
  w.host.calls.length = 0;
  w.api.calls.length = 0;
  await w.spec(REBOOT, MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Activate', state: 'Processing' });
  return w;
}

it('continues the update of a drained node when the repository was out of reach for a minute', async () => {
  const w = await drainedWithoutRepository();
  w.host.repositoryGone = false;
  await w.pass(2 * MINUTE);
  expect([w.host.rebootAsked, w.status?.crash_count]).toEqual([true, 0]);
  expect(w.host.calls.filter((call) => call !== 'activate')).toEqual(['reboot']);
  expect(w.api.calls).not.toContain('restore');
});

it('continues the update of a drained node when its agent restarts while the repository is out of reach', async () => {
  const w = await drainedWithoutRepository();
  await w.killAgent();
  w.startAgent();
  await w.pass(10_000);
  w.host.repositoryGone = false;
  await w.pass(2 * MINUTE);
  expect([w.host.rebootAsked, w.status?.crash_count]).toEqual([true, 0]);
  expect(w.host.calls.filter((call) => call !== 'activate')).toEqual(['reboot']);
  expect(w.api.calls).not.toContain('restore');
});

it('returns a drained node to service when the repository remains out of reach', async () => {
  const w = await drainedWithoutRepository();
  await w.pass(5 * MINUTE);
  expect(w.host.calls).toEqual(Array.from({ length: 7 }, () => 'activate'));
  expect(w.status).toMatchObject({ current_state: 'ErrorReset', lastOperation: { errorCode: 'ActivateFailed' } });
  expect(w.status?.lastOperation?.message).toContain('Failed to fetch');
  expect(w.api.calls).toContain('restore');
});

it('restores the Node when the host rejects the deactivation, and retries the deactivation', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE);
  w.host.failCall('reboot', ...Array.from({ length: 9 }, () => new HostError('answer', 'Operation inhibited')));
  w.host.failCall('deactivate', ...Array.from({ length: 3 }, () => new HostError('answer', '500 no')));
  await w.spec(REBOOT, 15 * MINUTE);
  expect(w.api.calls).toContain('restore');
  expect(w.host.failing('deactivate')).toBe(0);
  expect(w.host.calls.at(-1)).toBe('deactivate');
});

it('exits when the apiserver has been unreachable for long', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.api.unreachable = true;
  w.api.send(new Error('reset'));
  await w.pass(9 * MINUTE);
  expect(w.ended).toBeUndefined();
  await w.pass(6 * MINUTE);
  expect(messageOf(w.ended)).toMatch(/^the apiserver has not accepted a call for \d+ s: .*ECONNREFUSED/);
});

it('exits with the error of the apiserver when the apiserver keeps rejecting its identity', async () => {
  const w = world();
  await w.pass(MINUTE);
  const error = new ApiError('Unauthenticated', 'GET shadow/stream: 401 Unauthenticated: the token is not valid');
  for (const call of ['stream', 'report'] as const) w.api.fail(call, ...Array.from({ length: 1000 }, () => error));
  w.api.send(new Error('reset'));
  await w.pass(15 * MINUTE);
  expect(messageOf(w.ended)).toContain('401 Unauthenticated: the token is not valid');
});

it('recreates its shadow when it was deleted', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.api.shadow = undefined;
  w.api.send({ type: 'deleted' });
  await w.pass(MINUTE);
  expect(w.api.shadow).toMatchObject({ status: { current_state: 'Idle' } });
});

it('reports a host without in-place updates and checks it again only at the usual interval', async () => {
  const w = world();
  w.host.failCall('refresh', ...Array.from({ length: 9 }, () => new HostError('unsupported', '500 Unable to start')));
  await w.pass(20 * MINUTE);
  expect(w.status).toMatchObject({
    current_state: 'Idle',
    crash_count: 0,
    lastOperation: { errorCode: 'HostUnsupported' },
  });
  expect(w.host.calls).toEqual(['refresh']);
});

it('reports that a host cannot check for updates, once, until a check succeeds', async () => {
  const w = world();
  w.host.failCommand('refresh', ...Array.from({ length: 10 }, () => ({ exit: 1, stderr: 'no route to host' })));
  await w.pass(50 * MINUTE);
  expect(w.status?.lastOperation).toBeUndefined();
  w.api.calls.length = 0;
  await w.pass(70 * MINUTE);
  expect(w.api.calls.filter((call) => call.startsWith('report'))).toHaveLength(1);
  expect(w.status).toMatchObject({
    current_state: 'Idle',
    crash_count: 0,
    lastOperation: {
      state: 'Failed',
      errorCode: 'UpdateCheckFailed',
      message: expect.stringContaining('no route') as string,
    },
  });
  await w.pass(60 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ state: 'Succeeded' });
});

it('reports that a host at rest has not answered for an hour, once, until it answers', async () => {
  const w = world();
  await w.pass(MINUTE);
  const errors = Array.from({ length: 1000 }, () => new HostError('unanswered', 'GET /os: no complete answer'));
  w.host.failCall('version', ...errors);
  await w.pass(59 * MINUTE);
  expect(w.status?.lastOperation).toBeUndefined();
  w.api.calls.length = 0;
  await w.pass(60 * MINUTE);
  expect(w.api.calls.filter((call) => call.startsWith('report'))).toHaveLength(1);
  expect(w.status).toMatchObject({
    current_state: 'Idle',
    crash_count: 0,
    lastOperation: {
      state: 'Failed',
      errorCode: 'UpdateCheckFailed',
      message: 'the host does not answer: GET /os: no complete answer',
    },
  });
  w.host.failCall('version');
  await w.pass(MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ state: 'Succeeded' });
});

it.each(['locked', 'unanswered'] as const)(
  'reports that no check for updates can be started (%s), after an hour, until one succeeds',
  async (kind) => {
    const w = world();
    await w.pass(MINUTE);
    const errors = Array.from({ length: 1000 }, () => new HostError(kind, 'POST /actions/refresh-updates: 423'));
    w.host.failCall('refresh', ...errors);
    await w.pass(85 * MINUTE);
    expect(w.status?.lastOperation).toBeUndefined();
    w.api.calls.length = 0;
    await w.pass(10 * MINUTE);
    expect(w.api.calls.filter((call) => call.startsWith('report'))).toHaveLength(1);
    expect(w.status?.lastOperation).toMatchObject({
      state: 'Failed',
      errorCode: 'UpdateCheckFailed',
      message: expect.stringContaining('refresh-updates: 423') as string,
    });
    w.host.failCall('refresh');
    await w.pass(MINUTE);
    expect(w.status?.lastOperation).toMatchObject({ state: 'Succeeded' });
  },
);

it('reports nothing when another process holds the update lock at every check, but not for long', async () => {
  const w = world();
  await w.pass(15 * MINUTE);
  for (let checks = 0; checks < 4; checks += 1) {
    const errors = Array.from({ length: 15 }, () => new HostError('locked', 'POST /actions/refresh-updates: 423'));
    w.host.failCall('refresh', ...errors);
    await w.pass(30 * MINUTE);
    expect(w.host.failing('refresh')).toBe(0);
  }
  expect(w.api.reports.filter(({ lastOperation }) => lastOperation !== undefined)).toEqual([]);
});

it('reports an unreadable update status, until it is readable', async () => {
  const w = world();
  const unreadable = new HostError('unreadable', '500 Update dispatcher failed');
  w.host.failCall('updateStatus', ...Array.from({ length: 12 }, () => unreadable));
  w.host.failCall('refresh', ...Array.from({ length: 6 }, () => unreadable));
  await w.pass(20 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ state: 'Failed', errorCode: 'HostStatusUnreadable' });
  await w.pass(120 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ state: 'Succeeded' });
});

it('reports a host at rest that cannot start its dispatcher twice in a row, not one that cannot once', async () => {
  const w = world();
  await w.pass(MINUTE);
  const reported: (number | undefined)[] = [];
  for (const times of [1, 2]) {
    w.host.failCall('refresh', ...Array.from({ length: times }, () => new HostError('unreadable', '500')));
    w.api.reports.length = 0;
    await w.pass(40 * MINUTE);
    expect(w.host.failing('refresh')).toBe(0);
    reported.push(w.api.reports.filter(({ lastOperation }) => lastOperation?.state === 'Failed').length);
    expect(w.status?.lastOperation?.state).not.toBe('Failed');
  }
  expect(reported).toEqual([0, 1]);
});

it.each(['refresh', 'prepare', 'activate'] as const)(
  'continues an update when the host cannot start its dispatcher for %s a few times',
  async (command) => {
    const w = world();
    await w.pass(MINUTE);
    const unreadable = new HostError('unreadable', '500 Update dispatcher failed');
    w.host.failCall(command, ...Array.from({ length: 3 }, () => unreadable));
    await w.spec(STAGE, 2 * MINUTE);
    await w.spec(REBOOT, 2 * MINUTE);
    expect([w.host.failing(command), w.host.rebootAsked, w.status?.crash_count]).toEqual([0, true, 0]);
  },
);

it('fails an update when the host cannot start its dispatcher for half a minute', async () => {
  const w = world();
  await w.pass(MINUTE);
  const unreadable = new HostError('unreadable', '500 Update dispatcher failed');
  w.host.failCall('refresh', ...Array.from({ length: 100 }, () => unreadable));
  await w.spec(STAGE, 30_000);
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Stage', state: 'Processing' });
  await w.pass(MINUTE);
  expect(w.status).toMatchObject({ current_state: 'ErrorReset', lastOperation: { errorCode: 'HostStatusUnreadable' } });
});

it('stops at once, also in the middle of a prepare', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.lockedLooks = 1_000_000;
  await w.spec(STAGE);
  await w.killAgent();
  expect(w.ended).toBe('stopped');
});

it('is live while a long command runs, and not when its loop is stuck', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.lockedLooks = 1_000_000;
  await w.spec(STAGE, 4 * MINUTE);
  expect(w.agent.live()).toBeUndefined();
  w.host.version = (signal) =>
    new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
  await w.pass(60 * MINUTE);
  expect(w.agent.live()).toContain('the loop has been due');
});
