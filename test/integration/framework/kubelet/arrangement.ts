import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { V1Pod } from '@kubernetes/client-node';
import { COMPONENT_LABEL } from '@brupop/shared/api/names';
import { createKubeClient, type KubeClient } from '@brupop/shared/kube/client';
import { systemClock } from '@brupop/shared/runtime/clock';
import type { Connection } from '../../../framework/control-plane/connection.ts';
import { createNode } from '../../../framework/control-plane/nodes.ts';
import { eventually } from '../../../framework/eventually.ts';
import { imageFromDockerfile } from '../../../framework/kubelet/image.ts';
import { StandInKubelet, type StandInKubeletOptions } from '../../../framework/kubelet/kubelet.ts';
import { ServiceProxy } from '../../../framework/kubelet/service-proxy.ts';
import { recordingLogger } from '../../../framework/recording-logger.ts';

/** The program in place of the operator's. */
const image = imageFromDockerfile('FROM x\nWORKDIR /app\nENTRYPOINT ["node"]\n', {
  paths: new Map([['/app', import.meta.dirname]]),
  programs: { node: process.execPath },
});

export interface Arrangement {
  readonly node: string;
  /** The node's own folder, with `run` and `boot_id` in it. */
  readonly hostDir: string;
  readonly kubelet: StandInKubelet;
  readonly proxy: ServiceProxy;
  readonly client: KubeClient;
  /** Safe to call twice. */
  stop(): Promise<void>;
}

/** A node with its folder, and a kubelet and a proxy of the Service `brupop-apiserver` for it. */
export async function arrange(
  cluster: Connection,
  namespace: string,
  options: Partial<StandInKubeletOptions> & { readonly node: string; readonly dir: string },
): Promise<Arrangement> {
  const { node, dir, ...more } = options;
  await createNode(cluster, { name: node });
  const hostDir = await mkdtemp(join(dir, 'host-'));
  await mkdir(join(hostDir, 'run'));
  await writeFile(join(hostDir, 'boot_id'), 'boot-1\n');
  const { log } = recordingLogger();
  const access = cluster.accessAs('stand-in-kubelet');
  const client = await createKubeClient({ userAgent: 'stand-in-kubelet', clock: systemClock, log, access });
  const proxy = await ServiceProxy.start({ client, clock: systemClock, log, namespace, service: 'brupop-apiserver' });
  const apiserver = { host: '127.0.0.1', port: Number(new URL(cluster.url).port) };
  const kubelet = await StandInKubelet.start({
    client,
    clock: systemClock,
    log,
    tempRoot: dir,
    image: () => image,
    serviceAddress: async (from, { service, port }) =>
      service === 'kubernetes' ? apiserver : await proxy.links.address(from, port),
    nodes: [
      {
        name: node,
        hostPaths: new Map([
          ['/run', join(hostDir, 'run')],
          ['/proc/sys/kernel/random', hostDir],
        ]),
      },
    ],
    ...more,
  });
  let stopped: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    await kubelet.stop();
    await proxy.stop();
    await client.close();
  };
  return { node, hostDir, kubelet, proxy, client, stop: () => (stopped ??= stop()) };
}

export type ContainerSpec = NonNullable<V1Pod['spec']>['containers'][number];

/**
 * A pod of the operator bound to a node, with one container that runs the program and is ready when
 * that answers.
 */
export function podOf(name: string, node: string, container: Partial<ContainerSpec> = {}, spec: object = {}): object {
  const podIP = { name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } };
  const { env = [], args = [], ...rest } = container;
  const main = {
    name: 'main',
    readinessProbe: probe('/about'),
    image: 'program',
    args: ['/app/program.ts', ...args],
    env: [podIP, ...env],
    ...rest,
  };
  return {
    metadata: { name, labels: { [COMPONENT_LABEL]: 'brupop-agent', app: name } },
    spec: { nodeName: node, terminationGracePeriodSeconds: 5, containers: [main], ...spec },
  };
}

/** The probe of a path of the program. */
export function probe(path: string, more: object = {}): object {
  return { httpGet: { path, port: 8080 }, periodSeconds: 1, ...more };
}

export function isReady(pod: V1Pod): boolean {
  return pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;
}

export interface About {
  readonly env: Readonly<Record<string, string>>;
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly pid: number;
}

/** Requests to the program in a pod, at the loopback address that stands for its pod IP. */
export class Program {
  readonly #origin: string;

  constructor(pod: V1Pod) {
    this.#origin = `http://${pod.status?.podIP?.replace(/^10\./, '127.')}:8080`;
  }

  async about(): Promise<About> {
    return (await (await this.#get('/about')).json()) as About;
  }

  async file(path: string): Promise<string> {
    return await (await this.#get(`/file?path=${encodeURIComponent(path)}`)).text();
  }

  async tell(path: string, word: string): Promise<void> {
    await this.#get(`/tell?${new URLSearchParams({ [path]: word }).toString()}`);
  }

  async #get(path: string): Promise<Response> {
    return await fetch(`${this.#origin}${path}`, { signal: AbortSignal.timeout(5_000) });
  }
}

/** True while a process with this ID exists. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Resolves when none of the processes exists. */
export async function untilEnded(pids: readonly number[]): Promise<void> {
  await eventually(() => {
    const left = pids.filter((pid) => isRunning(pid));
    if (left.length > 0) throw new Error(`still running: ${left.join(', ')}`);
  });
}
