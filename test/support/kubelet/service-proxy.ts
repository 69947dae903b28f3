import type { V1Endpoint } from '@kubernetes/client-node';
import type { Clock } from '@brupop/shared/clock';
import type { KubeClient } from '@brupop/shared/kube';
import { groupPath } from '@brupop/shared/kube-paths';
import type { KubernetesObject } from '@brupop/shared/kubernetes-types';
import type { Logger } from '@brupop/shared/log';
import { Reflector } from '@brupop/shared/reflector';
import { localAddress } from './addresses.ts';
import type { Address } from './service-environment.ts';
import { TcpForwarder } from './tcp-forwarder.ts';
import type { Cut } from './tcp-forwarder.ts';

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
 * Stands in for kube-proxy for one Service: per node and port a listener on loopback that forwards each new connection to a random ready
 * endpoint of the Service's EndpointSlices. Without one the connection is reset. What is open stays open whatever the slices say.
 */
export class ServiceProxy {
  readonly #slices: Reflector<EndpointSlice>;
  readonly #end = new AbortController();
  /** By node, then by port name. */
  readonly #forwarders = new Map<string, Map<string, Promise<TcpForwarder>>>();
  readonly #cuts = new Map<string, Cut>();

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

  /** Where pods of the node reach a port of the Service (empty name: its only, unnamed one). The same answer each time. */
  async address(node: string, port = ''): Promise<Address> {
    const ofNode = this.#forwarders.get(node) ?? new Map<string, Promise<TcpForwarder>>();
    this.#forwarders.set(node, ofNode);
    const found = ofNode.get(port) ?? this.#listen(node, port);
    ofNode.set(port, found);
    return (await found).address;
  }

  /** Cuts a node off from the Service until `heal`. */
  async cut(node: string, how: Cut = 'reset'): Promise<void> {
    this.#cuts.set(node, how);
    for (const forwarder of await this.#of(node)) forwarder.cut(how);
  }

  async heal(node: string): Promise<void> {
    this.#cuts.delete(node);
    for (const forwarder of await this.#of(node)) forwarder.heal();
  }

  /** Local addresses of the endpoints that a new connection may go to. */
  targets(port = ''): Address[] {
    return targetsOf(this.#slices.list(), port);
  }

  async stop(): Promise<void> {
    this.#end.abort();
    const all = await Promise.all([...this.#forwarders.keys()].map(async (node) => await this.#of(node)));
    await Promise.all(all.flat().map(async (forwarder) => await forwarder.stop()));
  }

  async #listen(node: string, port: string): Promise<TcpForwarder> {
    const forwarder = await TcpForwarder.start(() => randomOf(this.targets(port)));
    const how = this.#cuts.get(node);
    if (how !== undefined) forwarder.cut(how);
    return forwarder;
  }

  async #of(node: string): Promise<TcpForwarder[]> {
    const forwarders = this.#forwarders.get(node) ?? new Map<string, Promise<TcpForwarder>>();
    return await Promise.all(forwarders.values());
  }
}

/** As kube-proxy chooses: the ready endpoints, or, when there is none, those that still serve while they end. */
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
