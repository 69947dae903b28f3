/** A Deployment whose pods break on some nodes, as a kubelet would report it. */
import type { V1Node, V1Pod, V1PodList, V1ResourceRequirements } from '@kubernetes/client-node';
import { eventually } from '../eventually.ts';
import type { FleetContext } from './with-fleet.ts';

export type Breakage = 'crashes' | 'flaps' | 'never becomes Ready';

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
/** A pod that flaps is Ready for as long, and then crashes again. */
const FLAP_MS = 2_000;

/** Creates the Deployment, and returns when its pods are Ready. */
export async function createApp(
  { cluster: { api } }: FleetContext,
  namespace: string,
  replicas: number,
  resources: V1ResourceRequirements = {},
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
  const spec = { containers: [{ name: 'main', image: 'workload', resources }], topologySpreadConstraints };
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

export const DEVICE = 'example.com/device';

/** Sets how many devices the nodes have: one each, as their device plugins report it; none where `isLost`. */
export async function setDevices(
  { cluster: { api }, fleet }: FleetContext,
  isLost: (node: string) => boolean,
): Promise<void> {
  for (const name of fleet.nodes.keys()) {
    const count = isLost(name) ? '0' : '1';
    const path = `/api/v1/nodes/${name}`;
    const { status } = await api.get<V1Node>(path);
    if (status?.allocatable?.[DEVICE] === count) continue;
    const devices = { [DEVICE]: count };
    const patch = { status: { capacity: devices, allocatable: devices } };
    await api.request('PATCH', `${path}/status`, patch, 'application/strategic-merge-patch+json');
  }
}

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
    const runs = how === 'flaps' && Date.now() % (2 * FLAP_MS) < FLAP_MS;
    const found = { type: 'Ready', status: runs ? 'True' : 'False', reason: 'ByTest', lastTransitionTime: since };
    const running = CRASHING.map((one) => ({
      ...one,
      ready: true,
      state: { waiting: null, running: { startedAt: since } },
    }));
    const containers = how === 'never becomes Ready' ? {} : { containerStatuses: runs ? running : CRASHING };
    const status = { conditions: [found], ...containers };
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
      for (const pod of items.filter((one) => how === 'flaps' || isWhole(one)))
        await breakOne(pod).catch(() => undefined);
      await new Promise((done) => setTimeout(done, POLL_MS));
    }
  };
  const running = run();
  return async () => {
    end.abort();
    await running;
  };
}
