/** The agent's client of the host API against the stand-in host, over a real Unix socket. */
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Execution, rowOf } from '../../../packages/agent/src/actions.ts';
import type { ApiserverClient } from '../../../packages/agent/src/apiserver/client.ts';
import { HostSocket } from '../../../packages/agent/src/host/host-socket.ts';
import {
  HostError,
  isActivated,
  isStaged,
  StaleDecisionError,
  type UpdateStatus,
} from '../../../packages/agent/src/host/host.ts';
import { UPDATER_SETTINGS } from '../../../packages/shared/src/api/settings.ts';
import { type Clock, systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import {
  type Pin,
  updaterLeaves,
  updaterSettings,
  type UpdaterSettings,
} from '../../../packages/shared/src/testing/settings.ts';
import { eventually } from '../../framework/eventually.ts';
import { BottlerocketHost } from '../../framework/host/host.ts';
import type { SettingValue } from '../../framework/host/settings.ts';
import type { UpdateCommand } from '../../../packages/agent/src/limits.ts';

const OLD = '1.26.0';
const NEW = '1.27.0';
const { signal } = new AbortController();

/** Limits of calls run out a hundred times as fast. */
const hasty: Clock = { ...systemClock, after: (ms, callback) => systemClock.after(ms / 100, callback) };

let folder: string;
let host: BottlerocketHost;
let client: HostSocket;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'brupop-agent-host-'));
  host = await BottlerocketHost.start({ socketPath: join(folder, 'api.sock'), version: OLD, repository: [OLD, NEW] });
  client = clientOn(systemClock);
});

afterEach(async () => {
  await host.stop();
  await rm(folder, { recursive: true, force: true });
});

function clientOn(clock: Clock): HostSocket {
  return new HostSocket({ socketPath: host.socketPath, bootIDFile: host.bootIDPath, clock });
}

function executionOn(socket: HostSocket): Execution {
  const api = {} as ApiserverClient;
  const decidedMs = systemClock.monotonic();
  return { host: socket, api, clock: systemClock, shadow: undefined, decidedMs, isCurrent: () => true, signal };
}

/** Runs a command to its end. */
async function run(command: UpdateCommand): Promise<UpdateStatus> {
  await client.start(command, signal);
  await host.settled();
  return client.updateStatus(signal);
}

/** The kind of error that a call ends with. */
async function kindOf(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => new Error('the call succeeded'),
    (reason: unknown) => reason,
  );
  if (!(error instanceof HostError)) throw error;
  return error.kind;
}

it('reads the version, the boot ID and the status of each state of an update', async () => {
  expect(await client.version(signal)).toBe(OLD);
  expect(await client.bootID()).toBe(host.bootID);
  expect(await kindOf(client.updateStatus(signal))).toBe('uninitialized');
  expect(await run('refresh')).toMatchObject({ state: 'Available', chosenVersion: NEW, staged: undefined });
  expect(isStaged(await run('prepare'), NEW)).toBe(true);
  expect(isActivated(await run('activate'), NEW)).toBe(true);
  const deactivated = await run('deactivate');
  expect(deactivated.state).toBe('Staged');
  expect(isStaged(deactivated, NEW)).toBe(false);
});

it('sends nothing when the observation behind it is stale, and continues after that', async () => {
  await run('refresh');
  const before = host.history.length;
  const late = (): never => {
    throw new StaleDecisionError('seen 3 s ago');
  };
  await expect(client.reboot(signal, late)).rejects.toThrow(StaleDecisionError);
  await expect(client.start('prepare', signal, late)).rejects.toThrow(StaleDecisionError);
  expect(host.history).toHaveLength(before);
  await client.start('prepare', signal, () => undefined);
  await host.settled();
  expect(isStaged(await client.updateStatus(signal), NEW)).toBe(true);
});

it('reads a failed command with its exit status and stderr', async () => {
  await host.faults.set({ refresh: { exit: 1, stderr: 'Metadata error\n' } });
  const { latestCommand } = await run('refresh');
  expect(latestCommand).toMatchObject({ type: 'refresh', succeeded: false, exitStatus: 1, stderr: 'Metadata error\n' });
});

it('reads the status of a host whose first command was refused', async () => {
  expect(await kindOf(client.start('activate', signal))).toBe('answer');
  expect(await client.updateStatus(signal)).toMatchObject({ state: 'Idle', latestCommand: undefined });
});

it('distinguishes a held lock from other errors, for status reads and for commands', async () => {
  await run('refresh');
  host.holdUpdateLock(60);
  expect(await kindOf(client.updateStatus(signal))).toBe('locked');
  expect(await kindOf(client.start('refresh', signal))).toBe('locked');
});

it('reads which version a prepare wrote when a newer one was published after the refresh', async () => {
  await run('refresh');
  host.setRepository([OLD, NEW, '1.28.0']);
  const status = await run('prepare');
  expect(status.staged?.version).toBe(NEW);
  expect(isStaged(status, NEW)).toBe(false);
});

it('reports a variant without in-place updates', async () => {
  await host.faults.set({ noInPlaceUpdates: true });
  expect(await kindOf(client.start('refresh', signal))).toBe('unsupported');
});

it('reports a partition table and a lock folder that cannot be read', async () => {
  await host.faults.set({ unreadablePartitionTable: true });
  expect(await kindOf(client.start('refresh', signal))).toBe('unreadable');
  await host.faults.clear();
  await host.faults.set({ lockFolderGone: true });
  expect(await kindOf(client.updateStatus(signal))).toBe('unreadable');
});

it('reports a missing socket and one without a listener, and finds the new one', async () => {
  await host.faults.set({ socketGone: true });
  expect(await kindOf(client.version(signal))).toBe('refused');
  await host.faults.clear();
  await host.faults.set({ socketStale: true });
  expect(await kindOf(client.version(signal))).toBe('refused');
  await host.faults.clear();
  await host.replaceSocket();
  expect(await client.version(signal)).toBe(OLD);
});

it.each(['hang', 'truncated', 'empty'] as const)('ends a call whose response is %s', async (answer) => {
  await host.faults.set({ api: { answer } });
  const hurried = clientOn(hasty);
  expect(await kindOf(hurried.version(signal))).toBe('unanswered');
  expect(await kindOf(hurried.updateStatus(signal))).toBe('unanswered');
});

it('waits for a slow answer', async () => {
  await host.faults.set({ api: { answer: 'slow', delayMs: 100 } });
  expect(await client.version(signal)).toBe(OLD);
});

it('rejects a malformed status', async () => {
  await host.faults.set({ api: { answer: 'garbage' } });
  expect(await kindOf(client.version(signal))).toBe('answer');
  expect(await kindOf(client.updateStatus(signal))).toBe('unreadable');
});

it('aborts a call at once when it stops', async () => {
  await host.faults.set({ api: { answer: 'hang' } });
  const stop = new AbortController();
  const call = kindOf(client.version(stop.signal));
  stop.abort(new Error('stop'));
  expect(await call).toBe('unanswered');
});

it("leaves no connection open that would delay the host's shutdown", async () => {
  await client.version(signal);
  const before = performance.now();
  await client.reboot(signal);
  await host.settled();
  expect(performance.now() - before).toBeLessThan(4000);
  expect(host.reboots).toBe(1);
  expect(await client.bootID()).toBe(host.bootID);
});

it('reports a refused reboot, and treats every other error as a reboot that may come', async () => {
  await host.faults.set({ reboot: { exit: 1, stderr: 'Operation inhibited by "x"\n' } });
  expect(await kindOf(client.reboot(signal))).toBe('answer');
  const delayed = "Call to Reboot failed: There's already a shutdown or sleep operation in progress\n";
  await host.faults.set({ reboot: { exit: 1, stderr: delayed } });
  await expect(client.reboot(signal)).resolves.toBeUndefined();
  await host.faults.set({ reboot: undefined, systemctlMissing: true });
  expect(await kindOf(client.reboot(signal))).toBe('answer');
  await host.faults.clear();
  await host.faults.set({ socketStale: true });
  expect(await kindOf(client.reboot(signal))).toBe('refused');
  await host.faults.clear();
  await host.faults.set({ reboot: { answerLost: true, times: 1 } });
  await expect(client.reboot(signal)).resolves.toBeUndefined();
  await host.settled();
  await host.faults.set({ reboot: { lingerMs: 1, times: 1 } });
  await expect(client.reboot(signal)).resolves.toBeUndefined();
  await host.settled();
  expect(host.reboots).toBe(2);
});

describe('the settings of the host', () => {
  const read = async (): Promise<UpdaterSettings> => updaterSettings(await client.settings(UPDATER_SETTINGS, signal));
  const change = async (to: Pin, guard?: () => never): Promise<void> =>
    client.changeSettings(updaterLeaves(to), signal, guard);

  it('are classified by what they disrupt, without a change and without a transaction that stays', async () => {
    const changes = new Map([
      ['settings.motd', '"hi"'],
      ['settings.kernel.sysctl."vm.max_map_count"', '"262144"'],
      ['settings.kubernetes.max-pods', '120'],
      ['settings.kernel.lockdown', '"integrity"'],
      ['settings.metrics.send-metrics', 'false'],
      ['settings.kubernetes.node-labels.role', '"web"'],
    ]);
    const found = await client.classify(changes, signal);
    expect([...found].map(([key, { class: name }]) => [key, name])).toEqual([
      ['settings.motd', 'Live'],
      ['settings.kernel.sysctl."vm.max_map_count"', 'Live'],
      ['settings.kubernetes.max-pods', 'RestartsService'],
      ['settings.kernel.lockdown', 'NeedsReboot'],
      ['settings.metrics.send-metrics', 'NeedsReboot'],
      ['settings.kubernetes.node-labels.role', 'Refused'],
    ]);
    expect(host.settings.transactions).toEqual([]);
    expect(host.settings.live.get('settings.motd')).toBe('Welcome to Bottlerocket!');
    expect(host.restarts).toEqual([]);
  });

  it('need a reboot when the host is to take fewer pods than now', async () => {
    const key = 'settings.kubernetes.max-pods';
    const classes = async () => [...(await client.classify(new Map([[key, '120']]), signal)).values()];
    expect(await classes()).toMatchObject([{ class: 'RestartsService' }]);
    host.settings.live.set(key, 250);
    expect(await classes()).toMatchObject([{ class: 'NeedsReboot' }]);
  });

  it.each([
    ['settings.unheard', '1', /unknown field `unheard`/u],
    ['settings.motd', '1', /expected a string/u],
  ])('are refused with the words of the host: %s', async (key, value, reason) => {
    const found = await client.classify(new Map([[key, value]]), signal);
    expect(found.get(key)).toMatchObject({ class: 'Refused', reason: expect.stringMatching(reason) as string });
    expect(host.settings.transactions).toEqual([]);
  });

  it('are refused when the host stores them under another key', async () => {
    const mirrors = 'settings.container-registry.mirrors';
    const found = await client.classify(new Map([[`${mirrors}."docker.io"`, '["https://a"]']]), signal);
    const reason = `the host stores ${mirrors}."docker.io" as ${mirrors}: write it so`;
    expect([...found.values()]).toEqual([{ class: 'Refused', reason }]);
    const list = '[{"endpoint":["https://a"],"registry":"docker.io"}]';
    const written = new Map([
      [mirrors, list],
      ['settings.boot.kernel.quiet', '[]'],
      ['settings.updates.version-lock', '"v1.27.0"'],
    ]);
    const classes = [...(await client.classify(written, signal)).values()].map(({ class: name }) => name);
    expect(classes).toEqual(['RestartsService', 'NeedsReboot', 'Live']);
    expect(host.settings.transactions).toEqual([]);
  });

  describe('of an object that the host takes only whole', () => {
    const LIMIT = 'settings.oci-defaults.resource-limits.max-open-files';
    const PROVIDER = 'settings.kubernetes.credential-providers.ecr-credential-provider';
    const HUGEPAGES = 'settings.kernel.hugepages.static';
    const OWN = new Map<string, SettingValue>([
      [`${LIMIT}.hard-limit`, 1024],
      [`${LIMIT}.soft-limit`, 512],
      [`${PROVIDER}.enabled`, true],
      [`${PROVIDER}.cache-duration`, '12h'],
      [`${PROVIDER}.image-patterns`, ['*.amazonaws.com']],
      [`${HUGEPAGES}.essential`, true],
      [`${HUGEPAGES}.2Mi.count`, '4'],
    ]);

    it.each([
      [`${LIMIT}.hard-limit`, '4096'],
      [`${PROVIDER}.enabled`, 'false'],
      [`${PROVIDER}.cache-duration`, '"6h"'],
      [`${HUGEPAGES}.2Mi.count`, '"8"'],
    ])('are read, classified and changed by what differs: %s', async (key, value) => {
      for (const [own, has] of OWN) host.settings.live.set(own, has);
      const changes = new Map([[key, value]]);
      const [found] = (await client.classify(changes, signal)).values();
      expect(found?.class).not.toBe('Refused');
      const expected = await client.settings([key], signal);
      const action = { do: 'configure', changes, expected, reason: '' } as const;
      await rowOf(action).perform(action, executionOn(client));
      expect(await client.settings([key], signal)).toEqual(changes);
      expect(await client.settings([...OWN.keys()], signal)).toEqual(
        new Map([...OWN].map(([own, has]) => [own, own === key ? value : JSON.stringify(has)])),
      );
      const undo = { do: 'configure', changes: expected, reason: '' } as const;
      await rowOf(undo).perform(undo, executionOn(client));
      expect(await client.settings([...OWN.keys()], signal)).toEqual(
        new Map([...OWN].map(([own, has]) => [own, JSON.stringify(has)])),
      );
      expect(host.settings.transactions).toEqual([]);
    });

    it('are refused in part when the host has none of it', async () => {
      const [found] = (await client.classify(new Map([[`${LIMIT}.hard-limit`, '4096']]), signal)).values();
      expect(found).toMatchObject({ class: 'Refused', reason: expect.stringContaining('soft-limit') as string });
    });
  });

  it('are not refused by a host that cannot store them just now, such as on a full disk', async () => {
    const change = new Map([['settings.motd', '"hi"']]);
    await host.faults.set({ api: { answer: 'error', path: '/settings', times: 1 } });
    await expect(client.classify(change, signal)).rejects.toThrow('PATCH /settings: 500 Data store error');
    expect((await client.classify(change, signal)).get('settings.motd')).toMatchObject({ class: 'Live' });
    expect(host.settings.transactions).toEqual([]);
  });

  it('are read, and changed separately, in a transaction of their own', async () => {
    expect(await read()).toEqual({ versionLock: 'latest', ignoreWaves: false });
    host.settings.patch('default', '{"motd":"another client has not committed yet"}');
    await change({ versionLock: 'v1.27.0' });
    expect(await read()).toEqual({ versionLock: 'v1.27.0', ignoreWaves: false });
    await change({ ignoreWaves: true });
    expect(await read()).toEqual({ versionLock: 'v1.27.0', ignoreWaves: true });
    expect(host.settings.transactions).toEqual(['default']);
  });

  it('are in force about a second after they are changed', async () => {
    host.durations.applyMs = 100;
    await change({ versionLock: OLD });
    await client.start('refresh', signal);
    await systemClock.sleep(50);
    expect(await client.updateStatus(signal)).toMatchObject({ chosenVersion: NEW });
    await host.settled();
    expect(await run('refresh')).toMatchObject({ chosenVersion: undefined });
  });

  it('are changed although the host reports that it could not apply them', async () => {
    await host.faults.set({ settings: { exit: 1 } });
    const changed = change({ versionLock: OLD });
    await expect(changed).rejects.toThrow('POST /tx/commit_and_apply: 500 Config applier was unable to fork child');
    expect(await read()).toMatchObject({ versionLock: OLD });
    expect(await run('refresh')).toMatchObject({ chosenVersion: NEW });
  });

  it('leave no transaction behind when the host rejects them or does not commit them', async () => {
    await expect(change({ versionLock: '1.0' })).rejects.toThrow(/PATCH \/settings: 400 .*'1.0'/);
    await host.faults.set({ api: { answer: 'error', path: '/tx/commit_and_apply', times: 1 } });
    expect(await kindOf(change({ versionLock: OLD }))).toBe('answer');
    expect(host.settings.transactions).toEqual([]);
    expect(await read()).toMatchObject({ versionLock: 'latest' });
  });

  it('leave no transaction behind when the process is to end before they are committed', async () => {
    const end = new AbortController();
    await host.faults.set({ api: { answer: 'hang', path: '/tx/commit_and_apply' } });
    const changed = client.changeSettings(updaterLeaves({ versionLock: OLD }), end.signal);
    await eventually(() => expect(host.history.at(-1)?.path).toBe('/tx/commit_and_apply'));
    end.abort(new Error('SIGTERM'));
    await expect(changed).rejects.toThrow('/tx/commit_and_apply');
    expect(host.settings.transactions).toEqual([]);
    expect(await read()).toMatchObject({ versionLock: 'latest' });
  });

  it('are not changed when the observation behind the change is stale', async () => {
    const late = (): never => {
      throw new StaleDecisionError('seen 3 s ago');
    };
    await expect(change({ versionLock: OLD }, late)).rejects.toThrow(StaleDecisionError);
    expect(host.history.every(({ method }) => method !== 'PATCH')).toBe(true);
  });

  it('are the defaults when none of them is stored, and missing on an old host', async () => {
    for (const key of UPDATER_SETTINGS) host.settings.live.delete(key);
    expect(await read()).toEqual({ versionLock: 'latest', ignoreWaves: false });
    host.settings.live.delete('settings.updates.metadata-base-url');
    expect(await read()).toEqual({ versionLock: 'latest', ignoreWaves: false });
    host.settings.live.clear();
    expect(await read()).toEqual({ versionLock: 'latest', ignoreWaves: false });
    await host.faults.set({ noSettings: true });
    expect(await kindOf(read())).toBe('unsupported');
    expect(await kindOf(change({ versionLock: OLD }))).toBe('unsupported');
  });

  it('are neither read nor refused on a host in lockdown, which answers that it has none', async () => {
    await host.faults.set({ datastoreMissing: true });
    await expect(read()).rejects.toThrow(/GET \/settings: 500 .*Live datastore missing/);
    await expect(client.classify(new Map([['settings.motd', '"hi"']]), signal)).rejects.toThrow('PATCH /settings: 500');
    await expect(change({ versionLock: OLD })).rejects.toThrow('PATCH /settings: 500');
    expect(await client.version(signal)).toBe(OLD);
  });

  it('are not read from a malformed response, nor from one that never arrives', async () => {
    await host.faults.set({ api: { answer: 'garbage', path: '/settings' } });
    expect(await kindOf(read())).toBe('answer');
    await host.faults.set({ api: { answer: 'hang', path: '/settings' } });
    expect(await kindOf(clientOn(hasty).settings(UPDATER_SETTINGS, signal))).toBe('unanswered');
  });
});
