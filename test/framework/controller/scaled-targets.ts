/** Deployments that the operator scales to 0 and back, in a namespace of their own. */
import type { V1Deployment, V1Node } from '@kubernetes/client-node';
import type { TargetName } from '../../../packages/shared/src/api/config-dependents.ts';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { DEPENDENT_REPLICAS_ANNOTATION } from '../../../packages/shared/src/api/names.ts';
import type { Connection } from '../control-plane/connection.ts';
import { LEASES } from '../control-plane/node-leases.ts';
import { eventually } from '../eventually.ts';
import { installForController } from './installation.ts';

export const NAMESPACE = 'repair';
export const DEPLOYMENTS = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments`;
export const NAMES = ['autoscaler', 'node-repair', 'descheduler'] as const;
export const TARGETS: readonly TargetName[] = NAMES.map((target) => ({
  kind: 'Deployment',
  namespace: NAMESPACE,
  target,
}));
const REPLICAS = [1, 3, 2] as const;
/** As {@link ScaledTargets.scales} returns them. */
export const UP = REPLICAS.map(String);
export const DOWN = REPLICAS.map((replicas) => `0 (${replicas})`);

/** The value `dependents.targets` of the chart. */
export const TARGETS_VALUE = TARGETS.map(({ target: name, ...one }) => ({ ...one, name }));

/** Installs what a controller needs that may scale them, and creates their namespace. Returns the folder with its account. */
export async function installWithTargets(cluster: Parameters<typeof installForController>[0]): Promise<string> {
  await cluster.api.create('/api/v1/namespaces', { metadata: { name: NAMESPACE } });
  return await installForController(cluster, '--set-json', `dependents.targets=${JSON.stringify(TARGETS_VALUE)}`);
}

/** Leases count when their nodes are older than a minute. */
export async function untilLeasesCount({ api }: Pick<Connection, 'api'>, nodes: readonly string[]): Promise<void> {
  await eventually(
    async () => {
      for (const name of nodes) {
        await api.get(`${LEASES}/${name}`);
        const { metadata } = await api.get<V1Node>(`/api/v1/nodes/${name}`);
        const ageMs = Date.now() - new Date(metadata?.creationTimestamp ?? 0).getTime();
        if (ageMs < 61_000) throw new Error(`the node ${name} is too young`);
      }
    },
    { limitMs: 120_000, pauseMs: 1_000 },
  );
}

/** They go down one after the other, and up in the opposite order. */
export function dependentsByLevel(
  timeout: string,
): NonNullable<BrupopConfigSpec['connectivity']>['dependents'] & object {
  return TARGETS.map((target, index) => ({
    ...target,
    name: target.target,
    scaleDown: { level: index, timeout },
    scaleUp: { level: TARGETS.length - index, timeout },
  }));
}

export class ScaledTargets {
  readonly #cluster: Pick<Connection, 'api'>;

  private constructor(cluster: Pick<Connection, 'api'>) {
    this.#cluster = cluster;
  }

  /** Creates the Deployments in the namespace, which exists, and waits until their pods are Ready. */
  static async deploy(cluster: Pick<Connection, 'api'>): Promise<ScaledTargets> {
    const targets = new ScaledTargets(cluster);
    await Promise.all(NAMES.map(async (name, index) => await targets.#deploy(name, REPLICAS[index] ?? 1)));
    return targets;
  }

  async read(name: string): Promise<V1Deployment> {
    return await this.#cluster.api.get(`${DEPLOYMENTS}/${name}`);
  }

  /** Each as `3`, or `0 (3)` with what is recorded. */
  async scales(): Promise<string[]> {
    const found = await Promise.all(NAMES.map(async (name) => await this.read(name)));
    return found.map(({ metadata, spec }) => {
      const record = metadata?.annotations?.[DEPENDENT_REPLICAS_ANNOTATION];
      return `${spec?.replicas}${record === undefined ? '' : ` (${record})`}`;
    });
  }

  async #deploy(name: string, replicas: number): Promise<void> {
    const labels = { app: name };
    await this.#cluster.api.create(DEPLOYMENTS, {
      metadata: { name },
      spec: {
        replicas,
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            terminationGracePeriodSeconds: 0,
            tolerations: [{ operator: 'Exists' }],
            containers: [{ name, image: 'registry.example/app:1', resources: { requests: { cpu: '1m' } } }],
          },
        },
      },
    });
    const limitMs = 60_000;
    await eventually(
      async () => {
        const { status } = await this.read(name);
        if (status?.readyReplicas !== replicas) throw new Error(`expected ${replicas} pods of ${name} that are Ready`);
      },
      { limitMs },
    );
  }
}
