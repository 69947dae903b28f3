/** A controller in a process of its own, which can be killed. */
import { once } from 'node:events';
import { join } from 'node:path';
import { nodeFlags, releaseNamespace } from '../chart.ts';
import { freePorts } from '../control-plane/ports.ts';
import { operatorImage } from '../image.ts';
import type { Watchdog } from '../watchdog.ts';

const root = join(import.meta.dirname, '../../..');

export interface ControllerProcess {
  readonly pid: number;
  /** Returns the text of /metrics. */
  metrics(): Promise<string>;
  /** Its output so far. */
  log(): string;
  /** Ends it with SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
}

/**
 * Starts the bundle of a controller with its environment and flags in the image and the chart, and does not wait until it is ready.
 * @param url - of the Kubernetes API
 * @param env - more of it
 */
export async function spawnController(
  watchdog: Watchdog,
  url: string,
  serviceAccountDir: string,
  env: Readonly<Record<string, string>> = {},
): Promise<ControllerProcess> {
  const { hostname, port } = new URL(url);
  const [healthPort = 0] = await freePorts(1);
  const child = watchdog.spawn(process.execPath, [...nodeFlags('controller'), join(root, 'dist/controller.mjs')], {
    cwd: serviceAccountDir,
    env: {
      ...operatorImage().env,
      POD_NAME: `brupop-controller-${healthPort}`,
      POD_UID: 'uid',
      POD_NAMESPACE: releaseNamespace,
      POD_IP: '127.0.0.1',
      NODE_NAME: 'node-of-the-controller',
      HEALTH_PORT: String(healthPort),
      KUBERNETES_SERVICE_HOST: hostname,
      KUBERNETES_SERVICE_PORT: port,
      SERVICE_ACCOUNT_DIR: serviceAccountDir,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const chunks: string[] = [];
  for (const output of [child.stdout, child.stderr])
    output?.setEncoding('utf8').on('data', (text: string) => chunks.push(text));
  const exited = once(child, 'exit');
  return {
    pid: child.pid ?? 0,
    metrics: async () => await (await fetch(`http://127.0.0.1:${healthPort}/metrics`)).text(),
    log: () => chunks.join(''),
    kill: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
}
