import type { V1ServicePort } from '@kubernetes/client-node';
import type { KubernetesObject } from '@brupop/shared/api/meta';

export interface Service extends KubernetesObject {
  readonly spec: { readonly clusterIP?: string; readonly ports?: readonly V1ServicePort[] };
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** A port of a Service, as kube-proxy knows it. */
export interface ServicePort {
  readonly namespace: string;
  readonly service: string;
  /** Empty when the Service has a single port without a name. */
  readonly port: string;
}

/**
 * A Service with, for each of its ports in order, the address at which pods of one node reach it.
 */
export interface ReachableService {
  readonly name: string;
  readonly ports: readonly { readonly name: string; readonly protocol: string; readonly address: Address }[];
}

/**
 * The environment variables that a kubelet makes of Services: `<NAME>_SERVICE_HOST`,
 * `<NAME>_SERVICE_PORT[_<PORT>]` and the older link variables `<NAME>_PORT…`. Source: kubelet
 * pkg/kubelet/envvars.
 */
export function serviceEnvironment(services: readonly ReachableService[]): Record<string, string> {
  return Object.fromEntries(services.flatMap(variablesOf));
}

function variablesOf({ name, ports }: ReachableService): [string, string][] {
  const prefix = upper(name);
  const [first] = ports;
  if (first === undefined) return [];
  const { host, port } = first.address;
  const named = ports.filter((one) => one.name !== '');
  return [
    [`${prefix}_SERVICE_HOST`, host],
    [`${prefix}_SERVICE_PORT`, String(port)],
    ...named.map((one): [string, string] => [`${prefix}_SERVICE_PORT_${upper(one.name)}`, String(one.address.port)]),
    [`${prefix}_PORT`, url(first)],
    ...ports.flatMap((one) => linkVariables(prefix, one)),
  ];
}

function linkVariables(prefix: string, port: ReachableService['ports'][number]): [string, string][] {
  const start = `${prefix}_PORT_${port.address.port}_${port.protocol}`;
  return [
    [start, url(port)],
    [`${start}_PROTO`, port.protocol.toLowerCase()],
    [`${start}_PORT`, String(port.address.port)],
    [`${start}_ADDR`, port.address.host],
  ];
}

function url({ protocol, address }: ReachableService['ports'][number]): string {
  return `${protocol.toLowerCase()}://${address.host}:${address.port}`;
}

function upper(name: string): string {
  return name.toUpperCase().replaceAll('-', '_');
}

const KUBERNETES = { namespace: 'default', name: 'kubernetes' };

/**
 * The Services that a pod gets variables for: those of its namespace that have a cluster IP, unless
 * it sets `enableServiceLinks: false`, and always `kubernetes`.
 */
export function servicesFor(
  pod: { readonly namespace: string; readonly enableServiceLinks: boolean },
  services: readonly Service[],
): Service[] {
  return services.filter(({ metadata, spec }) => {
    if (spec.clusterIP === undefined || spec.clusterIP === '' || spec.clusterIP === 'None') return false;
    const isKubernetes = metadata.namespace === KUBERNETES.namespace && metadata.name === KUBERNETES.name;
    return isKubernetes || (pod.enableServiceLinks && metadata.namespace === pod.namespace);
  });
}
