import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { CoreV1EventList, V1Pod } from '@kubernetes/client-node';
import { AGENT } from '../../../packages/shared/src/api/names.ts';
import { createWorkload, ownerReference } from '../../framework/apiserver/cluster.ts';
import { createBudget } from '../../framework/apiserver/pods.ts';
import { openWatches } from '../../framework/audit.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import type { ControlPlane } from '../../framework/control-plane/start.ts';
import { createMember, deleteMembers, newVersion, playAgents, readShadow } from '../../framework/controller/agents.ts';
import {
  createDeployment,
  keepWaiting,
  podsOf,
  readyPods,
  setPodsReady,
  setWaiting,
  untilEndpoint,
} from '../../framework/controller/crashing.ts';
import { namesOf, Recoveries, SHOP } from '../../framework/controller/recoveries.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(180_000);

const WEB = 'web';

let world: Recoveries;
let cluster: ControlPlane;

beforeAll(async () => {
  world = await Recoveries.start();
  ({ cluster } = world);
  await cluster.api.create('/api/v1/namespaces', { metadata: { name: WEB } });
  await createWorkload(cluster, releaseNamespace, 'DaemonSet', AGENT);
  await createNode(cluster, { name: 'worker' });
});

beforeEach(async () => {
  await world.begin();
});

afterEach(async () => {
  await world.end();
});

afterAll(async () => {
  await cluster.stop();
});

describe('a Service that recovers', () => {
  it('gets its API pods back within 5 s: the example from t=0 to t=104 s', async () => {
    // t=0: the Service goes down. t=10: its API pods wait in CrashLoopBackOff.
    const down = await world.outage('example');
    await setWaiting(cluster, down.pods);
    await world.watch(down);
    await world.startReplica();
    await world.watched();
    await sleep(3_000);
    expect(await world.requests('list', 'pods')).toEqual([]);
    expect(await world.evicted()).toEqual([]);
    // t=100: the Service recovers. t=104: its API pods are back.
    await setPodsReady(cluster, down.backends, true);
    await readyPods(cluster, { namespace: SHOP, name: down.api, replicas: 2 }, down.pods, 5_000);
    expect(await world.evicted()).toEqual(namesOf(down.pods));
    const [recovery] = (await world.status())?.recovery ?? [];
    expect(recovery).toMatchObject({ kind: 'Service', name: 'db', evicted: 2 });
    const recorded = new Set(recovery?.pods?.map(({ uid }) => uid));
    expect(recorded).toEqual(new Set(down.pods.map((pod) => pod.metadata?.uid)));
    await world.untilCondition('AsConfigured');
    await eventually(async () => {
      const { items } = await cluster.api.get<CoreV1EventList>(`/api/v1/namespaces/${SHOP}/events`);
      const told = items
        .filter(({ reason }) => reason === 'EvictedAfterRecovery')
        .map((one) => one.involvedObject.name ?? '');
      expect(told.toSorted()).toEqual(namesOf(down.pods));
    });
  });

  it('leaves its pods when it was up before the first list', async () => {
    const down = await world.outage('first-list');
    await setWaiting(cluster, down.pods);
    await setPodsReady(cluster, down.backends, true);
    await untilEndpoint(cluster, { namespace: SHOP, service: down.service, ready: true });
    await world.watch(down);
    await world.startReplica();
    await world.watched();
    await sleep(6_000);
    expect(await world.evicted()).toEqual([]);
    expect(await world.requests('list', 'pods')).toEqual([]);
  });

  it('leaves pods that never recover after the window, in which each of them is evicted once', async () => {
    const down = await world.outage('never');
    const crashing = keepWaiting(cluster, SHOP, down.api);
    try {
      await world.watch(down, { watchFor: '30s', maxPerMinute: 60 });
      await world.startReplica();
      await world.watched();
      await setPodsReady(cluster, down.backends, true);
      await eventually(async () => expect((await world.status())?.recovery).toHaveLength(1));
      await eventually(async () => expect((await world.status())?.recovery).toBeUndefined(), { limitMs: 120_000 });
      const evicted = await world.evicted();
      expect(evicted).toEqual([...new Set(evicted)]);
      // Also the new ones: a list in five seconds, two pods each.
      expect(evicted.length).toBeGreaterThanOrEqual(6);
      expect(evicted.length).toBeLessThanOrEqual(14);
      await world.begin();
      await sleep(10_000);
      expect(await world.evicted()).toEqual([]);
      expect(await world.requests('list', 'pods')).toEqual([]);
      expect(await podsOf(cluster, SHOP, down.api)).toHaveLength(2);
    } finally {
      await crashing.end();
    }
  });

  it('leaves pods that wait for an image, and pods without a controller', async () => {
    const down = await world.outage('others');
    const labels = { app: down.api };
    const bare = { metadata: { name: 'others-bare', labels }, spec: { containers: [{ name: 'main', image: 'main' }] } };
    await cluster.api.create(`/api/v1/namespaces/${SHOP}/pods`, bare);
    await eventually(async () => expect(await podsOf(cluster, SHOP, down.api)).toHaveLength(3));
    await readyPods(cluster, { namespace: SHOP, name: down.api, replicas: 3 });
    const alone = (await podsOf(cluster, SHOP, down.api)).filter(({ metadata }) => metadata?.name === 'others-bare');
    await setWaiting(cluster, [...alone, ...down.pods.slice(1)]);
    await setWaiting(cluster, down.pods.slice(0, 1), 'ImagePullBackOff');
    await world.watch(down);
    await world.startReplica();
    await world.watched();
    await setPodsReady(cluster, down.backends, true);
    await eventually(async () => expect(await world.evicted()).toEqual(namesOf(down.pods.slice(1))));
    await sleep(12_000);
    expect(await world.evicted()).toEqual(namesOf(down.pods.slice(1)));
  });

  it('keeps a budget of 0, and evicts the pods when it allows it', async () => {
    const down = await world.outage('budget', { replicas: 1 });
    await createBudget(cluster, SHOP, 'budget-api', { app: down.api });
    await setWaiting(cluster, down.pods);
    await world.watch(down);
    const replica = await world.startReplica();
    await world.watched();
    await setPodsReady(cluster, down.backends, true);
    await eventually(async () => expect(await world.requests('create', 'pods/eviction')).not.toEqual([]));
    await sleep(3_000);
    const refused = await world.requests('create', 'pods/eviction');
    expect(refused.map(({ status }) => status)).toEqual([429]);
    expect(await replica.metrics()).toMatch(/recovery_evictions_total\{result="DisruptionBudget"\} 1/);
    await cluster.api.delete(`/apis/policy/v1/namespaces/${SHOP}/poddisruptionbudgets/budget-api`);
    await readyPods(cluster, { namespace: SHOP, name: down.api, replicas: 1 }, down.pods, 40_000);
    expect(await world.evicted()).toEqual(namesOf(down.pods));
  });

  it('does nothing while updates are paused', async () => {
    const down = await world.outage('paused');
    await setWaiting(cluster, down.pods);
    await world.watch(down, {}, { paused: true });
    await world.startReplica();
    await world.watched();
    await setPodsReady(cluster, down.backends, true);
    await sleep(7_000);
    expect(await world.requests('create', 'pods/eviction')).toEqual([]);
    expect((await world.status())?.recovery).toBeUndefined();
    await world.watch(down, {}, { paused: false });
    await eventually(async () => expect(await world.evicted()).toEqual(namesOf(down.pods)));
  });

  it('again and again costs one list in five seconds, and one write in half a minute', async () => {
    const down = await world.outage('flapping');
    await world.watch(down);
    const replica = await world.startReplica();
    await world.watched();
    const startedAt = performance.now();
    for (let turn = 0; turn < 20; turn += 1) {
      const ready = turn % 2 === 0;
      await setPodsReady(cluster, down.backends, ready);
      await untilEndpoint(cluster, { namespace: SHOP, service: down.service, ready });
      await sleep(600);
    }
    const seconds = (performance.now() - startedAt) / 1000;
    expect((await world.requests('list', 'pods')).length).toBeLessThanOrEqual(1 + seconds / 5);
    expect(await replica.metrics()).toMatch(
      new RegExp(
        `brupop_controller_writes_total\\{kind="recovery_status",result="ok"\\} [1-${1 + Math.floor(seconds / 30)}]$`,
        'm',
      ),
    );
  });

  it('waits while too many others have just recovered, with the reason', async () => {
    const down = await world.outage('too-many');
    await setWaiting(cluster, down.pods);
    await world.watch(down, { updatedNodes: 'Restart' });
    const [startTime, endTime] = [0, 30_000].map((ms) => new Date(Date.now() + ms).toISOString());
    const windows = Array.from({ length: 50 }, (_, index) => ({ kind: 'Node', name: `node-${index}`, evicted: 0 }));
    await world.record(windows.map((one) => ({ ...one, startTime, endTime })));
    await world.startReplica();
    await world.watched();
    await setPodsReady(cluster, down.backends, true);
    expect(await world.untilCondition('EvictionsBlocked')).toContain('Service db: too many recoveries at once');
    expect(await world.evicted()).toEqual([]);
    await eventually(async () => expect(await world.evicted()).toEqual(namesOf(down.pods)), { limitMs: 60_000 });
    await world.untilCondition('AsConfigured');
  });

  it('is unknown while it has more than 1,000 EndpointSlices, with the reason', async () => {
    const service = 'wide';
    const slices = `/apis/discovery.k8s.io/v1/namespaces/${SHOP}/endpointslices`;
    const create = async (name: string, ready: boolean): Promise<unknown> =>
      await cluster.api.create(slices, {
        metadata: { name, labels: { 'kubernetes.io/service-name': service } },
        addressType: 'IPv4',
        endpoints: [{ addresses: ['10.1.2.3'], conditions: { ready } }],
      });
    const names = Array.from({ length: 1_000 }, (_, index) => `wide-${index}`);
    const queue = names.values();
    const worker = async (): Promise<void> => {
      for (const name of queue) await create(name, false);
    };
    await Promise.all(Array.from({ length: 20 }, worker));
    await world.watch({ service, api: 'wide' });
    await world.startReplica();
    await world.watched();
    await world.untilCondition('AsConfigured');
    await create('wide-beyond', false);
    const path = `${slices}/wide-0`;
    await cluster.api.patch(path, { endpoints: [{ addresses: ['10.1.2.3'], conditions: { ready: true } }] });
    await sleep(3_000);
    expect((await world.status())?.recovery).toBeUndefined();
    expect(await world.requests('list', 'pods')).toEqual([]);
    expect(await world.untilCondition('ServiceNotWatched', 90_000)).toContain('more than 1000: db');
    await cluster.api.delete(`${slices}?labelSelector=kubernetes.io%2Fservice-name%3D${service}`);
  });

  it('is refused in a namespace that the chart does not have', async () => {
    const podSelectors = [{ matchLabels: { app: 'api' } }];
    await world.configure({ recovery: { services: [{ name: 'db', namespace: WEB, service: 'db', podSelectors }] } });
    await world.startReplica();
    await world.untilCondition('NamespaceNotAllowed');
    expect(await world.requests('list', 'endpointslices')).toEqual([]);
  });
});

it('of 5,000 pods that a selector selects, ten are evicted in a minute, and lists are read in pages', async () => {
  const down = await world.outage('many', { replicas: 1 });
  await createWorkload(cluster, SHOP, 'ReplicaSet', 'many');
  const ownerReferences = [await ownerReference(cluster, SHOP, 'ReplicaSet', 'many')];
  const names = Array.from({ length: 5_000 }, (_, index) => `many-${String(index).padStart(4, '0')}`);
  const queue = names.values();
  const create = async (): Promise<void> => {
    for (const name of queue)
      await cluster.api.create(`/api/v1/namespaces/${SHOP}/pods`, {
        metadata: { name, labels: { app: 'many' }, ownerReferences },
        spec: { schedulerName: 'none', containers: [{ name: 'main', image: 'main' }] },
      });
  };
  await Promise.all(Array.from({ length: 20 }, create));
  const crashing = names.slice(0, 40).map((name): V1Pod => ({ metadata: { name, namespace: SHOP } }));
  await setWaiting(cluster, crashing);
  await world.watch({ service: down.service, api: 'many' });
  await world.startReplica();
  await world.watched();
  await world.begin();
  await setPodsReady(cluster, down.backends, true);
  await eventually(async () => expect(await world.evicted()).toHaveLength(10));
  const pages = (await world.requests('list', 'pods')).length;
  expect(pages).toBeGreaterThanOrEqual(10);
  expect(pages).toBeLessThanOrEqual(12);
  await sleep(40_000);
  expect(await world.evicted()).toHaveLength(10);
  expect(await world.requests('list', 'pods')).toHaveLength(pages);
  await eventually(async () => expect(await world.evicted()).toHaveLength(20), { limitMs: 60_000 });
});

describe('a node that is back after its update', () => {
  it('gets the pods on it restarted that wait in CrashLoopBackOff, in the namespaces of the chart', async () => {
    await createMember(cluster, 'updated');
    const nodeSelector = { 'kubernetes.io/hostname': 'updated' };
    const [inShop, inWeb] = [
      await createDeployment(cluster, { namespace: SHOP, name: 'on-node', replicas: 2, nodeSelector }),
      await createDeployment(cluster, { namespace: WEB, name: 'on-node', replicas: 1, nodeSelector }),
    ];
    await setWaiting(cluster, [...inShop, ...inWeb]);
    await world.configure({ monitoring: { healthyFor: '20s' }, recovery: { updatedNodes: 'Restart' } });
    await world.startReplica();
    const agents = playAgents(cluster);
    try {
      await readyPods(cluster, { namespace: SHOP, name: 'on-node', replicas: 2 }, inShop, 30_000);
      expect((await readShadow(cluster, 'updated')).spec).toMatchObject({
        state: 'MonitoringUpdate',
        version: newVersion,
      });
    } finally {
      await agents.stop();
    }
    expect(await world.evicted()).toEqual(namesOf(inShop));
    expect((await world.status())?.recovery).toMatchObject([{ kind: 'Node', name: 'updated', evicted: 2 }]);
    await deleteMembers(cluster, ['updated']);
  });
});

it('without recovery there is no watch, no list and no condition', async () => {
  await world.configure({});
  await world.startReplica();
  await sleep(2_000);
  expect((await openWatches(cluster.auditLogPath, releaseNamespace)).map(({ resource }) => resource)).not.toContain(
    'endpointslices',
  );
  expect(await world.requests('list', 'pods')).toEqual([]);
  expect((await world.status())?.conditions?.map(({ type }) => type)).not.toContain('RecoveryReady');
});
