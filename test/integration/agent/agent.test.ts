/** An agent with a stand-in host and a real apiserver on a real Kubernetes API; the tests write specs as the controller does. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { Agent } from '../../../packages/agent/src/agent.ts';
import { HttpApiserverClient } from '../../../packages/agent/src/apiserver/client.ts';
import { HostSocket } from '../../../packages/agent/src/host/host-socket.ts';
import { HostCalls } from '../../../packages/shared/src/api/host-calls.ts';
import { hashOf } from '../../../packages/shared/src/api/settings.ts';
import type {
  BottlerocketShadow,
  SettingsSpec,
  ShadowState,
  ShadowStatus,
} from '../../../packages/shared/src/api/shadow.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { GROUP, grouped, type Pin, pinned, pinRecords } from '../../../packages/shared/src/testing/settings.ts';
import {
  type Agent as AgentPod,
  createAgent,
  type Installation,
  installNamespace,
} from '../../framework/apiserver/cluster.ts';
import { sumOf } from '../../framework/apiserver/process.ts';
import { type RunningApiserver, startApiserver } from '../../framework/apiserver/server.ts';
import { ensureShadow } from '../../framework/apiserver/shadow.ts';
import { makeServingCertificate } from '../../framework/certificates.ts';
import type { Connection } from '../../framework/control-plane/connection.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { eventually } from '../../framework/eventually.ts';
import { BottlerocketHost } from '../../framework/host/host.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

jest.setTimeout(60_000);

const OLD = '1.26.0';
const NEW = '1.27.0';
const NAME = 'brupop-apiserver';

describe('an agent', () => {
  let cluster: Connection;
  let installation: Installation;
  let folder: string;
  let apiserver: RunningApiserver;
  let pod: AgentPod;
  let host: BottlerocketHost;
  let stop: AbortController;
  let running: Promise<void>;
  let lines: readonly string[];

  beforeAll(async () => {
    cluster = connectSharedControlPlane();
    installation = await installNamespace(cluster);
  });

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'brupop-agent-'));
    const tls = makeServingCertificate({ commonName: NAME, dnsNames: [NAME], ipAddresses: ['127.0.0.1'] });
    writeFileSync(join(folder, 'ca.crt'), tls.caCert);
    writeFileSync(join(folder, 'tls.crt'), tls.cert);
    writeFileSync(join(folder, 'tls.key'), tls.key);
    const files = { tlsCertFile: join(folder, 'tls.crt'), tlsKeyFile: join(folder, 'tls.key') };
    apiserver = await startApiserver(cluster, installation, files);
    pod = await createAgent(cluster, installation.namespace);
    await ensureShadow(cluster, installation.namespace, pod.node);
    writeFileSync(join(folder, 'token'), pod.token);
    host = await BottlerocketHost.start({
      socketPath: join(folder, 'api.sock'),
      version: OLD,
      repository: [OLD, NEW],
      durations: { prepareMs: 50, bootMs: 50, applyMs: 800 },
      onReboot: async ({ phase }) => (phase === 'down' ? stopAgent() : startAgent()),
    });
    startAgent();
  });

  afterEach(async () => {
    await stopAgent();
    await host.stop();
    await apiserver.stop();
    await rm(folder, { recursive: true, force: true });
  });

  afterAll(async () => {
    await cluster.close();
  });

  function startAgent(): void {
    const clock = systemClock;
    const files = { tokenFile: join(folder, 'token'), caFile: join(folder, 'ca.crt') };
    const at = { host: '127.0.0.1', port: apiserver.port, serverName: NAME, ...files };
    const hostCalls = new HostCalls();
    const socket = new HostSocket({
      socketPath: host.socketPath,
      bootIDFile: host.bootIDPath,
      clock,
      calls: hostCalls,
    });
    const recorded = recordingLogger();
    const api = new HttpApiserverClient({ node: pod.node, apiserver: at, clock, log: recorded.log, hostCalls });
    lines = recorded.lines;
    stop = new AbortController();
    running = new Agent({ host: socket, api, clock, log: recorded.log, checkIntervalMs: 10_000 }).run(stop.signal);
  }

  async function stopAgent(): Promise<void> {
    stop.abort(new Error('the process ends'));
    await running;
  }

  const shadowPath = (): string =>
    `/apis/brupop.bottlerocket.aws/v2/namespaces/${installation.namespace}/bottlerocketshadows/brs-${pod.node}`;

  const setSpec = async (state: ShadowState, version: string | null = NEW): Promise<void> => {
    await cluster.api.patch(shadowPath(), { spec: { state, version } });
  };

  /** Waits until the shadow's status is like this. */
  const reached = async (expected: object): Promise<ShadowStatus | undefined> =>
    eventually(async () => {
      const { status, metadata } = await cluster.api.get<BottlerocketShadow>(shadowPath());
      if (status?.observedGeneration !== metadata.generation) throw new Error(`not yet answered:\n${lines.join('')}`);
      expect(status).toMatchObject(expected);
      return status;
    });

  const node = async (): Promise<{ spec: { unschedulable?: boolean }; metadata: { annotations?: object } }> =>
    cluster.api.get(`/api/v1/nodes/${pod.node}`);

  it('updates its node', async () => {
    await reached({ current_state: 'Idle', current_version: OLD, target_version: NEW, crash_count: 0 });
    await setSpec('StagedAndPerformedUpdate');
    await reached({
      current_state: 'StagedAndPerformedUpdate',
      lastOperation: { operation: 'Stage', state: 'Succeeded' },
    });
    await setSpec('RebootedIntoUpdate');
    const status = await reached({ current_state: 'RebootedIntoUpdate', current_version: NEW });
    expect(status?.bootID).toBe(host.bootID);
    expect(host.bootedVersions).toEqual([OLD, NEW]);
    expect((await node()).spec.unschedulable ?? false).toBe(false);
    await setSpec('MonitoringUpdate');
    await reached({ current_state: 'MonitoringUpdate' });
    await setSpec('Idle', null);
    await reached({ current_state: 'Idle', current_version: NEW, target_version: NEW });
  });

  it('reports its calls of the host, which the apiserver counts', async () => {
    const calls = async (...labels: string[]): Promise<number> =>
      sumOf(await apiserver.metrics(), 'brupop_apiserver_host_api_calls_total', labels.join(','));
    await reached({ current_state: 'Idle', target_version: NEW });
    await setSpec('StagedAndPerformedUpdate');
    await reached({ current_state: 'StagedAndPerformedUpdate' });
    await eventually(async () => {
      await setSpec('Idle', null);
      expect(await calls('route="POST /actions/refresh-updates"', 'outcome="ok"')).toBeGreaterThanOrEqual(1);
      expect(await calls('route="POST /actions/prepare-update"', 'outcome="ok"')).toBe(1);
    });
    expect(await calls('route="GET /os"', 'outcome="ok"')).toBeGreaterThan(2);
    expect(await calls('route="POST /actions/reboot"')).toBe(0);
  });

  it('reports a rollback and restores the Node', async () => {
    await host.faults.set({ boot: { rollsBack: true } });
    await reached({ current_state: 'Idle', target_version: NEW });
    await setSpec('StagedAndPerformedUpdate');
    await reached({ current_state: 'StagedAndPerformedUpdate' });
    await setSpec('RebootedIntoUpdate');
    await reached({ current_state: 'ErrorReset', crash_count: 1, lastOperation: { errorCode: 'RolledBack' } });
    await eventually(async () => expect((await node()).spec.unschedulable ?? false).toBe(false));
    await setSpec('Idle', null);
    await reached({ current_state: 'Idle', crash_count: 1, current_version: OLD, lastOperation: { state: 'Failed' } });
    expect(host.reboots).toBe(1);
  });

  it('continues the update of its drained node when the update repository comes back', async () => {
    await reached({ current_state: 'Idle', target_version: NEW });
    await setSpec('StagedAndPerformedUpdate');
    await reached({ current_state: 'StagedAndPerformedUpdate' });
    await host.faults.set({ repositoryGone: true });
    await setSpec('RebootedIntoUpdate');
    const activations = (): number => host.history.filter(({ path }) => path === '/actions/activate-update').length;
    await eventually(() => expect(activations()).toBeGreaterThan(1));
    expect((await node()).spec.unschedulable).toBe(true);
    await host.faults.set({ repositoryGone: undefined });
    await reached({ current_state: 'RebootedIntoUpdate', current_version: NEW, crash_count: 0 });
    expect(host.reboots).toBe(1);
  });

  /** The controller requests host settings and nothing else. */
  const request = async (settings: SettingsSpec | null): Promise<void> => {
    await cluster.api.patch(shadowPath(), { spec: { state: 'Idle', version: null, settings } });
  };
  const pin = async (wanted: Pin | null): Promise<void> => request(pinned(wanted));
  const recorded = (...of: Parameters<typeof pinRecords>) => ({ settings: { records: pinRecords(...of) } });

  const lock = (): string => host.settings.updates().versionLock;

  /** Updates the node to an available version, as the controller does, and back to Idle. */
  const update = async (version: string): Promise<void> => {
    for (const state of ['StagedAndPerformedUpdate', 'RebootedIntoUpdate'] as const) {
      await setSpec(state, version);
      await reached({ current_state: state });
    }
    await setSpec('Idle', null);
  };

  it('updates to a pinned version that is newer than its own but not the newest', async () => {
    host.setRepository([OLD, NEW, '1.28.0']);
    await reached({ current_state: 'Idle', target_version: '1.28.0' });
    await pin({ versionLock: NEW });
    await reached({ target_version: NEW, ...recorded({ versionLock: NEW }) });
    await update(NEW);
    await reached({ current_state: 'Idle', current_version: NEW, target_version: NEW });
    expect(host.bootedVersions).toEqual([OLD, NEW]);
    expect(lock()).toBe(NEW);
  });

  it('updates to a pinned release that the repository lists with build metadata', async () => {
    const built = `${NEW}+build.7`;
    host.setRepository([OLD, built, '1.28.0']);
    await reached({ current_state: 'Idle', target_version: '1.28.0' });
    await pin({ versionLock: NEW });
    await reached({ target_version: built });
    await update(NEW);
    await reached({ current_state: 'Idle', current_version: built, target_version: built, crash_count: 0 });
    expect(host.bootedVersions).toEqual([OLD, built]);
  });

  it('downgrades to the pinned version, and reports the newest again without the pin', async () => {
    host.setRepository([{ version: '1.25.0', waves: { 0: '2999-01-01T00:00:00Z' } }, OLD, NEW]);
    await reached({ target_version: NEW });
    await pin({ versionLock: '1.25.0' });
    await reached({ target_version: OLD });
    await pin({ versionLock: '1.25.0', ignoreWaves: true });
    const records = [...pinRecords({ ignoreWaves: true }), ...pinRecords({ versionLock: '1.25.0' })];
    await reached({ target_version: '1.25.0', settings: { records } });
    await update('1.25.0');
    await reached({ current_state: 'Idle', current_version: '1.25.0', target_version: '1.25.0' });
    expect(host.reboots).toBe(1);
    await pin(null);
    const status = await reached({ current_state: 'Idle', target_version: NEW });
    expect(status).not.toHaveProperty('settings');
    expect(host.settings.updates()).toMatchObject({ versionLock: 'latest', ignoreWaves: false });
  });

  it('reports a version lock that a user has set, and follows the newest version after a pin, whatever the lock was before it or during it', async () => {
    host.setVersionLock('v1.26.0');
    await reached({ target_version: OLD, settings: { hostLock: 'v1.26.0' } });
    await pin({ versionLock: '1.25.0' });
    await reached({ target_version: OLD, ...recorded({ versionLock: '1.25.0' }) });
    host.setVersionLock(OLD);
    await pin({ versionLock: '1.25.0', ignoreWaves: true });
    const records = [...pinRecords({ ignoreWaves: true }), ...pinRecords({ versionLock: '1.25.0' })];
    await reached({ target_version: OLD, settings: { records } });
    await pin(null);
    const status = await reached({ target_version: NEW });
    expect(status).not.toHaveProperty('settings');
    expect(lock()).toBe('latest');
  });

  it('is pinned although it is killed between record and change, and again after the change', async () => {
    await reached({ target_version: NEW });
    const killedAt = async (path: string, moment: 'sent' | 'answered'): Promise<void> => {
      const killed = Promise.withResolvers<void>();
      host.watchCalls(async (call) => {
        if (call.path !== path || call.moment !== moment || call.method === 'GET') return 'pass';
        host.watchCalls(undefined);
        stop.abort(new Error('killed'));
        killed.resolve();
        return 'drop';
      });
      await killed.promise;
      await running;
    };
    const change = pin({ versionLock: OLD });
    await killedAt('/settings', 'sent');
    await change;
    const { status, metadata } = await cluster.api.get<BottlerocketShadow>(shadowPath());
    expect(status?.settings).toEqual({
      inFlight: expect.anything() as unknown,
      ...recorded({ versionLock: OLD }).settings,
    });
    expect(status?.observedGeneration).toBeLessThan(metadata.generation ?? 0);
    expect(lock()).toBe('latest');
    startAgent();
    await killedAt('/tx/commit_and_apply', 'answered');
    expect(lock()).toBe(OLD);
    startAgent();
    await reached({ target_version: OLD, ...recorded({ versionLock: OLD }) });
    const back = pin(null);
    await killedAt('/tx/commit_and_apply', 'answered');
    await back;
    startAgent();
    await reached({ target_version: NEW });
    expect(lock()).toBe('latest');
  });

  it('reports why a host without settings is not pinned, and when it booted', async () => {
    await host.faults.set({ noSettings: true });
    await reached({ target_version: NEW });
    await pin({ versionLock: OLD });
    const status = await reached({ current_state: 'Idle', target_version: OLD });
    expect(status?.settings?.message).toMatch(/version-lock 1.26.0: not in force: .*404/);
    const { bootTime = '' } = status ?? {};
    expect(Date.parse(bootTime)).toBeLessThan(Date.now());
    await pin(null);
    expect(await reached({ target_version: NEW, bootTime })).not.toHaveProperty('settings');
  });

  describe('whose group requests settings', () => {
    const MOTD = 'settings.motd';
    const MAX_PODS = 'settings.kubernetes.max-pods';
    const kubelet = { service: 'kubernetes', command: '/usr/bin/systemctl try-restart kubelet.service' };
    const settings = { motd: 'hi', kubernetes: { 'max-pods': 120 } };
    const motd = { key: MOTD, value: '"hi"', before: '"Welcome to Bottlerocket!"', owner: GROUP };
    const maxPods = { key: MAX_PODS, value: '120', owner: GROUP };
    const sent = (path: string): number => host.history.filter((call) => call.path === path).length;

    it('reports what each disrupts, and sets those that may be set, without other transactions', async () => {
      host.settings.patch('default', '{"motd":"another client has not committed yet"}');
      await reached({ current_state: 'Idle', target_version: NEW });
      await request(grouped(settings, 'None'));
      const status = await reached({ settings: { pending: [{ key: MAX_PODS }, { key: MOTD }] } });
      expect(status?.settings?.pending).toEqual([
        { key: MAX_PODS, class: 'RestartsService', reason: 'it restarts kubelet' },
        { key: MOTD, class: 'Live', reason: 'it restarts no service that pods need' },
      ]);
      expect(sent('/tx/commit_and_apply')).toBe(0);
      await request(grouped(settings, 'Live'));
      await reached({ settings: { records: [motd], pending: [{ key: MAX_PODS }] } });
      expect(host.settings.live.get(MOTD)).toBe('hi');
      expect(host.settings.live.has(MAX_PODS)).toBe(false);
      expect(host.restarts).toEqual([]);
      await request(grouped(settings, 'RestartsService'));
      const done = await reached({
        settings: { records: [maxPods, motd], lastApplied: { hash: expect.any(String) as string } },
      });
      expect(done?.settings?.lastApplied?.hash).toBe(
        hashOf([
          [MOTD, '"hi"'],
          [MAX_PODS, '120'],
        ]),
      );
      expect(done?.settings).not.toHaveProperty('pending');
      expect(done?.settings).not.toHaveProperty('inFlight');
      expect(host.settings.live.get(MAX_PODS)).toBe(120);
      expect(host.restarts).toEqual([kubelet]);
      expect(host.settings.transactions).toEqual(['default']);
      expect(sent('/tx/commit_and_apply')).toBe(2);
    });

    it('confirms them only when the host has applied them', async () => {
      await reached({ current_state: 'Idle', target_version: NEW });
      const status = request(grouped(settings, 'RestartsService')).then(async () =>
        reached({ settings: { records: [maxPods, motd] } }),
      );
      await eventually(async () => expect(host.settings.live.get(MAX_PODS)).toBe(120));
      expect(host.restarts).toEqual([]);
      const { status: before } = await cluster.api.get<BottlerocketShadow>(shadowPath());
      expect(before?.settings?.inFlight?.hash).toMatch(/^[0-9a-f]{16}$/u);
      expect((await status)?.settings).not.toHaveProperty('inFlight');
      expect(host.restarts).toEqual([kubelet]);
    });

    it('applies them once more when the host has committed them, but could not apply them', async () => {
      await host.faults.set({ settings: { exit: 1, times: 1 } });
      await reached({ current_state: 'Idle', target_version: NEW });
      await request(grouped(settings, 'RestartsService'));
      const status = await reached({ settings: { records: [maxPods, motd] } });
      expect(status?.settings).not.toHaveProperty('message');
      expect(sent('/tx/commit_and_apply')).toBe(2);
      expect(host.restarts).toEqual([kubelet]);
    });

    it('sets none of them when the host refuses one', async () => {
      await reached({ current_state: 'Idle', target_version: NEW });
      await request(grouped({ ...settings, unheard: { of: 1 } }, 'NeedsReboot'));
      const status = await reached({
        settings: { pending: [{ class: 'Refused' }, { class: 'Refused' }, { class: 'Refused' }] },
      });
      expect(status?.settings?.pending?.[0]?.reason).toMatch(/unknown field `unheard`/u);
      expect(sent('/tx/commit_and_apply')).toBe(0);
      expect(host.settings.transactions).toEqual([]);
    });

    it('restores what they were, and says what cannot be unset', async () => {
      await reached({ current_state: 'Idle', target_version: NEW });
      await request(grouped(settings, 'RestartsService'));
      await reached({ settings: { records: [maxPods, motd] } });
      await request({ leaves: [], allow: 'Live' });
      await reached({ settings: { records: [maxPods], cannotUnset: [MAX_PODS] } });
      expect(host.settings.live.get(MOTD)).toBe('Welcome to Bottlerocket!');
      expect(host.settings.live.get(MAX_PODS)).toBe(120);
    });

    it('reports a host without settings, and looks for updates nevertheless', async () => {
      await host.faults.set({ noSettings: true });
      await reached({ target_version: NEW });
      await request(grouped(settings, 'Live'));
      const status = await reached({ current_state: 'Idle', target_version: NEW });
      expect(status?.settings?.message).toMatch(/^settings.motd, settings.kubernetes.max-pods: not in force: .*404/u);
    });
  });

  it('continues where it was when it is killed repeatedly', async () => {
    host.durations.prepareMs = 300;
    await reached({ current_state: 'Idle', target_version: NEW });
    await setSpec('StagedAndPerformedUpdate');
    for (let kills = 0; kills < 5; kills += 1) {
      await systemClock.sleep(40);
      await stopAgent();
      startAgent();
    }
    await reached({ current_state: 'StagedAndPerformedUpdate' });
    await setSpec('RebootedIntoUpdate');
    const status = await reached({ current_state: 'RebootedIntoUpdate', current_version: NEW });
    expect(status?.crash_count).toBe(0);
    expect(host.history.filter(({ path }) => path === '/actions/prepare-update')).toHaveLength(1);
  });
});
