import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ApiserverConfig } from '../../../packages/apiserver/src/config.ts';
import { serve } from '../../../packages/apiserver/src/main.ts';
import { APISERVER } from '../../../packages/shared/src/api/names.ts';
import {
  type ClusterAccess,
  createKubeClient,
  type KubeClient,
  type KubeRequest,
} from '../../../packages/shared/src/kube/client.ts';
import { type Clock, systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { createRegistry } from '../../../packages/shared/src/runtime/metrics.ts';
import { makeServingCertificate } from '../certificates.ts';
import type { Connection } from '../control-plane/connection.ts';
import { freePorts } from '../control-plane/ports.ts';
import { eventually } from '../eventually.ts';
import { recordingLogger } from '../recording-logger.ts';
import { type AgentClient, connectAgent } from './agent-client.ts';
import type { Installation } from './cluster.ts';

/** An apiserver that runs in this process. */
export interface RunningApiserver {
  readonly port: number;
  readonly healthPort: number;
  readonly ca: string;
  /** Log lines. */
  readonly lines: readonly string[];
  /** Calls without a token. */
  readonly client: AgentClient;
  /** Returns the text of /metrics. */
  metrics(): Promise<string>;
  /** As SIGTERM: resolves when it has stopped. May be called again. */
  readonly stop: () => Promise<void>;
}

/** What differs from the chart's settings. */
export interface ApiserverSettings extends Partial<ApiserverConfig> {
  /** Shows later times than kube-apiserver, as if that had waited. */
  readonly clock?: Clock;
  /** The clock of the replica's machine alone. */
  readonly wrongClock?: Clock;
  /** The response of `/openid/v1/jwks` instead of the cluster's own keys. */
  readonly jwks?: object;
}

/** Starts an apiserver with the chart's permissions and waits until it is ready. */
export async function startApiserver(
  cluster: Connection,
  installation: Installation,
  options: ApiserverSettings = {},
): Promise<RunningApiserver> {
  const { wrongClock, clock = wrongClock ?? systemClock, jwks, ...settings } = options;
  const { log, lines } = recordingLogger();
  const dir = mkdtempSync(join(tmpdir(), 'brupop-apiserver-'));
  const tls = writeCertificate(dir);
  const access = accessOf(cluster, installation, dir);
  const [healthPort = 0] = await freePorts(1);
  const config = configFor({ access, healthPort, namespace: installation.namespace, tls, settings });
  const registry = createRegistry(APISERVER);
  const client = await createKubeClient({ userAgent: APISERVER, clock: wrongClock ?? systemClock, log, access });
  if (jwks !== undefined) publish(client, jwks);
  const stop = new AbortController();
  const { signal } = stop;
  const listening = Promise.withResolvers<number>();
  const onListening = listening.resolve;
  const ended = serve(config, { clock, log, signal }, { client, registry, onListening });
  ended.catch(listening.reject);
  const end = async (): Promise<void> => {
    stop.abort(new Error('the test is over'));
    try {
      await ended;
    } finally {
      rmSync(dir, { recursive: true });
    }
  };
  try {
    const port = await listening.promise;
    await untilReady(healthPort);
    const agents = connectAgent(port, tls.ca);
    const stopAll = async (): Promise<void> => {
      await end();
      await agents.close();
    };
    let stopped: Promise<void> | undefined;
    const metrics = async (): Promise<string> => await registry.metrics();
    return { port, healthPort, lines, ca: tls.ca, client: agents, metrics, stop: () => (stopped ??= stopAll()) };
  } catch (error) {
    await end().catch(() => undefined);
    throw new Error(`the apiserver is not ready: ${lines.join('')}`, { cause: error });
  }
}

/** Makes a client return this response for the cluster's key set. */
function publish(client: KubeClient, jwks: object): void {
  const request = client.request.bind(client);
  client.request = <T>(one: KubeRequest): Promise<T> =>
    one.path === '/openid/v1/jwks' ? Promise.resolve(jwks as T) : request<T>(one);
}

/** Waits until /readyz succeeds. */
export async function untilReady(healthPort: number): Promise<void> {
  await eventually(
    async () => {
      const { status } = await fetch(`http://127.0.0.1:${healthPort}/readyz`);
      if (status !== 200) throw new Error(`/readyz: ${status}`);
    },
    { limitMs: 10_000 },
  );
}

interface Settings {
  readonly access: ApiserverConfig['access'];
  readonly healthPort: number;
  readonly namespace: string;
  readonly tls: { readonly certFile: string; readonly keyFile: string };
  readonly settings: Partial<ApiserverConfig>;
}

function configFor({ access, healthPort, namespace, tls, settings }: Settings): ApiserverConfig {
  return {
    access,
    namespace,
    agentNamespace: namespace,
    podName: 'brupop-apiserver-test',
    host: '127.0.0.1',
    listenPort: 0,
    healthPort,
    tlsCertFile: tls.certFile,
    tlsKeyFile: tls.keyFile,
    serverName: APISERVER,
    maxConnections: 1000,
    maxConnectionsPerAddress: 1000,
    ...settings,
  };
}

type PodAccess = Extract<ClusterAccess, { host: string }>;

/** Writes the credentials as a kubelet does. */
export function accessOf({ url, ca }: Connection, { token }: Installation, serviceAccountDir: string): PodAccess {
  writeFileSync(join(serviceAccountDir, 'token'), token, { mode: 0o600 });
  writeFileSync(join(serviceAccountDir, 'ca.crt'), ca);
  const { hostname: host, port } = new URL(url);
  return { host, port: Number(port), serviceAccountDir };
}

/**
 * Writes a fresh certificate and key into a folder, valid for these DNS names, for 127.0.0.1, and
 * for this number of days (below 0: expired).
 */
export function writeCertificate(
  dir: string,
  { days = 1, dnsNames = [APISERVER] }: { readonly days?: number; readonly dnsNames?: readonly string[] } = {},
): { ca: string; certFile: string; keyFile: string } {
  const [certFile, keyFile] = [join(dir, 'tls.crt'), join(dir, 'tls.key')];
  const names = { commonName: APISERVER, dnsNames, ipAddresses: ['127.0.0.1'] };
  const { cert, key, caCert } = makeServingCertificate({ ...names, days });
  writeFileSync(certFile, cert);
  writeFileSync(keyFile, key, { mode: 0o600 });
  return { ca: caCert, certFile, keyFile };
}
