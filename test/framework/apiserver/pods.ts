import type { Connection } from '../control-plane/connection.ts';
import { terminationDelayAnnotation } from '../control-plane/stages.ts';
import { eventually } from '../eventually.ts';
import { uniqueName } from './cluster.ts';

export interface PodOptions {
  readonly namespace: string;
  readonly node: string;
  readonly name?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly object[];
  /** How long its containers take to terminate, as a Go duration. */
  readonly terminates?: string;
  /** Claims that it mounts. */
  readonly claim?: string;
  readonly emptyDir?: boolean;
  readonly graceSeconds?: number;
  readonly priorityClass?: string;
  readonly finalizers?: readonly string[];
  /** Default true. */
  readonly toleratesCordon?: boolean;
  /** Default true: wait until KWOK has made it ready. */
  readonly ready?: boolean;
}

/** Creates a pod that KWOK runs, waits until it is ready and returns its name. */
export async function createPod(cluster: Connection, options: PodOptions): Promise<string> {
  const { namespace, node, labels, ownerReferences, claim, finalizers, terminates, graceSeconds } = options;
  const name = options.name ?? uniqueName('pod');
  const annotations = {
    ...options.annotations,
    ...(terminates === undefined ? {} : { [terminationDelayAnnotation]: terminates }),
  };
  const volumes = [
    ...(claim === undefined ? [] : [{ name: 'data', persistentVolumeClaim: { claimName: claim } }]),
    ...(options.emptyDir === true ? [{ name: 'cache', emptyDir: {} }] : []),
  ];
  await cluster.api.create(`/api/v1/namespaces/${namespace}/pods`, {
    metadata: { name, labels, annotations, ownerReferences, finalizers },
    spec: {
      nodeName: node,
      automountServiceAccountToken: false,
      containers: [{ name: 'main', image: 'main' }],
      volumes,
      terminationGracePeriodSeconds: graceSeconds,
      priorityClassName: options.priorityClass,
      tolerations: options.toleratesCordon === false ? [] : [{ operator: 'Exists' }],
    },
  });
  if (options.ready !== false) await eventually(async () => await requireReady(cluster, namespace, name));
  return name;
}

interface LivePod {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

async function requireReady(cluster: Connection, namespace: string, name: string): Promise<void> {
  const { status } = await cluster.api.get<LivePod>(`/api/v1/namespaces/${namespace}/pods/${name}`);
  const ready = status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') ?? false;
  if (!ready) throw new Error(`pod ${name} is not ready: ${JSON.stringify(status)}`);
}

/** Names of the pods of a namespace that exist. */
export async function podNames(cluster: Connection, namespace: string): Promise<string[]> {
  const { items } = await cluster.api.get<{ items: { metadata: { name: string } }[] }>(
    `/api/v1/namespaces/${namespace}/pods`,
  );
  return items.map(({ metadata }) => metadata.name).toSorted((a, b) => (a < b ? -1 : 1));
}

/**
 * Creates a budget of pods with these labels, and waits until its status is set.
 * @param limit - by default it allows no disruption
 */
export async function createBudget(
  cluster: Connection,
  namespace: string,
  name: string,
  matchLabels: Readonly<Record<string, string>>,
  limit: { readonly minAvailable?: number; readonly maxUnavailable?: number } = { maxUnavailable: 0 },
): Promise<void> {
  const path = `/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets`;
  await cluster.api.create(path, { metadata: { name }, spec: { ...limit, selector: { matchLabels } } });
  await eventually(async () => {
    const { status } = await cluster.api.get<{ status?: { observedGeneration?: number } }>(`${path}/${name}`);
    if (status?.observedGeneration === undefined) throw new Error(`budget ${name} is not counted yet`);
  });
}
