import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Memory, memoryOf } from '../../../hack/bench/memory.ts';
import { APISERVER } from '../../../packages/shared/src/api/names.ts';
import type { Connection } from '../control-plane/connection.ts';
import { freePorts } from '../control-plane/ports.ts';
import { eventually } from '../eventually.ts';
import { operatorImage } from '../image.ts';
import { startWatchdog } from '../watchdog.ts';
import type { Installation } from './cluster.ts';
import { accessOf, untilReady, writeCertificate } from './server.ts';

/** An apiserver in a process of its own, as a container runs it. */
export interface ApiserverProcess {
  readonly port: number;
  readonly ca: string;
  /** Its output so far. */
  log(): string;
  /** Returns the text of /metrics. */
  metrics(): Promise<string>;
  memory(): Promise<Memory>;
  /** Sends it a signal, such as SIGSTOP. */
  signal(name: NodeJS.Signals): void;
  /** Ends it with SIGTERM. Throws when it exits with an error, or not in time. */
  stop(): Promise<void>;
}

const root = join(import.meta.dirname, '../../..');
/** As the chart starts it (`apiserver.nodeFlags`). */
const nodeFlags = ['--max-old-space-size=256', '--disable-warning=ExperimentalWarning'];

/**
 * Starts the bundle of an apiserver with the chart's permissions and settings, but for the level of its log when
 * one is given, and waits until it is ready. It ends with this process.
 */
export async function spawnApiserver(
  cluster: Connection,
  installation: Installation,
  logLevel = 'info',
): Promise<ApiserverProcess> {
  const dir = mkdtempSync(join(tmpdir(), 'brupop-apiserver-process-'));
  const watchdog = startWatchdog(dir);
  const dnsNames = [APISERVER, `${APISERVER}.${installation.namespace}.svc`];
  const tls = writeCertificate(dir, { dnsNames });
  const [healthPort = 0] = await freePorts(1);
  const settings = { HEALTH_PORT: String(healthPort), LOG_LEVEL: logLevel };
  const env = { ...environmentOf(cluster, installation, dir), ...tlsOf(tls), ...settings };
  const main = join(root, 'dist/apiserver.mjs');
  const child = watchdog.spawn(process.execPath, [...nodeFlags, main], {
    cwd: dir,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const chunks: string[] = [];
  for (const output of [child.stdout, child.stderr])
    output?.setEncoding('utf8').on('data', (text: string) => chunks.push(text));
  const log = (): string => chunks.join('');
  const exited = once(child, 'exit') as Promise<[number | null]>;
  try {
    await untilReady(healthPort);
  } catch (error) {
    await watchdog.release();
    throw new Error(`the apiserver is not ready: ${log()}`, { cause: error });
  }
  const port = await eventually(() => portIn(log()));
  return {
    port,
    ca: tls.ca,
    log,
    metrics: async () => await (await fetch(`http://127.0.0.1:${healthPort}/metrics`)).text(),
    memory: async () => await memoryOf(child.pid ?? 0),
    signal: (name) => void child.kill(name),
    stop: async () => {
      child.kill('SIGTERM');
      const kill = setTimeout(() => child.kill('SIGKILL'), 10_000);
      const [code] = await exited;
      clearTimeout(kill);
      await watchdog.release();
      if (code !== 0) throw new Error(`the apiserver ended with ${code}: ${log().slice(-2_000)}`);
    },
  };
}

function environmentOf(cluster: Connection, installation: Installation, dir: string): NodeJS.ProcessEnv {
  const { host, port } = accessOf(cluster, installation, dir);
  return {
    ...operatorImage().env,
    POD_NAMESPACE: installation.namespace,
    POD_NAME: 'brupop-apiserver-test',
    POD_IP: '127.0.0.1',
    LISTEN_PORT: '0',
    KUBERNETES_SERVICE_HOST: host,
    KUBERNETES_SERVICE_PORT: String(port),
    SERVICE_ACCOUNT_DIR: dir,
  };
}

function tlsOf({ certFile, keyFile }: { certFile: string; keyFile: string }): NodeJS.ProcessEnv {
  return { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile };
}

function portIn(log: string): number {
  const port = /"msg":"server listening".*"port":(\d+)/u.exec(log)?.[1];
  if (port === undefined) throw new Error('it does not listen yet');
  return Number(port);
}

/** The sum of a metric's samples whose labels contain `labels`. */
export function sumOf(metrics: string, name: string, labels = ''): number {
  return metrics
    .split('\n')
    .filter((line) => (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && line.includes(labels))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}
