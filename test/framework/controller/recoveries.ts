/** A cluster in which Services recover, and controllers that evict the pods that need them. */
import type { V1Pod } from '@kubernetes/client-node';
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { CONFIG_NAME, CONFIG_VERSION, GROUP } from '../../../packages/shared/src/api/names.ts';
import { type AuditedRequest, auditPosition, operatorRequests } from '../audit.ts';
import { releaseNamespace } from '../chart.ts';
import { type ControlPlane, startControlPlane } from '../control-plane/start.ts';
import { eventually } from '../eventually.ts';
import { CONFIG_PATH, configure, HEALTHY_AT_ONCE, readBrupopConfig } from './configuration.ts';
import { createOutage, type DeploymentOptions, type Outage } from './crashing.ts';
import { installForController } from './installation.ts';
import { type Replica, startReplica } from './replica.ts';

/** The only namespace of the chart's value recovery.namespaces. */
export const SHOP = 'shop';

export const namesOf = (pods: readonly V1Pod[]): string[] =>
  pods.map(({ metadata }) => metadata?.name ?? '').toSorted();

export class Recoveries {
  readonly cluster: ControlPlane;
  readonly serviceAccountDir: string;
  readonly #replicas: Replica[] = [];
  #position = 0;

  private constructor(cluster: ControlPlane, serviceAccountDir: string) {
    this.cluster = cluster;
    this.serviceAccountDir = serviceAccountDir;
  }

  static async start(): Promise<Recoveries> {
    const cluster = await startControlPlane();
    await cluster.api.create('/api/v1/namespaces', { metadata: { name: SHOP } });
    return new Recoveries(cluster, await installForController(cluster, '--set', `recovery.namespaces={${SHOP}}`));
  }

  /** {@link requests} begin here. */
  async begin(): Promise<void> {
    this.#position = await auditPosition(this.cluster.auditLogPath);
  }

  /** Stops the controllers and deletes the configuration. */
  async end(): Promise<void> {
    await Promise.all(this.#replicas.splice(0).map((replica) => replica.stop()));
    await this.cluster.api.delete(CONFIG_PATH);
  }

  async startReplica(): Promise<Replica> {
    const replica = await startReplica(this.cluster, this.serviceAccountDir, { recoveryNamespaces: [SHOP] });
    this.#replicas.push(replica);
    return replica;
  }

  async configure(spec: BrupopConfigSpec): Promise<void> {
    await configure(this.cluster, { ...HEALTHY_AT_ONCE, ...spec });
  }

  async status(): Promise<BrupopConfig['status']> {
    return (await readBrupopConfig(this.cluster)).status;
  }

  /** Waits for this reason of the condition RecoveryReady, and returns its message. */
  async untilCondition(reason: string, limitMs = 20_000): Promise<string> {
    return await eventually(
      async () => {
        const condition = (await this.status())?.conditions?.find(({ type }) => type === 'RecoveryReady');
        if (condition?.reason !== reason) throw new Error(`expected ${reason}, found ${condition?.reason}`);
        return condition.message ?? '';
      },
      { limitMs },
    );
  }

  /** As a former leader. */
  async record(recovery: readonly object[]): Promise<void> {
    const resource = { apiVersion: `${GROUP}/${CONFIG_VERSION}`, kind: 'BrupopConfig' };
    const body = { ...resource, metadata: { name: CONFIG_NAME }, status: { recovery } };
    const path = `${CONFIG_PATH}/status?fieldManager=brupop-controller-recovery`;
    await this.cluster.api.request('PATCH', path, body, 'application/apply-patch+yaml');
  }

  async requests(verb: string, resource: string): Promise<AuditedRequest[]> {
    const all = await operatorRequests(this.cluster.auditLogPath, releaseNamespace, this.#position);
    return all.filter((one) => one.verb === verb && one.resource === resource);
  }

  /** Names of pods whose eviction was accepted, as often as it was. */
  async evicted(): Promise<string[]> {
    const found = (await this.requests('create', 'pods/eviction')).filter(({ status }) => status === 201);
    return found.map(({ name }) => name).toSorted();
  }

  async outage(name: string, more: Partial<DeploymentOptions> = {}): Promise<Outage> {
    return await createOutage(this.cluster, { namespace: SHOP, name, replicas: 2, ...more });
  }

  /** Asks for recovery of the pods that need the Service. */
  async watch(
    { service, api }: Pick<Outage, 'service' | 'api'>,
    more: BrupopConfigSpec['recovery'] = {},
    spec: BrupopConfigSpec = {},
  ): Promise<void> {
    const entry = { name: 'db', namespace: SHOP, service, podSelectors: [{ matchLabels: { app: api } }] };
    await this.configure({ ...spec, recovery: { services: [entry], ...more } });
  }

  /** When the watch of the Service is open, so that the first list is past. */
  async watched(): Promise<void> {
    await eventually(async () => {
      const { length } = await this.requests('watch', 'endpointslices');
      if (length !== 1) throw new Error(`expected one watch of EndpointSlices, found ${length}`);
    });
  }
}
