import type { V1Endpoint } from '@kubernetes/client-node';
import type { KubeClient } from '@brupop/shared/kube/client';
import { groupPath } from '@brupop/shared/kube/paths';
import { Reflector } from '@brupop/shared/kube/reflector';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import { localAddress } from './addresses.ts';
import { NodeLinks } from './node-links.ts';
import type { Address } from './service-environment.ts';

export interface EndpointSlice extends KubernetesObject {
  readonly endpoints?: readonly V1Endpoint[] | null;
  readonly ports?: readonly { readonly name?: string; readonly port?: number }[] | null;
}

export interface ServiceProxyOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly namespace: string;
  /** Name of the Service. */
  readonly service: string;
}

/**
 * Stands in for kube-proxy for one Service: per node and port a listener on loopback that forwards
 * each new connection to a random ready endpoint of the Service's EndpointSlices. Without one the
 * connection is reset. Open connections stay open when the slices change.
 */
export class ServiceProxy {
  readonly #slices: Reflector<EndpointSlice>;
  readonly #end = new AbortController();
  /** From each node. */
  readonly links = new NodeLinks((port, node) => randomOf(this.choose(this.targets(port), node)));
  /** Selects the endpoints for new connections from a node. */
  choose: (targets: readonly Address[], node: string) => readonly Address[] = (targets) => targets;

  private constructor({ namespace, service, ...rest }: ServiceProxyOptions) {
    this.#slices = new Reflector<EndpointSlice>({
      ...rest,
      path: groupPath('discovery.k8s.io/v1', 'endpointslices', { namespace }),
      query: { labelSelector: `kubernetes.io/service-name=${service}` },
      slim: (raw) => raw as EndpointSlice,
      name: `endpoints of ${service}`,
    });
  }

  /** Resolves when the endpoints are known. */
  static async start(options: ServiceProxyOptions): Promise<ServiceProxy> {
    const proxy = new ServiceProxy(options);
    void proxy.#slices.run(proxy.#end.signal);
    await proxy.#slices.waitSynced(proxy.#end.signal);
    return proxy;
  }

  /** Local addresses of the endpoints that a new connection may go to. */
  targets(port = ''): Address[] {
    return targetsOf(this.#slices.list(), port);
  }

  async stop(): Promise<void> {
    this.#end.abort();
    await this.links.stop();
  }
}

/**
 * As kube-proxy chooses: the ready endpoints, or, when there is none, those that still serve while
 * they end.
 */
export function targetsOf(slices: readonly EndpointSlice[], port: string): Address[] {
  const ready = addresses(slices, port, ({ conditions }) => conditions?.ready ?? true);
  if (ready.length > 0) return ready;
  return addresses(slices, port, ({ conditions }) => conditions?.serving === true && conditions.terminating === true);
}

function addresses(slices: readonly EndpointSlice[], port: string, fits: (endpoint: V1Endpoint) => boolean): Address[] {
  return slices.flatMap(({ endpoints, ports }) => {
    const number = ports?.find(({ name = '' }) => name === port)?.port;
    if (number === undefined) return [];
    const found = (endpoints ?? []).filter(fits).flatMap((endpoint) => endpoint.addresses);
    return found.map((address) => ({ host: localAddress(address), port: number }));
  });
}

function randomOf<T>(list: readonly T[]): T | undefined {
  return list[Math.floor(Math.random() * list.length)];
}
