/** What recoveries cost with many pods, many EndpointSlices and a Service that flaps; and an example at its own times. */
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { V1Pod } from '@kubernetes/client-node';
import { createWorkload, ownerReference } from '../../framework/apiserver/cluster.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import type { ControlPlane } from '../../framework/control-plane/start.ts';
import { readyPods, setPodsReady, setWaiting, untilEndpoint } from '../../framework/controller/crashing.ts';
import { namesOf, Recoveries, SHOP } from '../../framework/controller/recoveries.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(300_000);

let world: Recoveries;
let cluster: ControlPlane;

beforeAll(async () => {
  world = await Recoveries.start();
  ({ cluster } = world);
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

it('a Service that is down from t=0 to t=100 s has its API pods back at t=104 s', async () => {
  const startedAt = performance.now();
  const until = async (seconds: number): Promise<void> =>
    await sleep(Math.max(0, startedAt + seconds * 1_000 - performance.now()));
  const down = await world.outage('example');
  await world.watch(down);
  await world.startReplica();
  await world.watched();
  await until(10);
  await setWaiting(cluster, down.pods);
  await until(100);
  expect(await world.requests('list', 'pods')).toEqual([]);
  expect(await world.evicted()).toEqual([]);
  await setPodsReady(cluster, down.backends, true);
  await readyPods(cluster, { namespace: SHOP, name: down.api, replicas: 2 }, down.pods, 5_000);
  expect(await world.evicted()).toEqual(namesOf(down.pods));
});

it('a Service that recovers again and again costs one list in five seconds, and one write in half a minute', async () => {
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

it('a Service that recovers waits while too many others have just recovered, with the reason', async () => {
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

it('a Service is unknown while it has more than 1,000 EndpointSlices, with the reason', async () => {
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
