import type { V1ResourceFieldSelector } from '@kubernetes/client-node';
import { localAddress } from './addresses.ts';
import { Unsupported, containerNamed, type Pod, podName, type Whereabouts } from './pod.ts';

/**
 * The value of a `fieldRef` in an environment. `status.podIP` is the local address 127.R.x.y:
 * programs listen on it, and it differs for each pod. Throws Unsupported for an unknown path.
 */
export function environmentField(fieldPath: string, pod: Pod, { podIP, hostIP }: Whereabouts): string {
  const values: Record<string, string | undefined> = {
    'spec.nodeName': pod.spec.nodeName,
    'spec.serviceAccountName': pod.spec.serviceAccountName ?? 'default',
    'status.podIP': localAddress(podIP),
    'status.podIPs': localAddress(podIP),
    'status.hostIP': hostIP,
    'status.hostIPs': hostIP,
  };
  return values[fieldPath] ?? metadataField(fieldPath, pod);
}

/**
 * The value of a `fieldRef` to metadata, in an environment or a file. Throws Unsupported for an
 * unknown path.
 */
export function metadataField(fieldPath: string, pod: Pod): string {
  const [, field = '', key] = /^metadata\.(\w+)(?:\['([^']+)'\])?$/.exec(fieldPath) ?? [];
  const { name, namespace, uid, labels = {}, annotations = {} } = pod.metadata;
  if (key !== undefined) return { labels, annotations }[field]?.[key] ?? '';
  const values: Record<string, string | undefined> = {
    name,
    namespace,
    uid,
    labels: lines(labels),
    annotations: lines(annotations),
  };
  const value = values[field];
  if (value === undefined) throw new Unsupported(`${podName(pod)}: fieldRef ${fieldPath}`);
  return value;
}

/** `key="value"` lines, sorted, as the kubelet writes maps into files. */
function lines(map: Readonly<Record<string, string>>): string {
  return Object.entries(map)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
    .join('\n');
}

/**
 * The value of a `resourceFieldRef` to a limit, in units of the divisor, rounded up. Throws
 * Unsupported when the limit is not set: a node's allocatable has no meaning here.
 */
export function resourceField(ref: V1ResourceFieldSelector, pod: Pod, container: string): string {
  const name = ref.containerName ?? container;
  const limit = containerNamed(pod, name).resources?.limits?.[ref.resource.replace('limits.', '')];
  if (limit === undefined)
    throw new Unsupported(`${podName(pod)}: resourceFieldRef ${ref.resource}: container ${name} sets none`);
  const divisor = quantity(ref.divisor ?? '1');
  return String(Math.ceil(quantity(limit) / (divisor === 0 ? 1 : divisor)));
}

const SUFFIXES: Readonly<Record<string, number>> = {
  '': 1,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
};

/** The number that a resource.Quantity stands for. Throws Unsupported when it is none. */
function quantity(text: string): number {
  const [, number, suffix = ''] = /^([0-9.]+)(\w{0,2})$/.exec(text) ?? [];
  const factor = SUFFIXES[suffix];
  if (number === undefined || factor === undefined) throw new Unsupported(`not a resource quantity: ${text}`);
  return Number(number) * factor;
}
