/** Workloads whose pods a test lets crash and become Ready again, as kubelets report it. */
import type { V1EndpointSliceList, V1Pod, V1PodList } from '@kubernetes/client-node';
import { again } from '../again.ts';
import type { Connection } from '../control-plane/connection.ts';
import { eventually } from '../eventually.ts';

type Cluster = Pick<Connection, 'api'>;

const STRATEGIC = 'application/strategic-merge-patch+json';

export interface DeploymentOptions {
  readonly namespace: string;
  readonly name: string;
  readonly replicas: number;
  readonly nodeSelector?: Readonly<Record<string, string>>;
}

/** Its pods have the label `app`; waits until they are Ready, and returns them. */
export async function createDeployment(cluster: Cluster, options: DeploymentOptions): Promise<V1Pod[]> {
  const { namespace, name, replicas, nodeSelector } = options;
  const labels = { app: name };
  await cluster.api.create(`/apis/apps/v1/namespaces/${namespace}/deployments`, {
    metadata: { name },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { nodeSelector, containers: [{ name: 'main', image: 'main' }] } },
    },
  });
  return await readyPods(cluster, { namespace, name, replicas });
}

/** Of a Deployment that {@link createDeployment} made. */
export async function createService({ api }: Cluster, namespace: string, name: string): Promise<void> {
  const spec = { selector: { app: name }, ports: [{ port: 80 }] };
  await api.create(`/api/v1/namespaces/${namespace}/services`, { metadata: { name }, spec });
}

export async function podsOf({ api }: Cluster, namespace: string, app: string): Promise<V1Pod[]> {
  return (await api.get<V1PodList>(`/api/v1/namespaces/${namespace}/pods?labelSelector=app%3D${app}`)).items;
}

/** Waits until as many pods are Ready, and no others are left; `others` are those of before. */
export async function readyPods(
  cluster: Cluster,
  { namespace, name, replicas }: DeploymentOptions,
  others: readonly V1Pod[] = [],
  limitMs = 20_000,
): Promise<V1Pod[]> {
  const former = new Set(others.map(({ metadata }) => metadata?.uid));
  return await eventually(
    async () => {
      const pods = await podsOf(cluster, namespace, name);
      const ready = pods.filter((pod) => isReady(pod) && !former.has(pod.metadata?.uid));
      const states = pods.map((one) => `${one.metadata?.name} ${isReady(one)}`).join(', ');
      if (ready.length !== replicas || pods.length !== replicas)
        throw new Error(`expected ${replicas} new pods of ${name} that are Ready, found ${states}`);
      return pods;
    },
    { limitMs },
  );
}

function isReady({ status }: V1Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;
}

export interface Outage {
  readonly service: string;
  readonly api: string;
  /** Those behind the Service. */
  readonly backends: V1Pod[];
  /** Those that need it. */
  readonly pods: V1Pod[];
}

/** A Service without a ready endpoint, and as many pods that need it. */
export async function createOutage(cluster: Cluster, options: DeploymentOptions): Promise<Outage> {
  const { namespace, name } = options;
  const [service, api] = [`${name}-db`, `${name}-api`];
  const backends = await createDeployment(cluster, { ...options, name: service, replicas: 1 });
  await createService(cluster, namespace, service);
  const pods = await createDeployment(cluster, { ...options, name: api });
  await untilEndpoint(cluster, { namespace, service, ready: true });
  await setPodsReady(cluster, backends, false);
  await untilEndpoint(cluster, { namespace, service, ready: false });
  return { service, api, backends, pods };
}

interface Endpoint {
  readonly namespace: string;
  readonly service: string;
  readonly ready: boolean;
}

/** Waits until this is what the only endpoint of the Service is. */
export async function untilEndpoint({ api }: Cluster, { namespace, service, ready }: Endpoint): Promise<void> {
  const selector = `labelSelector=kubernetes.io%2Fservice-name%3D${service}`;
  const path = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices?${selector}`;
  await eventually(async () => {
    const { items } = await api.get<V1EndpointSliceList>(path);
    const states = items.flatMap(({ endpoints }) => (endpoints ?? []).map(({ conditions }) => conditions?.ready));
    if (states.length !== 1 || states[0] !== ready)
      throw new Error(`expected one endpoint of ${service} with ready ${ready}, found ${states.join(', ')}`);
  });
}

/** The container of the pod waits for this reason. */
export async function setWaiting({ api }: Cluster, pods: readonly V1Pod[], reason = 'CrashLoopBackOff'): Promise<void> {
  const container = { name: 'main', image: 'main', imageID: '', restartCount: 5, ready: false };
  const containerStatuses = [{ ...container, state: { waiting: { reason } } }];
  for (const pod of pods) await report(api, pod, false, { containerStatuses });
}

/** Each pod of the app waits in CrashLoopBackOff, also each new one. Returns their names, and what ends it. */
export function keepWaiting(
  cluster: Cluster,
  namespace: string,
  app: string,
): { readonly names: ReadonlySet<string>; readonly end: () => Promise<void> } {
  const names = new Set<string>();
  const end = again(async () => {
    for (const pod of await podsOf(cluster, namespace, app)) {
      const { name = '', deletionTimestamp } = pod.metadata ?? {};
      if (names.has(name) || deletionTimestamp !== undefined || pod.status?.phase !== 'Running') continue;
      names.add(name);
      // It may have been evicted since the list.
      await setWaiting(cluster, [pod]).catch(() => undefined);
    }
  }, 500);
  return { names, end };
}

/** Readiness as a kubelet reports it. */
export async function setPodsReady({ api }: Cluster, pods: readonly V1Pod[], ready: boolean): Promise<void> {
  for (const pod of pods) await report(api, pod, ready);
}

/** KWOK leaves pods that are not Ready for a reason. */
async function report(api: Cluster['api'], { metadata }: V1Pod, ready: boolean, more: object = {}): Promise<void> {
  const time = { lastTransitionTime: new Date().toISOString() };
  const conditions = ['Ready', 'ContainersReady'].map((type) =>
    ready ? { type, status: 'True', reason: null, ...time } : { type, status: 'False', reason: 'ByTest', ...time },
  );
  const path = `/api/v1/namespaces/${metadata?.namespace}/pods/${metadata?.name}/status`;
  await api.request('PATCH', path, { status: { phase: 'Running', conditions, ...more } }, STRATEGIC);
}
