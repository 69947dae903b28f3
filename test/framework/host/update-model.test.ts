import type { FaultValues } from './faults.ts';
import type { UpdateStatus } from './status-file.ts';
import { UpdateModel } from './update-model.ts';

let faults: FaultValues = {};

function modelWith(...versions: string[]): UpdateModel {
  faults = {};
  return new UpdateModel({
    version: '1.26.0',
    variant: 'aws-k8s-1.31',
    arch: 'x86_64',
    repository: versions.map((version) => ({ version })),
    now: () => Date.UTC(2026, 0, 1),
    faults: () => faults,
  });
}

function run(model: UpdateModel, ...commands: ('refresh' | 'prepare' | 'activate' | 'deactivate')[]): void {
  for (const command of commands) {
    const job = model.dispatch(command);
    if ('text' in job) throw new Error(`${command} is refused: ${job.status} ${job.text}`);
    model.finish(job);
  }
}

function statusOf(model: UpdateModel): UpdateStatus {
  const status = model.readStatus();
  if ('text' in status) throw new Error(`no status: ${status.status} ${status.text}`);
  return status;
}

it('fails each command while the update repository is out of reach, and changes nothing', () => {
  const model = modelWith('1.27.0');
  run(model, 'refresh', 'prepare');
  faults = { repositoryGone: true };
  run(model, 'activate');
  const message = expect.stringContaining('Metadata error: Failed to fetch') as string;
  const failed = { cmd_type: 'activate', cmd_status: 'Failed', exit_status: 1, stderr: message };
  expect(statusOf(model)).toMatchObject({ update_state: 'Staged', most_recent_command: failed });
  run(model, 'prepare', 'refresh');
  faults = {};
  run(model, 'activate');
  faults = { repositoryGone: true };
  run(model, 'deactivate');
  expect(statusOf(model)).toMatchObject({ update_state: 'Ready', staging_partition: { next_to_boot: true } });
  model.boot();
  expect(model.partitions.running).toBe('1.27.0');
});

describe('a boot of the host', () => {
  it('starts the activated version, and keeps the old one on the other set', () => {
    const model = modelWith('1.27.0');
    run(model, 'refresh', 'prepare', 'activate');
    expect(model.boot()).toBe(1);
    expect(model.partitions.running).toBe('1.27.0');
    expect(model.partitions.inactive).toEqual({ version: '1.26.0', priority: 1, triesLeft: 0, successful: true });
  });

  it('starts the running version when the update is only staged, and the status is gone', () => {
    const model = modelWith('1.27.0');
    run(model, 'refresh', 'prepare');
    model.boot();
    expect(model.partitions.running).toBe('1.26.0');
    expect(model.readStatus()).toMatchObject({ status: 404 });
  });

  it('starts the running version when the activation was undone', () => {
    const model = modelWith('1.27.0');
    run(model, 'refresh', 'prepare', 'activate', 'deactivate');
    model.boot();
    expect(model.partitions.running).toBe('1.26.0');
  });

  it('rolls back, by a second attempt, when the new version does not boot, and offers it again', () => {
    const model = modelWith('1.27.0');
    run(model, 'refresh', 'prepare', 'activate');
    faults = { boot: { rollsBack: true } };
    expect(model.boot()).toBe(2);
    expect(model.partitions.running).toBe('1.26.0');
    run(model, 'refresh');
    expect(statusOf(model)).toMatchObject({
      update_state: 'Available',
      chosen_update: { version: '1.27.0' },
      active_partition: { image: { version: '1.26.0' }, next_to_boot: true },
    });
  });

  it('succeeds with the same version after a rollback when it is prepared and activated again', () => {
    const model = modelWith('1.27.0');
    run(model, 'refresh', 'prepare', 'activate');
    faults = { boot: { rollsBack: true } };
    model.boot();
    faults = {};
    run(model, 'refresh', 'prepare', 'activate');
    model.boot();
    expect(model.partitions.running).toBe('1.27.0');
  });

  it('falls back at the boot after one that was never marked successful', () => {
    const model = modelWith('1.27.0');
    run(model, 'refresh', 'prepare', 'activate');
    faults = { boot: { neverMarkedSuccessful: true, version: '1.27.0' } };
    model.boot();
    expect(model.partitions.running).toBe('1.27.0');
    run(model, 'refresh');
    expect(statusOf(model).active_partition?.next_to_boot).toBe(false);
    model.boot();
    expect(model.partitions.running).toBe('1.26.0');
  });

  it('updates back and forth between the two sets', () => {
    const model = modelWith('1.27.0', '1.28.0');
    for (const lock of ['1.27.0', '1.28.0', '1.27.0']) {
      model.settings = { ...model.settings, versionLock: lock };
      run(model, 'refresh', 'prepare', 'activate');
      model.boot();
      expect(model.partitions.running).toBe(lock);
    }
  });

  it('finds the inactive set cleared when it interrupts a prepare', () => {
    const model = modelWith('1.27.0');
    run(model, 'refresh', 'prepare');
    const job = model.dispatch('prepare');
    model.boot();
    if (!('text' in job)) model.finish(job);
    expect(model.partitions.inactive.version).toBeUndefined();
    expect(model.readStatus()).toMatchObject({ status: 404 });
  });
});

describe('a prepare', () => {
  it('reports "No update required" and Staged when the version was withdrawn, and leaves an older image to be activated', () => {
    const model = modelWith('1.27.0');
    run(model, 'refresh', 'prepare');
    model.repository = [{ version: '1.27.0' }, { version: '1.28.0' }];
    run(model, 'refresh');
    model.repository = [];
    run(model, 'prepare');
    expect(statusOf(model)).toMatchObject({
      update_state: 'Staged',
      staging_partition: { image: { version: '1.28.0' } },
      most_recent_command: { cmd_status: 'Success', stderr: 'No update required\n' },
    });
    run(model, 'activate');
    model.boot();
    expect(model.partitions.running).toBe('1.27.0');
  });

  it('continues to write after its dispatcher was killed, while the lock is free', () => {
    const model = modelWith('1.27.0');
    run(model, 'refresh');
    const job = model.dispatch('prepare');
    model.killDispatcher();
    expect(statusOf(model).update_state).toBe('Available');
    if (!('text' in job)) model.finish(job);
    expect(statusOf(model).update_state).toBe('Available');
    expect(model.partitions.inactive).toMatchObject({ version: '1.27.0', triesLeft: 1 });
  });
});

describe('waves', () => {
  const waves = { 0: '2025-12-01T00:00:00Z', 1024: '2026-02-01T00:00:00Z' };

  it.each([
    ['a host in a wave that ends later waits', 1000, false, null],
    ['a host early in its wave chooses it', 10, false, '1.27.0'],
    ['a host in a wave that has not started waits', 2000, false, null],
    ['a host that ignores waves chooses it', 2000, true, '1.27.0'],
    ['seed 0 is always ready', 0, false, '1.27.0'],
  ])('%s', (_, seed, ignoreWaves, chosen) => {
    const model = modelWith();
    model.repository = [{ version: '1.27.0', waves }];
    model.settings = { versionLock: 'latest', ignoreWaves, seed };
    run(model, 'refresh');
    expect(statusOf(model).chosen_update?.version ?? null).toBe(chosen);
  });

  it('delay a locked version, too', () => {
    const model = modelWith();
    model.repository = [{ version: '1.27.0', waves }];
    model.settings = { versionLock: '1.27.0', ignoreWaves: false, seed: 2000 };
    run(model, 'refresh');
    expect(statusOf(model)).toMatchObject({ update_state: 'Idle', chosen_update: null, available_updates: [] });
  });
});
