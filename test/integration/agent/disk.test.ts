/** An agent writes nothing to disk; what it logs may end up on one that is full. */
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import type { BottlerocketShadow, ShadowState, ShadowStatus } from '../../../packages/shared/src/api/shadow.ts';
import {
  type Agent as AgentPod,
  createAgent,
  type Installation,
  installNamespace,
} from '../../framework/apiserver/cluster.ts';
import { type RunningApiserver, startApiserver } from '../../framework/apiserver/server.ts';
import { ensureShadow } from '../../framework/apiserver/shadow.ts';
import { makeServingCertificate } from '../../framework/certificates.ts';
import type { Connection } from '../../framework/control-plane/connection.ts';
import { freePorts } from '../../framework/control-plane/ports.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { eventually } from '../../framework/eventually.ts';
import { BottlerocketHost } from '../../framework/host/host.ts';
import { startWatchdog, type Watchdog } from '../../framework/watchdog.ts';

jest.setTimeout(90_000);

const OLD = '1.26.0';
const NEW = '1.27.0';
const NAME = 'brupop-apiserver';
const main = join(import.meta.dirname, '../../../packages/agent/src/main.ts');

let cluster: Connection;
let installation: Installation;
let folder: string;
let watchdog: Watchdog;
let apiserver: RunningApiserver;
let pod: AgentPod;
let host: BottlerocketHost;
let healthPort: number;
let full: number;
let errors: number;
let child: ReturnType<Watchdog['spawn']> | undefined;

beforeAll(async () => {
  cluster = connectSharedControlPlane();
  installation = await installNamespace(cluster);
  folder = mkdtempSync(join(tmpdir(), 'brupop-agent-disk-'));
  watchdog = startWatchdog(folder);
  full = openSync('/dev/full', 'w');
  errors = openSync(join(folder, 'stderr'), 'a');
  const tls = makeServingCertificate({ commonName: NAME, dnsNames: [NAME], ipAddresses: ['127.0.0.1'] });
  writeFileSync(join(folder, 'ca.crt'), tls.caCert);
  writeFileSync(join(folder, 'tls.crt'), tls.cert);
  writeFileSync(join(folder, 'tls.key'), tls.key);
  const files = { tlsCertFile: join(folder, 'tls.crt'), tlsKeyFile: join(folder, 'tls.key') };
  apiserver = await startApiserver(cluster, installation, files);
  pod = await createAgent(cluster, installation.namespace);
  await ensureShadow(cluster, installation.namespace, pod.node);
  writeFileSync(join(folder, 'token'), pod.token);
  [healthPort = 0] = await freePorts(1);
  host = await BottlerocketHost.start({
    socketPath: join(folder, 'api.sock'),
    version: OLD,
    repository: [OLD, NEW],
    durations: { prepareMs: 50, bootMs: 50 },
    onReboot: async ({ phase }) => {
      if (phase === 'down') await endAgent('SIGKILL');
      else startAgent();
    },
  });
});

afterAll(async () => {
  await endAgent('SIGKILL');
  await host.stop();
  await apiserver.stop();
  await watchdog.release();
  await cluster.close();
  closeSync(full);
  closeSync(errors);
  await rm(folder, { recursive: true, force: true });
});

/** The agent's program with its standard output on a full disk. */
function startAgent(): void {
  const env = {
    NODE_NAME: pod.node,
    POD_IP: '127.0.0.1',
    HEALTH_PORT: String(healthPort),
    LOG_LEVEL: 'debug',
    HOST_SOCKET: host.socketPath,
    BOOT_ID_FILE: host.bootIDPath,
    APISERVER_HOST: '127.0.0.1',
    APISERVER_PORT: String(apiserver.port),
    APISERVER_SERVER_NAME: NAME,
    TOKEN_FILE: join(folder, 'token'),
    CA_FILE: join(folder, 'ca.crt'),
    UPDATE_CHECK_INTERVAL_SECONDS: '10',
  };
  child = watchdog.spawn(process.execPath, [main], { cwd: folder, env, stdio: ['ignore', full, errors] });
}

/** Ends it; answers how it ended. */
async function endAgent(signal: NodeJS.Signals): Promise<unknown> {
  const ending = child;
  child = undefined;
  if (ending === undefined) return undefined;
  if (ending.exitCode !== null) return ending.exitCode;
  const exited = once(ending, 'exit');
  ending.kill(signal);
  return (await exited)[0];
}

/** What it wrote to standard error. */
const stderr = (): string => readFileSync(join(folder, 'stderr'), 'utf8');

const shadowPath = (): string =>
  `/apis/brupop.bottlerocket.aws/v2/namespaces/${installation.namespace}/bottlerocketshadows/brs-${pod.node}`;

/** Sets the spec as the controller does, and waits until the shadow's status is like this. */
async function reach(state: ShadowState, version: string | null, expected: Partial<ShadowStatus>): Promise<void> {
  await cluster.api.patch(shadowPath(), { spec: { state, version } });
  await reached(expected);
}

function reached(expected: Partial<ShadowStatus>): Promise<void> {
  return eventually(
    async () => {
      const { status, metadata } = await cluster.api.get<BottlerocketShadow>(shadowPath());
      if (status?.observedGeneration !== metadata.generation) throw new Error(`not yet answered; stderr: ${stderr()}`);
      expect(status).toMatchObject(expected);
    },
    { limitMs: 30_000 },
  );
}

it('updates its node when its log cannot be written because the disk is full', async () => {
  startAgent();
  const first = child;
  await reached({ current_state: 'Idle', current_version: OLD, target_version: NEW });
  await reach('StagedAndPerformedUpdate', NEW, { current_state: 'StagedAndPerformedUpdate' });
  expect(first?.exitCode).toBeNull();
  await reach('RebootedIntoUpdate', NEW, { current_state: 'RebootedIntoUpdate', current_version: NEW });
  await reach('MonitoringUpdate', NEW, { current_state: 'MonitoringUpdate' });
  await reach('Idle', null, { current_state: 'Idle', current_version: NEW, crash_count: 0 });
  expect(host.bootedVersions).toEqual([OLD, NEW]);
  expect([await endAgent('SIGTERM'), stderr()]).toEqual([0, '']);
});
