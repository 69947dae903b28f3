/** A Deployment whose pods break on some nodes, as a kubelet would report it. */
import type { V1Pod, V1PodList } from '@kubernetes/client-node';
import { eventually } from '../eventually.ts';
import type { FleetContext } from './with-fleet.ts';

export type Breakage = 'crashes' | 'never becomes Ready';

const CRASHING = [
  {
    name: 'main',
    ready: false,
    restartCount: 3,
    image: 'workload',
    imageID: '',
    state: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off restarting failed container' } },
  },
];
const POLL_MS = 100;

/** Creates the Deployment, and returns when its pods are Ready. */
export async function createApp(
  { cluster: { api } }: FleetContext,
  namespace: string,
  replicas: number,
): Promise<void> {
  const path = `/apis/apps/v1/namespaces/${namespace}/deployments`;
  const labels = { app: 'app' };
  const topologySpreadConstraints = [
    {
      maxSkew: 1,
      topologyKey: 'kubernetes.io/hostname',
      whenUnsatisfiable: 'ScheduleAnyway',
      labelSelector: { matchLabels: labels },
    },
  ];
  const spec = { containers: [{ name: 'main', image: 'workload' }], topologySpreadConstraints };
  const template = { metadata: { labels }, spec };
  await api.create(path, {
    metadata: { name: 'app' },
    spec: { replicas, selector: { matchLabels: labels }, template },
  });
  await eventually(async () => {
    const { status } = await api.get<{ status?: { readyReplicas?: number } }>(`${path}/app`);
    if (status?.readyReplicas !== replicas)
      throw new Error(`${path}/app: expected ${replicas} Ready, found ${status?.readyReplicas}`);
  });
}

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly message: string;
}

const CONFIG = '/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs/cluster';

/** Returns the condition of this type of the BrupopConfig when it is True. */
export async function untilTrue({ cluster: { api } }: FleetContext, wanted: string): Promise<Condition> {
  return await eventually(
    async () => {
      const { status } = await api.get<{ status?: { conditions?: readonly Condition[] } }>(CONFIG);
      const found = status?.conditions?.find(({ type }) => type === wanted);
      if (found?.status !== 'True')
        throw new Error(`expected the condition ${wanted}, found ${JSON.stringify(status)}`);
      return found;
    },
    { limitMs: 400_000, pauseMs: 250 },
  );
}

/** The versions that were held at any time, as the status remembers them for an hour. */
export async function heldVersions({ cluster: { api } }: FleetContext): Promise<string[]> {
  const { status } = await api.get<{ status?: { heldVersions?: readonly { version: string }[] } }>(CONFIG);
  return (status?.heldVersions ?? []).map(({ version }) => version);
}

/** The nodes whose hosts were rebooted. */
export function rebooted({ fleet }: FleetContext): string[] {
  return [...fleet.nodes].flatMap(([name, { host }]) => (host.reboots > 0 ? [name] : []));
}

const isWhole = ({ status }: V1Pod): boolean =>
  status?.conditions?.some(({ type, status: found }) => type === 'Ready' && found === 'True') === true;

/** Breaks the pods of the Deployment on the nodes for which `isBroken` is true. Returns what stops it. */
export function breakApp(
  { cluster: { api } }: FleetContext,
  namespace: string,
  how: Breakage,
  isBroken: (node: string) => boolean,
): () => Promise<void> {
  const end = new AbortController();
  const list = `/api/v1/namespaces/${namespace}/pods`;
  const breakOne = async ({ metadata, spec }: V1Pod): Promise<void> => {
    const since = new Date().toISOString();
    const conditions = [{ type: 'Ready', status: 'False', reason: 'ByTest', lastTransitionTime: since }];
    const status = { conditions, ...(how === 'crashes' && { containerStatuses: CRASHING }) };
    if (spec?.nodeName === undefined || !isBroken(spec.nodeName)) return;
    await api.request(
      'PATCH',
      `${list}/${metadata?.name}/status`,
      { status },
      'application/strategic-merge-patch+json',
    );
  };
  const run = async (): Promise<void> => {
    while (!end.signal.aborted) {
      const { items } = await api.get<V1PodList>(`${list}?labelSelector=app%3Dapp`);
      for (const pod of items.filter(isWhole)) await breakOne(pod).catch(() => undefined);
      await new Promise((done) => setTimeout(done, POLL_MS));
    }
  };
  const running = run();
  return async () => {
    end.abort();
    await running;
  };
}
