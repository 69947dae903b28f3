import type { KubeClient } from '@brupop/shared/kube/client';
import { corePath } from '@brupop/shared/kube/paths';
import { Reflector } from '@brupop/shared/kube/reflector';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { Pod } from './pod.ts';
import {
  type Address,
  type ReachableService,
  type Service,
  serviceEnvironment,
  type ServicePort,
  servicesFor,
} from './service-environment.ts';

/**
 * Where the pods of a node reach a port of a Service; undefined: nowhere but at its cluster IP,
 * where nothing listens.
 */
export type ServiceAddress = (node: string, port: ServicePort) => Promise<Address | undefined>;

export interface ServiceVariablesOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly serviceAddress: ServiceAddress;
}

/** The environment variables that pods get of the Services that exist when a container starts. */
export class ServiceVariables {
  readonly #services: Reflector<Service>;
  readonly #serviceAddress: ServiceAddress;

  constructor({ serviceAddress, ...rest }: ServiceVariablesOptions) {
    this.#serviceAddress = serviceAddress;
    this.#services = new Reflector<Service>({
      ...rest,
      path: corePath('services'),
      slim: (raw) => raw as Service,
      name: 'services of the stand-in kubelet',
    });
  }

  /** Resolves when all Services are known. */
  async start(signal: AbortSignal): Promise<void> {
    void this.#services.run(signal);
    await this.#services.waitSynced(signal);
  }

  async of(node: string, pod: Pod): Promise<Record<string, string>> {
    const enableServiceLinks = pod.spec.enableServiceLinks ?? true;
    const services = servicesFor({ namespace: pod.metadata.namespace, enableServiceLinks }, this.#services.list());
    return serviceEnvironment(await Promise.all(services.map(async (service) => await this.#reachable(node, service))));
  }

  async #reachable(node: string, { metadata, spec }: Service): Promise<ReachableService> {
    const { name, namespace = '' } = metadata;
    const ports = (spec.ports ?? []).map(async ({ name: port = '', protocol = 'TCP', port: number }) => {
      const address = await this.#serviceAddress(node, { namespace, service: name, port });
      return { name: port, protocol, address: address ?? { host: spec.clusterIP ?? '', port: number } };
    });
    return { name, ports: await Promise.all(ports) };
  }
}
