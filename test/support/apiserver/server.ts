import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { runApiserver } from '../../../packages/apiserver/src/apiserver.ts';
import type { Config } from '../../../packages/apiserver/src/config.ts';
import { systemClock } from '../../../packages/shared/src/clock.ts';
import { createKubeClient } from '../../../packages/shared/src/kube.ts';
import type { ClusterAccess } from '../../../packages/shared/src/kube.ts';
import { createRegistry } from '../../../packages/shared/src/metrics.ts';
import { makeServingCertificate } from '../certificates.ts';
import type { Connection } from '../control-plane/connection.ts';
import { freePorts } from '../control-plane/ports.ts';
import { eventually } from '../eventually.ts';
import { recordingLogger } from '../recording-logger.ts';
import { connectAgent } from './agent-client.ts';
import type { AgentClient } from './agent-client.ts';
import type { Installation } from './cluster.ts';

/** An apiserver that runs in this process. */
export interface RunningApiserver {
  readonly port: number;
  readonly healthPort: number;
  readonly ca: string;
  /** Log lines. */
  readonly lines: readonly string[];
  readonly certFile: string;
  readonly keyFile: string;
  /** Calls without a token. */
  readonly client: AgentClient;
  /** What /metrics says. */
  metrics(): Promise<string>;
  /** As SIGTERM: resolves when it has stopped. */
  stop(): Promise<void>;
}

/** Starts an apiserver with the chart's permissions and waits until it is ready. */
export async function startApiserver(
  cluster: Connection,
  installation: Installation,
  settings: Partial<Config> = {},
): Promise<RunningApiserver> {
  const { log, lines } = recordingLogger();
  const stop = new AbortController();
  const tls = writeCertificate();
  const access = accessOf(cluster, installation);
  const [healthPort = 0] = await freePorts(1);
  const config = configFor({ access, healthPort, namespace: installation.namespace, tls, settings });
  const registry = createRegistry('apiserver');
  const client = await createKubeClient({ userAgent: 'brupop-apiserver', clock: systemClock, log, access });
  const listening = Promise.withResolvers<number>();
  const { signal } = stop;
  const onListening = listening.resolve;
  const ended = runApiserver({ config, client, clock: systemClock, log, registry, signal, onListening });
  ended.catch(listening.reject);
  const port = await listening.promise;
  await untilReady(healthPort).catch(async (error: unknown) => {
    stop.abort(new Error('not ready'));
    await client.close();
    throw new Error(`the apiserver is not ready: ${lines.join('')}`, { cause: error });
  });
  const agents = connectAgent(port, tls.ca);
  const end = async (): Promise<void> => {
    stop.abort(new Error('the test is over'));
    await ended;
    await agents.close();
    await client.close();
  };
  return { port, healthPort, lines, ...tls, client: agents, metrics: async () => await registry.metrics(), stop: end };
}

async function untilReady(healthPort: number): Promise<void> {
  await eventually(
    async () => {
      const { status } = await fetch(`http://127.0.0.1:${healthPort}/readyz`);
      if (status !== 200) throw new Error(`/readyz: ${status}`);
    },
    { limitMs: 10_000 },
  );
}

interface Settings {
  readonly access: Config['access'];
  readonly healthPort: number;
  readonly namespace: string;
  readonly tls: { readonly certFile: string; readonly keyFile: string };
  readonly settings: Partial<Config>;
}

function configFor({ access, healthPort, namespace, tls, settings }: Settings): Config {
  return {
    access,
    namespace,
    nodeName: 'node-of-the-replica',
    host: '127.0.0.1',
    listenPort: 0,
    healthPort,
    tlsCertFile: tls.certFile,
    tlsKeyFile: tls.keyFile,
    exclusionWaitMs: 0,
    maxConnections: 1000,
    ...settings,
  };
}

function accessOf({ url }: Connection, { serviceAccountDir }: Installation): ClusterAccess {
  const { hostname: host, port } = new URL(url);
  return { host, port: Number(port), serviceAccountDir };
}

/** Writes a fresh certificate and key into a folder, or into the given files. */
export function writeCertificate(
  files?: { certFile: string; keyFile: string },
  days = 1,
): { ca: string; certFile: string; keyFile: string } {
  const dir = files === undefined ? mkdtempSync(join(tmpdir(), 'brupop-tls-')) : '';
  const { certFile = join(dir, 'tls.crt'), keyFile = join(dir, 'tls.key') } = files ?? {};
  const made = makeServingCertificate({ commonName: 'brupop-apiserver', ipAddresses: ['127.0.0.1'], days });
  writeFileSync(certFile, made.cert);
  writeFileSync(keyFile, made.key, { mode: 0o600 });
  return { ca: made.caCert, certFile, keyFile };
}
