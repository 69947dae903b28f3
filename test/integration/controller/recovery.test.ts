import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { CoreV1EventList, V1EndpointSliceList, V1Pod } from '@kubernetes/client-node';
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import { AGENT, CONFIG_NAME, CONFIG_PLURAL, CONFIG_VERSION, GROUP } from '../../../packages/shared/src/api/names.ts';
import { createWorkload, ownerReference } from '../../framework/apiserver/cluster.ts';
import { createBudget } from '../../framework/apiserver/pods.ts';
import { type AuditedRequest, auditPosition, openWatches, operatorRequests } from '../../framework/audit.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { createMember, deleteMembers, newVersion, playAgents, readShadow } from '../../framework/controller/agents.ts';
import {
  createDeployment,
  createService,
  podsOf,
  readyPods,
  setPodsReady,
  setWaiting,
} from '../../framework/controller/crashing.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(180_000);

const configs = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}`;
const shop = 'shop';
const web = 'web';
type Recovery = NonNullable<BrupopConfig['spec']['recovery']>;

let cluster: ControlPlane;
let serviceAccountDir = '';
let position = 0;
const replicas: Replica[] = [];

beforeAll(async () => {
  cluster = await startControlPlane();
  for (const name of [shop, web]) await cluster.api.create('/api/v1/namespaces', { metadata: { name } });
  serviceAccountDir = await installForController(cluster, '--set', `recovery.namespaces={${shop}}`);
  await createWorkload(cluster, releaseNamespace, 'DaemonSet', AGENT);
  await createNode(cluster, { name: 'worker' });
});

beforeEach(async () => {
  position = await auditPosition(cluster.auditLogPath);
});

afterEach(async () => {
  await Promise.all(replicas.splice(0).map((replica) => replica.stop()));
  await cluster.api.delete(`${configs}/${CONFIG_NAME}`);
});

afterAll(async () => {
  await cluster.stop();
});

async function start(): Promise<Replica> {
  const replica = await startReplica(cluster, serviceAccountDir, { recoveryNamespaces: [shop] });
  replicas.push(replica);
  return replica;
}

async function configure(spec: BrupopConfig['spec']): Promise<void> {
  const resource = { apiVersion: `${GROUP}/${CONFIG_VERSION}`, kind: 'BrupopConfig' };
  const body = { ...resource, metadata: { name: CONFIG_NAME }, spec: { monitoring: { healthyFor: '0s' }, ...spec } };
  const path = `${configs}/${CONFIG_NAME}?fieldManager=user&force=true`;
  await cluster.api.request('PATCH', path, body, 'application/apply-patch+yaml');
}

async function statusOf(): Promise<BrupopConfig['status']> {
  return (await cluster.api.get<BrupopConfig>(`${configs}/${CONFIG_NAME}`)).status;
}

async function waitForCondition(reason: string): Promise<void> {
  await eventually(async () => {
    const condition = (await statusOf())?.conditions?.find(({ type }) => type === 'RecoveryReady');
    expect(condition?.reason).toBe(reason);
  });
}

async function requests(verb: string, resource: string): Promise<AuditedRequest[]> {
  const all = await operatorRequests(cluster.auditLogPath, releaseNamespace, position);
  return all.filter((one) => one.verb === verb && one.resource === resource);
}

/** Names of pods whose eviction was accepted, as often as it was. */
async function evicted(): Promise<string[]> {
  const found = (await requests('create', 'pods/eviction')).filter(({ status }) => status === 201);
  return found.map(({ name }) => name).toSorted();
}

const namesOf = (pods: readonly V1Pod[]): string[] => pods.map(({ metadata }) => metadata?.name ?? '').toSorted();

interface Pair {
  readonly service: string;
  readonly api: string;
  /** Those behind the Service. */
  readonly backends: V1Pod[];
  /** Those that need it. */
  readonly pods: V1Pod[];
}

/** A Service that is down, and pods that need it. */
async function outage(name: string, replicas = 2): Promise<Pair> {
  const [service, api] = [`${name}-db`, `${name}-api`];
  const backends = await createDeployment(cluster, { namespace: shop, name: service, replicas: 1 });
  await createService(cluster, shop, service);
  const pods = await createDeployment(cluster, { namespace: shop, name: api, replicas });
  await waitForEndpoint(service, true);
  await setPodsReady(cluster, backends, false);
  await waitForEndpoint(service, false);
  return { service, api, backends, pods };
}

async function waitForEndpoint(service: string, ready: boolean): Promise<void> {
  const selector = `labelSelector=kubernetes.io%2Fservice-name%3D${service}`;
  const path = `/apis/discovery.k8s.io/v1/namespaces/${shop}/endpointslices?${selector}`;
  await eventually(async () => {
    const { items } = await cluster.api.get<V1EndpointSliceList>(path);
    const states = items.flatMap(({ endpoints }) => (endpoints ?? []).map(({ conditions }) => conditions?.ready));
    expect(states).toEqual([ready]);
  });
}

async function watch({ service, api }: Pick<Pair, 'service' | 'api'>, more: Partial<Recovery> = {}): Promise<void> {
  const podSelectors = [{ matchLabels: { app: api } }];
  await configure({ recovery: { services: [{ name: 'db', namespace: shop, service, podSelectors }], ...more } });
}

/** When the watch of the Service is open, so that the first list is past. */
async function watched(): Promise<void> {
  await eventually(async () => expect(await requests('watch', 'endpointslices')).toHaveLength(1));
}

describe('a Service that recovers', () => {
  it('gets its API pods back within 5 s: the example from t=0 to t=104 s', async () => {
    // t=0: the Service goes down. t=10: its API pods wait in CrashLoopBackOff.
    const down = await outage('example');
    await setWaiting(cluster, down.pods);
    await watch(down);
    await start();
    await watched();
    await sleep(3_000);
    expect(await requests('list', 'pods')).toEqual([]);
    expect(await evicted()).toEqual([]);
    // t=100: the Service recovers. t=104: its API pods are back.
    await setPodsReady(cluster, down.backends, true);
    await readyPods(cluster, { namespace: shop, name: down.api, replicas: 2 }, down.pods, 5_000);
    expect(await evicted()).toEqual(namesOf(down.pods));
    const [recovery] = (await statusOf())?.recovery ?? [];
    expect(recovery).toMatchObject({ kind: 'Service', name: 'db', evicted: 2 });
    const recorded = new Set(recovery?.pods?.map(({ uid }) => uid));
    expect(recorded).toEqual(new Set(down.pods.map((pod) => pod.metadata?.uid)));
    await waitForCondition('AsConfigured');
    await eventually(async () => {
      const { items } = await cluster.api.get<CoreV1EventList>(`/api/v1/namespaces/${shop}/events`);
      const told = items
        .filter(({ reason }) => reason === 'EvictedAfterRecovery')
        .map((one) => one.involvedObject.name ?? '');
      expect(told.toSorted()).toEqual(namesOf(down.pods));
    });
  });

  it('leaves its pods when it was up before the first list', async () => {
    const down = await outage('first-list');
    await setWaiting(cluster, down.pods);
    await setPodsReady(cluster, down.backends, true);
    await waitForEndpoint(down.service, true);
    await watch(down);
    await start();
    await watched();
    await sleep(6_000);
    expect(await evicted()).toEqual([]);
    expect(await requests('list', 'pods')).toEqual([]);
  });

  it('leaves pods that crash after the window', async () => {
    const down = await outage('never');
    await watch(down, { watchFor: '30s' });
    await start();
    await watched();
    await setPodsReady(cluster, down.backends, true);
    await eventually(async () => expect((await statusOf())?.recovery).toHaveLength(1));
    await eventually(async () => expect((await statusOf())?.recovery).toBeUndefined(), { limitMs: 60_000 });
    position = await auditPosition(cluster.auditLogPath);
    await setWaiting(cluster, down.pods);
    await sleep(10_000);
    expect(await evicted()).toEqual([]);
    expect(await requests('list', 'pods')).toEqual([]);
  });

  it('leaves pods that wait for an image, and pods without a controller', async () => {
    const down = await outage('others');
    const labels = { app: down.api };
    const bare = { metadata: { name: 'others-bare', labels }, spec: { containers: [{ name: 'main', image: 'main' }] } };
    await cluster.api.create(`/api/v1/namespaces/${shop}/pods`, bare);
    await eventually(async () => expect(await podsOf(cluster, shop, down.api)).toHaveLength(3));
    await readyPods(cluster, { namespace: shop, name: down.api, replicas: 3 });
    const alone = (await podsOf(cluster, shop, down.api)).filter(({ metadata }) => metadata?.name === 'others-bare');
    await setWaiting(cluster, [...alone, ...down.pods.slice(1)]);
    await setWaiting(cluster, down.pods.slice(0, 1), 'ImagePullBackOff');
    await watch(down);
    await start();
    await watched();
    await setPodsReady(cluster, down.backends, true);
    await eventually(async () => expect(await evicted()).toEqual(namesOf(down.pods.slice(1))));
    await sleep(12_000);
    expect(await evicted()).toEqual(namesOf(down.pods.slice(1)));
  });

  it('keeps a budget of 0, and evicts the pods when it allows it', async () => {
    const down = await outage('budget', 1);
    await createBudget(cluster, shop, 'budget-api', { app: down.api });
    await setWaiting(cluster, down.pods);
    await watch(down);
    const replica = await start();
    await watched();
    await setPodsReady(cluster, down.backends, true);
    await eventually(async () => expect(await requests('create', 'pods/eviction')).not.toEqual([]));
    await sleep(3_000);
    const refused = await requests('create', 'pods/eviction');
    expect(refused.map(({ status }) => status)).toEqual([429]);
    expect(await replica.metrics()).toMatch(/recovery_evictions_total\{result="DisruptionBudget"\} 1/);
    await cluster.api.delete(`/apis/policy/v1/namespaces/${shop}/poddisruptionbudgets/budget-api`);
    await readyPods(cluster, { namespace: shop, name: down.api, replicas: 1 }, down.pods, 40_000);
    expect(await evicted()).toEqual(namesOf(down.pods));
  });

  it('evicts no pod twice when the leader stops meanwhile', async () => {
    const down = await outage('leader', 6);
    await setWaiting(cluster, down.pods);
    await watch(down, { maxPerMinute: 4 });
    const first = await start();
    await watched();
    await start();
    await setPodsReady(cluster, down.backends, true);
    const recorded = await eventually(async () => {
      const pods = (await statusOf())?.recovery?.[0]?.pods ?? [];
      expect(pods).not.toEqual([]);
      return pods.map(({ uid }) => uid);
    });
    await first.stop();
    // Of the recorded ones, the first leader may have left some to kubelet.
    const left = namesOf(down.pods.filter(({ metadata }) => !recorded.includes(metadata?.uid ?? '')));
    expect(left).toHaveLength(2);
    await eventually(async () => expect(await evicted()).toEqual(expect.arrayContaining(left)), {
      limitMs: 100_000,
      pauseMs: 500,
    });
    const names = await evicted();
    expect(names).toEqual([...new Set(names)]);
  });

  it('does nothing while updates are paused', async () => {
    const down = await outage('paused');
    await setWaiting(cluster, down.pods);
    const services = [
      { name: 'db', namespace: shop, service: down.service, podSelectors: [{ matchLabels: { app: down.api } }] },
    ];
    await configure({ paused: true, recovery: { services } });
    await start();
    await watched();
    await setPodsReady(cluster, down.backends, true);
    await sleep(7_000);
    expect(await requests('create', 'pods/eviction')).toEqual([]);
    expect((await statusOf())?.recovery).toBeUndefined();
    await configure({ paused: false, recovery: { services } });
    await eventually(async () => expect(await evicted()).toEqual(namesOf(down.pods)));
  });

  it('is refused in a namespace that the chart does not have', async () => {
    const podSelectors = [{ matchLabels: { app: 'api' } }];
    await configure({ recovery: { services: [{ name: 'db', namespace: web, service: 'db', podSelectors }] } });
    await start();
    await waitForCondition('NamespaceNotAllowed');
    expect(await requests('list', 'endpointslices')).toEqual([]);
  });
});

it('of 5,000 pods that a selector selects, ten are evicted in a minute, and lists are read in pages', async () => {
  const down = await outage('many', 1);
  await createWorkload(cluster, shop, 'ReplicaSet', 'many');
  const ownerReferences = [await ownerReference(cluster, shop, 'ReplicaSet', 'many')];
  const names = Array.from({ length: 5_000 }, (_, index) => `many-${String(index).padStart(4, '0')}`);
  const queue = names.values();
  const create = async (): Promise<void> => {
    for (const name of queue)
      await cluster.api.create(`/api/v1/namespaces/${shop}/pods`, {
        metadata: { name, labels: { app: 'many' }, ownerReferences },
        spec: { schedulerName: 'none', containers: [{ name: 'main', image: 'main' }] },
      });
  };
  await Promise.all(Array.from({ length: 20 }, create));
  const crashing = names.slice(0, 40).map((name): V1Pod => ({ metadata: { name, namespace: shop } }));
  await setWaiting(cluster, crashing);
  await watch({ service: down.service, api: 'many' });
  await start();
  await watched();
  position = await auditPosition(cluster.auditLogPath);
  await setPodsReady(cluster, down.backends, true);
  await eventually(async () => expect(await evicted()).toHaveLength(10));
  const pages = (await requests('list', 'pods')).length;
  expect(pages).toBeGreaterThanOrEqual(10);
  expect(pages).toBeLessThanOrEqual(12);
  await sleep(40_000);
  expect(await evicted()).toHaveLength(10);
  expect(await requests('list', 'pods')).toHaveLength(pages);
  await eventually(async () => expect(await evicted()).toHaveLength(20), { limitMs: 60_000 });
});

describe('a node that is back after its update', () => {
  it('gets the pods on it restarted that wait in CrashLoopBackOff, in the namespaces of the chart', async () => {
    await createMember(cluster, 'updated');
    const nodeSelector = { 'kubernetes.io/hostname': 'updated' };
    const [inShop, inWeb] = [
      await createDeployment(cluster, { namespace: shop, name: 'on-node', replicas: 2, nodeSelector }),
      await createDeployment(cluster, { namespace: web, name: 'on-node', replicas: 1, nodeSelector }),
    ];
    await setWaiting(cluster, [...inShop, ...inWeb]);
    await configure({ monitoring: { healthyFor: '20s' }, recovery: { updatedNodes: 'Restart' } });
    await start();
    const agents = playAgents(cluster);
    try {
      await readyPods(cluster, { namespace: shop, name: 'on-node', replicas: 2 }, inShop, 30_000);
      expect((await readShadow(cluster, 'updated')).spec).toMatchObject({
        state: 'MonitoringUpdate',
        version: newVersion,
      });
    } finally {
      await agents.stop();
    }
    expect(await evicted()).toEqual(namesOf(inShop));
    expect((await statusOf())?.recovery).toMatchObject([{ kind: 'Node', name: 'updated', evicted: 2 }]);
    await deleteMembers(cluster, ['updated']);
  });
});

it('without recovery there is no watch, no list and no condition', async () => {
  await configure({});
  await start();
  await sleep(2_000);
  expect((await openWatches(cluster.auditLogPath, releaseNamespace)).map(({ resource }) => resource)).not.toContain(
    'endpointslices',
  );
  expect(await requests('list', 'pods')).toEqual([]);
  expect((await statusOf())?.conditions?.map(({ type }) => type)).not.toContain('RecoveryReady');
});
