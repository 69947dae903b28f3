import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { CoreV1EventList } from '@kubernetes/client-node';
import { AGENT } from '../../../packages/shared/src/api/names.ts';
import { createWorkload } from '../../framework/apiserver/cluster.ts';
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
  it('gets its API pods back within 5 s', async () => {
    const down = await world.outage('example');
    await setWaiting(cluster, down.pods);
    await world.watch(down);
    await world.startReplica();
    await world.watched();
    await sleep(3_000);
    expect(await world.requests('list', 'pods')).toEqual([]);
    expect(await world.evicted()).toEqual([]);
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

  it('recovers with publishNotReadyAddresses when its endpoints serve, as all of them count as ready', async () => {
    const down = await world.outage('headless');
    await setWaiting(cluster, down.pods);
    const slices = `/apis/discovery.k8s.io/v1/namespaces/${SHOP}/endpointslices`;
    const endpoints = (serving: boolean): object => ({
      endpoints: [{ addresses: ['10.1.2.3'], conditions: { ready: true, serving } }],
    });
    const metadata = { name: 'headless-1', labels: { 'kubernetes.io/service-name': 'headless' } };
    await cluster.api.create(slices, { metadata, addressType: 'IPv4', ...endpoints(false) });
    await world.watch({ service: 'headless', api: down.api });
    await world.startReplica();
    await world.watched();
    await cluster.api.patch(`${slices}/headless-1`, endpoints(true));
    await eventually(async () => expect(await world.evicted()).toEqual(namesOf(down.pods)));
    await cluster.api.delete(`${slices}/headless-1`);
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

  it('is refused in a namespace that the chart does not have', async () => {
    const podSelectors = [{ matchLabels: { app: 'api' } }];
    await world.configure({ recovery: { services: [{ name: 'db', namespace: WEB, service: 'db', podSelectors }] } });
    await world.startReplica();
    await world.untilCondition('NamespaceNotAllowed');
    expect(await world.requests('list', 'endpointslices')).toEqual([]);
  });
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
    // The pods crash before the update of their node as well.
    const health = { podsBefore: 'Ignored' } as const;
    await world.configure({ monitoring: { healthyFor: '20s' }, recovery: { updatedNodes: 'Restart' }, health });
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
