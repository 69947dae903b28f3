import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { BottlerocketHost, type HostOptions, type RebootEvent } from './host.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/**
 * One call with Node's own client, as an agent makes it; rejects with the code of a connection
 * error.
 */
function call(host: BottlerocketHost, method: string, path: string): Promise<{ status: number; body: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: string }>();
  const outgoing = request({ socketPath: host.socketPath, method, path, agent: false, timeout: 2000 }, (response) => {
    let body = '';
    response.setEncoding('utf8');
    response.on('data', (chunk: string) => (body += chunk));
    response.on('error', (error: NodeJS.ErrnoException) => reject(new Error(error.code)));
    response.on('end', () => resolve({ status: response.statusCode ?? 0, body }));
  });
  outgoing.on('timeout', () => outgoing.destroy(Object.assign(new Error(), { code: 'TIMEOUT' })));
  outgoing.on('error', (error: NodeJS.ErrnoException) => reject(new Error(error.code)));
  outgoing.end();
  return promise;
}

async function post(host: BottlerocketHost, ...actions: string[]): Promise<void> {
  for (const action of actions) {
    expect(await call(host, 'POST', `/actions/${action}`)).toEqual({ status: 204, body: '' });
    while (host.model.locked) await sleep(1);
  }
}

async function osVersion(host: BottlerocketHost): Promise<string> {
  const { body } = await call(host, 'GET', '/os');
  return (JSON.parse(body) as { version_id: string }).version_id;
}

describe('the stand-in host', () => {
  let folder = '';
  let hosts: BottlerocketHost[] = [];

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'host-'));
  });

  afterEach(async () => {
    for (const host of hosts) await host.stop();
    hosts = [];
    await rm(folder, { recursive: true });
  });

  async function start(options: Partial<HostOptions> = {}): Promise<BottlerocketHost> {
    const socketPath = join(folder, String(hosts.length), 'api.sock');
    const host = await BottlerocketHost.start({
      socketPath,
      version: '1.26.0',
      repository: ['1.26.0', '1.27.0'],
      ...options,
    });
    hosts.push(host);
    return host;
  }

  async function activated(options: Partial<HostOptions> = {}): Promise<BottlerocketHost> {
    const host = await start(options);
    await post(host, 'refresh-updates', 'prepare-update', 'activate-update');
    return host;
  }

  it('reboots into the update with a new boot ID, unreachable while it is down', async () => {
    const events: (RebootEvent & { reachable: string })[] = [];
    const onReboot = async (event: RebootEvent): Promise<void> => {
      const reachable = await osVersion(host).catch((error: Error) => error.message);
      events.push({ ...event, reachable });
    };
    const host = await activated({ onReboot, durations: { bootMs: 20 } });
    const before = host.bootID;
    await post(host, 'reboot');
    await host.settled();
    expect(events).toEqual([
      { phase: 'down', cause: 'reboot', bootID: before, version: '1.26.0', reachable: 'ENOENT' },
      { phase: 'up', cause: 'reboot', bootID: host.bootID, version: '1.27.0', reachable: '1.27.0' },
    ]);
    expect(host.bootID).toMatch(UUID);
    expect(host.bootID).not.toBe(before);
    expect(await readFile(host.bootIDPath, 'utf8')).toBe(`${host.bootID}\n`);
    expect({ reboots: host.reboots, booted: host.bootedVersions }).toEqual({
      reboots: 1,
      booted: ['1.26.0', '1.27.0'],
    });
  });

  it('boots an activated update after a power cut', async () => {
    const host = await activated();
    await host.powerCut();
    expect(await osVersion(host)).toBe('1.27.0');
  });

  it('keeps the old version after a power cut in the middle of a prepare', async () => {
    const host = await start({ durations: { prepareMs: 60_000 } });
    await post(host, 'refresh-updates');
    await call(host, 'POST', '/actions/prepare-update');
    await host.powerCut();
    expect(await osVersion(host)).toBe('1.26.0');
    expect((await call(host, 'GET', '/updates/status')).status).toBe(404);
  });

  it('boots the old version when the boot of the new one fails', async () => {
    const host = await activated();
    await host.faults.set({ boot: { rollsBack: true } });
    await post(host, 'reboot');
    await host.settled();
    expect(await osVersion(host)).toBe('1.26.0');
    expect(host.bootedVersions).toEqual(['1.26.0', '1.26.0']);
  });

  it('stays down after a reboot that never returns, until it is switched on', async () => {
    const host = await activated();
    await host.faults.set({ reboot: { neverReturns: true } });
    await post(host, 'reboot');
    await sleep(50);
    await expect(osVersion(host)).rejects.toThrow('ENOENT');
    await host.powerOn();
    expect(await osVersion(host)).toBe('1.27.0');
  });

  it('can be stopped while it is down', async () => {
    const host = await activated();
    await host.faults.set({ reboot: { neverReturns: true } });
    await post(host, 'reboot');
    await sleep(20);
    await host.stop();
    expect(host.up).toBe(false);
  });

  it('reboots although the response to the call is lost or reports a failure', async () => {
    const host = await start();
    await host.faults.set({ reboot: { answerLost: true } });
    await expect(call(host, 'POST', '/actions/reboot')).rejects.toThrow('ECONNRESET');
    await host.settled();
    await host.faults.set({ reboot: { lingerMs: 1 } });
    expect((await call(host, 'POST', '/actions/reboot')).status).toBe(500);
    await host.settled();
    expect(host.reboots).toBe(2);
  });

  it('does not reboot when the call is refused or ignored', async () => {
    const host = await start();
    await host.faults.set({ reboot: { exit: 1, stderr: 'inhibited\n' } });
    const refused = { status: 500, body: 'Failed to reboot, exit code: 1, stderr: inhibited\n' };
    expect(await call(host, 'POST', '/actions/reboot')).toEqual(refused);
    await host.faults.set({ reboot: { ignored: true } });
    await post(host, 'reboot');
    await host.settled();
    expect(host.reboots).toBe(0);
  });

  it('fails a command the configured number of times', async () => {
    const host = await start();
    await host.faults.set({ refresh: { exit: 1, stderr: 'unreachable\n', times: 1 } });
    await post(host, 'refresh-updates');
    const failed = JSON.parse((await call(host, 'GET', '/updates/status')).body) as object;
    expect(failed).toMatchObject({ update_state: 'Idle', most_recent_command: { cmd_status: 'Failed' } });
    await post(host, 'refresh-updates');
    const repaired = JSON.parse((await call(host, 'GET', '/updates/status')).body) as object;
    expect(repaired).toMatchObject({ update_state: 'Available', most_recent_command: { cmd_status: 'Success' } });
  });

  it('answers 423 while another process holds the update lock', async () => {
    const host = await start();
    host.holdUpdateLock(1_000);
    expect((await call(host, 'POST', '/actions/refresh-updates')).status).toBe(423);
    expect((await call(host, 'GET', '/updates/status')).status).toBe(423);
    await host.settled();
    expect((await call(host, 'POST', '/actions/refresh-updates')).status).toBe(204);
  });

  it('has no socket, a stale one, or one with a new inode', async () => {
    const host = await start();
    await host.faults.set({ socketGone: true });
    await expect(osVersion(host)).rejects.toThrow('ENOENT');
    await host.faults.set({ socketGone: undefined });
    await host.faults.set({ socketStale: true });
    await expect(osVersion(host)).rejects.toThrow('ECONNREFUSED');
    await host.faults.clear();
    expect(await osVersion(host)).toBe('1.26.0');
    const { ctimeMs, ino } = await stat(host.socketPath);
    await sleep(10);
    await host.replaceSocket();
    expect(await osVersion(host)).toBe('1.26.0');
    const replaced = await stat(host.socketPath);
    expect([replaced.ctimeMs, replaced.ino]).not.toEqual([ctimeMs, ino]);
  });

  it('loses the command that ran when the API server crashed, and refuses connections until it is back', async () => {
    const host = await start({ durations: { prepareMs: 60_000 } });
    await post(host, 'refresh-updates');
    await call(host, 'POST', '/actions/prepare-update');
    const back = host.crashApiServer(50);
    await sleep(10);
    await expect(osVersion(host)).rejects.toThrow('ECONNREFUSED');
    await back;
    const status = JSON.parse((await call(host, 'GET', '/updates/status')).body) as object;
    expect(status).toMatchObject({ update_state: 'Available', most_recent_command: { cmd_type: 'refresh' } });
  });

  it.each([
    ['garbage', 'resolves'],
    ['error', 'resolves'],
    ['truncated', 'ECONNRESET'],
    ['empty', 'ECONNRESET'],
    ['hang', 'TIMEOUT'],
  ] as const)('sends one malformed answer: %s', async (answer, outcome) => {
    const host = await start();
    await host.faults.set({ api: { answer, path: '/os', times: 1 } });
    const wrong = await call(host, 'GET', '/os').then(
      ({ body }) => (body.startsWith('{') ? body : 'resolves'),
      (error: Error) => error.message,
    );
    expect(wrong).toBe(outcome);
    expect(await osVersion(host)).toBe('1.26.0');
  });

  /** Stores a version lock and has it applied. */
  async function lock(host: BottlerocketHost, version: string): Promise<void> {
    expect(host.settings.patch('mine', JSON.stringify({ updates: { 'version-lock': version } }))).toBeUndefined();
    expect((await call(host, 'POST', '/tx/commit_and_apply?tx=mine')).status).toBe(200);
  }

  async function chosen(host: BottlerocketHost): Promise<unknown> {
    await post(host, 'refresh-updates');
    const status = JSON.parse((await call(host, 'GET', '/updates/status')).body) as { chosen_update: unknown };
    return status.chosen_update;
  }

  it('applies settings after its answer that they are committed', async () => {
    const host = await start({ durations: { applyMs: 100 } });
    await lock(host, 'v1.26.0');
    expect(await chosen(host)).toMatchObject({ version: '1.27.0' });
    const { body } = await call(host, 'GET', '/settings?keys=settings.updates.version-lock');
    expect(body).toBe('{"updates":{"version-lock":"v1.26.0"}}');
    await host.settled();
    expect(await chosen(host)).toBeNull();
  });

  it('applies settings at a boot that were committed right before', async () => {
    const host = await start({ durations: { applyMs: 60_000 } });
    await lock(host, '1.26.0');
    await host.powerCut();
    expect(await chosen(host)).toBeNull();
  });

  /** Stores settings and has them applied; returns the status of the answer. */
  async function store(host: BottlerocketHost, settings: object): Promise<number> {
    expect(host.settings.patch('mine', JSON.stringify(settings))).toBeUndefined();
    return (await call(host, 'POST', '/tx/commit_and_apply?tx=mine')).status;
  }

  it('restarts the services of the settings, each once, after its answer that they are committed', async () => {
    const host = await start({ durations: { applyMs: 100 } });
    const kubernetes = { 'max-pods': 50, 'static-pods': { web: { enabled: false } } };
    expect(await store(host, { motd: 'hi', kubernetes, aws: { profile: 'default' } })).toBe(200);
    expect(host.restarts).toEqual([]);
    await host.settled();
    const restarts = [
      { service: 'kubernetes', command: '/usr/bin/systemctl try-restart kubelet.service' },
      { service: 'static-pods', command: '/usr/bin/static-pods' },
    ];
    expect(host.restarts).toEqual(restarts);
    expect(await store(host, { motd: 'bye' })).toBe(200);
    await host.settled();
    expect(host.restarts).toEqual(restarts);
  });

  it('commits settings that are not applied before the next boot, and does not show it', async () => {
    const host = await start();
    await host.faults.set({ settings: { fails: true, times: 1 } });
    expect(await store(host, { updates: { 'version-lock': '1.26.0' }, kernel: { sysctl: { 'a.b': '1' } } })).toBe(200);
    await host.settled();
    expect(host.restarts).toEqual([]);
    expect(await chosen(host)).toMatchObject({ version: '1.27.0' });
    await host.powerCut();
    expect(await chosen(host)).toBeNull();
    expect(await store(host, { kernel: { sysctl: { 'a.b': '2' } } })).toBe(200);
    expect(host.restarts).toEqual([{ service: 'sysctl', command: '/usr/bin/corndog sysctl' }]);
  });

  it('commits settings although its answer is that they could not be applied', async () => {
    const host = await start();
    await host.faults.set({ settings: { exit: 1, times: 1 } });
    expect(await store(host, { motd: 'hi' })).toBe(500);
    expect((await call(host, 'GET', '/settings?keys=settings.motd')).body).toBe('{"motd":"hi"}');
    expect(host.restarts).toEqual([]);
    expect(await store(host, { kernel: { sysctl: { 'a.b': '1' } } })).toBe(200);
    expect(host.restarts).toHaveLength(1);
  });

  it.each([
    [
      'the nearest key with metadata counts, and keys without any are absent',
      '/metadata/affected-services?keys=settings.kubernetes.node-labels.%22a.b/c%22,' +
        'settings.kubernetes.static-pods.web,settings.kernel.sysctl.%22vm.swappiness%22,settings.metrics.x,settings.kernel',
      200,
      '{"settings.kubernetes.node-labels.\\"a.b/c\\"":["kubernetes"],"settings.kubernetes.static-pods.web":["static-pods"],' +
        '"settings.kernel.sysctl.\\"vm.swappiness\\"":["sysctl"]}',
    ],
    ['no key', '/metadata/affected-services?keys=', 400, "Input 'keys' cannot be empty"],
    [
      'services by name',
      '/services?names=motd,static-pods',
      200,
      '{"motd":{"configuration-files":["motd"],"restart-commands":[]},' +
        '"static-pods":{"configuration-files":["static-pods-toml"],"restart-commands":["/usr/bin/static-pods"]}}',
    ],
    [
      'services by prefix',
      '/services?prefix=static',
      200,
      '{"static-pods":{"configuration-files":["static-pods-toml"],"restart-commands":["/usr/bin/static-pods"]}}',
    ],
    [
      'a key below a setting, as its file shows',
      '/settings?keys=settings.motd.text',
      500,
      "Data store error during get_key: Reading key 'settings.motd.text' failed: Not a directory (os error 20)",
    ],
    [
      'a key above settings, as its folder shows',
      '/settings?keys=settings.motd,settings.updates',
      500,
      "Data store error during get_key: Reading key 'settings.updates' failed: Is a directory (os error 21)",
    ],
    ['one of the names unknown', '/services?names=motd,nope', 404, "Found no 'services.nope' in datastore"],
    ['no name', '/services?names=', 400, "Input 'names' cannot be empty"],
    [
      'a service of another variant',
      '/services?names=nvidia-k8s-device-plugin',
      404,
      "Found no 'services.nvidia-k8s-device-plugin' in datastore",
    ],
  ])('tells what a setting affects: %s', async (_name, path, status, body) => {
    const host = await start();
    expect(await call(host, 'GET', path)).toEqual({ status, body });
  });

  it('answers as a host without settings routes', async () => {
    const host = await start();
    await host.faults.set({ noSettings: true });
    for (const [method, path] of [
      ['GET', '/settings'],
      ['POST', '/tx/commit_and_apply'],
    ] as const)
      expect(await call(host, method, path)).toEqual({ status: 404, body: '' });
  });

  it('keeps a record of the requests', async () => {
    const host = await start({ clock: { now: () => 42 } });
    await osVersion(host);
    await post(host, 'refresh-updates');
    expect(host.history).toEqual([
      { time: 42, method: 'GET', path: '/os', status: 200 },
      { time: 42, method: 'POST', path: '/actions/refresh-updates', status: 204 },
    ]);
  });

  it('runs in many instances at once and leaves no files', async () => {
    await Promise.all(
      Array.from({ length: 30 }, (_, index) => start({ socketPath: join(folder, `n${index}`, 'api.sock') })),
    );
    const versions = await Promise.all(hosts.map(osVersion));
    expect(new Set(versions)).toEqual(new Set(['1.26.0']));
    expect(new Set(hosts.map(({ bootID }) => bootID)).size).toBe(30);
    for (const host of hosts) await host.stop();
    for (const name of await readdir(folder)) expect(await readdir(join(folder, name))).toEqual([]);
  });

  it('reports at the end the error that its reboot listener threw', async () => {
    const host = await start({ onReboot: () => Promise.reject(new Error('the kubelet is broken')) });
    await host.powerCut();
    hosts = [];
    await expect(host.stop()).rejects.toThrow('the kubelet is broken');
  });
});
