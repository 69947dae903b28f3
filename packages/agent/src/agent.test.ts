import { messageOf } from '@brupop/shared/errors';
import { FakeClock } from '@brupop/shared/fake-clock';
import { createLogger } from '@brupop/shared/log';
import type { AgentShadow } from '@brupop/shared/operator-api';
import type { ShadowSpec } from '@brupop/shared/shadow';

import { Agent } from './agent.ts';
import { ApiError } from './operator-api/api-error.ts';
import { FakeHost } from './host/fake-host.ts';
import { FakeOperatorApi } from './operator-api/fake-operator-api.ts';
import { HostError } from './host/host.ts';

const MINUTE = 60_000;
const OLD = '1.26.0';
const NEW = '1.27.0';
const STAGE: ShadowSpec = { state: 'StagedAndPerformedUpdate', version: NEW };
const REBOOT: ShadowSpec = { state: 'RebootedIntoUpdate', version: NEW };
const MONITOR: ShadowSpec = { state: 'MonitoringUpdate', version: NEW };
const IDLE: ShadowSpec = { state: 'Idle', version: null };

/** An agent's process, its host and the apiserver, on a clock that moves when told to. */
class World {
  readonly clock = new FakeClock();
  readonly host: FakeHost;
  readonly api: FakeOperatorApi;
  agent: Agent;
  ended: Error | 'stopped' | undefined;
  readonly log: string[] = [];
  #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(shadow?: AgentShadow, offered: string | undefined = NEW) {
    this.host = new FakeHost(OLD, offered);
    this.api = new FakeOperatorApi(this.clock, shadow);
    this.agent = this.startAgent();
  }

  startAgent(): Agent {
    const { host, api, clock } = this;
    const log = createLogger({ clock, level: 'debug', write: (line) => void this.log.push(line) });
    this.agent = new Agent({ host, api, clock, log, checkIntervalMs: 30 * MINUTE, random: () => 0.5 });
    this.#stop = new AbortController();
    this.ended = undefined;
    this.#running = this.agent.run(this.#stop.signal).then(
      () => void (this.ended = 'stopped'),
      (error: unknown) => void (this.ended = error as Error),
    );
    return this.agent;
  }

  /** The agent's process ends at once, as a reboot or a kill ends it. */
  async killAgent(): Promise<void> {
    this.#stop.abort(new Error('killed'));
    await this.clock.advance(0);
    await this.#running;
  }

  async boot(options: { rollsBack?: boolean } = {}): Promise<void> {
    await this.killAgent();
    this.host.boot(options);
    this.startAgent();
    await this.pass(1000);
  }

  /** Lets time pass; the apiserver's heartbeats come meanwhile. */
  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 10_000) {
      for (let turn = 0; turn < 60; turn += 1) await this.clock.advance(0);
      await this.clock.advance(Math.min(left, 10_000));
      if (!this.api.unreachable) this.api.tell({ type: 'heartbeat' });
    }
    for (let turn = 0; turn < 60; turn += 1) await this.clock.advance(0);
  }

  async spec(spec: ShadowSpec, ms = 1000): Promise<void> {
    this.api.setSpec(spec);
    await this.pass(ms);
  }

  get status() {
    return this.api.shadow?.status;
  }

  /** Brings the node to where the reboot call was made. */
  async toReboot(): Promise<void> {
    await this.pass(MINUTE);
    await this.spec(STAGE);
    await this.spec(REBOOT);
  }
}

const worlds: World[] = [];
function world(...args: ConstructorParameters<typeof World>): World {
  const made = new World(...args);
  worlds.push(made);
  return made;
}
afterEach(async () => {
  for (const one of worlds.splice(0)) await one.killAgent();
});

it('brings a node from Idle through the update and back, in the order that protects the workloads', async () => {
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
  ]);
  expect(w.host.calls).toEqual(['refresh', 'refresh', 'prepare', 'activate', 'reboot']);
  w.api.calls.length = 0;
  await w.boot();
  expect(w.api.calls).toEqual(['ensure', 'stream', 'restore', 'report RebootedIntoUpdate, Restore Succeeded']);
  expect(w.status).toMatchObject({ current_version: NEW, target_version: NEW, crash_count: 0, bootID: 'boot-2' });
  await w.spec(MONITOR);
  expect(w.status?.current_state).toBe('MonitoringUpdate');
  await w.spec(IDLE);
  expect(w.status).toMatchObject({ current_state: 'Idle', observedGeneration: 5 });
});

it('writes nothing when nothing changes', async () => {
  const w = world();
  await w.pass(MINUTE);
  const before = w.api.reports.length;
  await w.pass(60 * MINUTE);
  expect(w.api.reports).toHaveLength(before);
  expect(w.host.calls.length).toBeGreaterThanOrEqual(2);
});

it('keeps the known target when a refresh fails, and tries again soon', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCommand('refresh', { stderr: 'Metadata error' });
  await w.pass(29.5 * MINUTE);
  expect(w.host.calls).toEqual(['refresh', 'refresh']);
  expect(w.status?.target_version).toBe(NEW);
  await w.pass(MINUTE);
  expect(w.host.calls).toHaveLength(3);
});

it('waits while another command holds the lock, and then goes on', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.lockedLooks = 100;
  await w.host.start('refresh');
  await w.spec(STAGE, 5 * MINUTE);
  expect(w.status?.current_state).toBe('StagedAndPerformedUpdate');
});

it('stages again when prepare wrote another version than the one asked for', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCommand('prepare', { writes: '1.28.0' }, { writes: '' });
  await w.spec(STAGE, MINUTE);
  expect(w.host.calls.filter((call) => call === 'prepare')).toHaveLength(3);
  expect(w.status?.current_state).toBe('StagedAndPerformedUpdate');
});

it('fails after a bounded number of tries, once, and undoes what it left', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCommand('prepare', ...Array.from({ length: 9 }, () => ({ stderr: 'No space left on device' })));
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
  w.host.failCommand('prepare', { unrecorded: true });
  await w.spec(STAGE, MINUTE);
  expect(w.status?.current_state).toBe('StagedAndPerformedUpdate');
  expect(w.host.calls.filter((call) => call === 'prepare')).toHaveLength(2);
});

it('goes on after its process was killed during a prepare, without preparing again', async () => {
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

it('gives a drain up at its time limit, names what blocks it, and gives the Node back', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE);
  const blocked = { pod: 'a/b', reason: 'DisruptionBudget', message: 'needs 1' } as const;
  w.api.drains = Array.from({ length: 5000 }, () => ({ done: false, evicted: 0, remaining: 1, blockedBy: [blocked] }));
  await w.spec(REBOOT, 35 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Drain', errorCode: 'DrainTimedOut' });
  expect(w.status?.lastOperation?.message).toContain('a/b');
  expect(w.api.calls.at(-1)).toBe('restore');
  expect(w.host.calls).not.toContain('activate');
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

it('notices a rollback also when the spec went back to Idle meanwhile', async () => {
  const w = world();
  await w.toReboot();
  await w.killAgent();
  w.api.setSpec(IDLE);
  await w.boot({ rollsBack: true });
  expect(w.status).toMatchObject({ current_state: 'Idle', crash_count: 1, lastOperation: { errorCode: 'RolledBack' } });
});

it('says that the image is lost when the host rebooted before the activation', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE);
  await w.killAgent();
  w.api.setSpec(REBOOT);
  await w.boot();
  expect(w.status?.lastOperation).toMatchObject({ state: 'Failed', errorCode: 'StagedImageLost' });
  expect(w.api.calls).not.toContain('drain');
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

it('asks again after 5 min when the host stays up, drains before that, and gives up after 15 min', async () => {
  const w = world();
  await w.toReboot();
  await w.pass(6 * MINUTE);
  expect(w.host.calls.filter((call) => call === 'reboot')).toHaveLength(2);
  expect(w.api.calls.filter((call) => call === 'drain')).toHaveLength(2);
  await w.pass(15 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ operation: 'Reboot', errorCode: 'RebootTimedOut' });
  expect(w.host.calls.at(-1)).toBe('deactivate');
  expect(w.api.calls.at(-1)).toBe('restore');
});

it('fails with RebootRefused when an inhibitor stays, and undoes the activation', async () => {
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

it('begins nothing while a host that was asked to reboot may still go down', async () => {
  const w = world();
  await w.toReboot();
  await w.spec(IDLE, 2 * MINUTE);
  expect(w.host.calls.at(-1)).toBe('reboot');
  await w.boot();
  expect(w.status).toMatchObject({ current_state: 'Idle', current_version: NEW, crash_count: 0 });
});

it('never reboots before the step was acknowledged', async () => {
  const w = world();
  await w.pass(MINUTE);
  await w.spec(STAGE);
  w.api.exclusion = { remainingMs: 5000 };
  await w.spec(REBOOT, 3000);
  w.api.unreachable = true;
  w.api.tell(new Error('reset'));
  await w.pass(5 * MINUTE);
  expect(w.host.calls).not.toContain('activate');
  w.api.unreachable = false;
  await w.pass(MINUTE);
  expect(w.host.rebootAsked).toBe(true);
  expect(w.status?.crash_count).toBe(0);
});

it('gets over refusals of the apiserver without failing the update', async () => {
  const w = world();
  w.api.fail(
    'report',
    new ApiError('Unavailable', ''),
    new ApiError('Unauthenticated', ''),
    new ApiError('Conflict', ''),
  );
  w.api.fail(
    'drain',
    new ApiError('ReplicaOnSameNode', ''),
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

it('gets over a host API that is away for a while', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCall('version', ...Array.from({ length: 6 }, () => new HostError('refused', 'connect ECONNREFUSED')));
  await w.spec(STAGE, 2 * MINUTE);
  expect(w.status).toMatchObject({ current_state: 'StagedAndPerformedUpdate', crash_count: 0 });
});

it('fails a step when the host has been silent for too long', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCall('version', ...Array.from({ length: 200 }, () => new HostError('silent', 'no answer')));
  await w.spec(STAGE, 6 * MINUTE);
  expect(w.status).toMatchObject({ current_state: 'ErrorReset', lastOperation: { errorCode: 'HostUnreachable' } });
  expect(w.agent.ready()).toContain('does not answer');
});

it('ends when nobody has listened on the socket for long: its mount is stale', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.failCall(
    'version',
    ...Array.from({ length: 500 }, () => new HostError('refused', 'connect ECONNREFUSED /run/api.sock')),
  );
  await w.pass(10 * MINUTE);
  expect(messageOf(w.ended)).toContain('mount may be stale');
});

it('ends when the apiserver has been out of reach for long', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.api.unreachable = true;
  w.api.tell(new Error('reset'));
  await w.pass(9 * MINUTE);
  expect(w.ended).toBeUndefined();
  await w.pass(6 * MINUTE);
  expect(messageOf(w.ended)).toContain('apiserver has not been reached');
});

it('makes its shadow again when it was deleted', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.api.shadow = undefined;
  w.api.tell({ type: 'deleted' });
  await w.pass(MINUTE);
  expect(w.api.shadow).toMatchObject({ status: { current_state: 'Idle' } });
});

it('names a host without in-place updates and asks it again only at the usual interval', async () => {
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

it('names an update status that nobody can read, and takes that back when it is healed', async () => {
  const w = world();
  const unreadable = new HostError('unreadable', '500 Update dispatcher failed');
  w.host.failCall('updateStatus', ...Array.from({ length: 12 }, () => unreadable));
  w.host.failCall('refresh', ...Array.from({ length: 2 }, () => unreadable));
  await w.pass(20 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ state: 'Failed', errorCode: 'HostStatusUnreadable' });
  await w.pass(120 * MINUTE);
  expect(w.status?.lastOperation).toMatchObject({ state: 'Succeeded' });
});

it('stops within an instant, in the middle of a prepare too', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.lockedLooks = 1_000_000;
  await w.spec(STAGE);
  await w.killAgent();
  expect(w.ended).toBe('stopped');
});

it('is alive while a long command runs, and says so when its loop is stuck', async () => {
  const w = world();
  await w.pass(MINUTE);
  w.host.lockedLooks = 1_000_000;
  await w.spec(STAGE, 4 * MINUTE);
  expect(w.agent.live()).toBeUndefined();
  w.host.version = (signal) =>
    new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
  await w.pass(60 * MINUTE);
  expect(w.agent.live()).toContain('the loop should have turned');
});
