/**
 * What a user with the role edit in a namespace can make the operator evict after recoveries: the user makes a Service
 * recover again and again, and all pods crash.
 */
import { jest } from '@jest/globals';
import type { V1Pod } from '@kubernetes/client-node';
import { again } from '../../framework/again.ts';
import type { Api } from '../../framework/control-plane/api.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import type { ControlPlane } from '../../framework/control-plane/start.ts';
import {
  createDeployment,
  keepWaiting,
  podsOf,
  setPodsReady,
  setWaiting,
  untilEndpoint,
} from '../../framework/controller/crashing.ts';
import { namesOf, Recoveries, SHOP } from '../../framework/controller/recoveries.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(300_000);

const WEB = 'web';
const MINUTE = 60_000;
const PER_MINUTE = 4;

let world: Recoveries;
let cluster: ControlPlane;
let user: Api;

beforeAll(async () => {
  world = await Recoveries.start();
  ({ cluster } = world);
  await cluster.api.create('/api/v1/namespaces', { metadata: { name: WEB } });
  await createNode(cluster, { name: 'worker' });
  user = await createEditor();
});

afterAll(async () => {
  await world.end();
  await cluster.stop();
});

async function createEditor(): Promise<Api> {
  const accounts = `/api/v1/namespaces/${SHOP}/serviceaccounts`;
  await cluster.api.create(accounts, { metadata: { name: 'editor' } });
  await cluster.api.create(`/apis/rbac.authorization.k8s.io/v1/namespaces/${SHOP}/rolebindings`, {
    metadata: { name: 'editor' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'edit' },
    subjects: [{ kind: 'ServiceAccount', name: 'editor', namespace: SHOP }],
  });
  const { status } = await cluster.api.create<{ status: { token: string } }>(`${accounts}/editor/token`, { spec: {} });
  return cluster.api.as(status.token);
}

async function evictionTimes(): Promise<number[]> {
  const requests = await world.requests('create', 'pods/eviction');
  return requests.map(({ at }) => Date.parse(at)).toSorted((a, b) => a - b);
}

/** How many of the times are within one minute, at most. */
function mostInAMinute(times: readonly number[]): number {
  return Math.max(0, ...times.map((from) => times.filter((at) => at >= from && at < from + MINUTE).length));
}

it('an editor of a namespace gets maxPerMinute of the selected pods evicted in any minute, and no other pod', async () => {
  await world.begin();
  const down = await world.outage('db', { replicas: 8 });
  const others = [
    await createDeployment(cluster, { namespace: SHOP, name: 'other', replicas: 2 }),
    await createDeployment(cluster, { namespace: WEB, name: down.api, replicas: 2 }),
  ];
  await setWaiting(cluster, others.flat());
  await setPodsReady(cluster, down.backends, true);
  await untilEndpoint(cluster, { namespace: SHOP, service: down.service, ready: true });
  await world.watch(down, { watchFor: '30s', maxPerMinute: PER_MINUTE });
  const leader = await world.startReplica();
  await world.watched();
  const selected = keepWaiting(cluster, SHOP, down.api);
  const service = `/api/v1/namespaces/${SHOP}/services/${down.service}`;
  const stopFlapping = again(async (count) => {
    await user.patch(service, { spec: { selector: { app: count % 2 === 0 ? 'none' : down.service } } });
  }, 700);
  await eventually(async () => expect(await evictionTimes()).toHaveLength(PER_MINUTE), { limitMs: 30_000 });
  // The next one has only what is on record.
  await leader.stop();
  await world.startReplica();
  await eventually(async () => expect((await evictionTimes()).length).toBeGreaterThan(2 * PER_MINUTE), {
    limitMs: 200_000,
    pauseMs: 500,
  });
  await Promise.all([stopFlapping(), selected.end()]);
  expect(mostInAMinute(await evictionTimes())).toBe(PER_MINUTE);
  const evicted = await world.evicted();
  expect(evicted).toEqual([...new Set(evicted)]);
  expect(evicted.filter((name) => !selected.names.has(name))).toEqual([]);
  for (const [namespace, app] of [
    [SHOP, 'other'],
    [WEB, down.api],
  ] as const)
    expect(namesOf(await podsOf(cluster, namespace, app))).toEqual(namesOf(others.flat().filter(isOf(namespace, app))));
});

function isOf(namespace: string, app: string): (pod: V1Pod) => boolean {
  return ({ metadata }) => metadata?.namespace === namespace && metadata.labels?.['app'] === app;
}

it('neither endpoints nor the record of evictions can be written with the role edit', async () => {
  const slices = `/apis/discovery.k8s.io/v1/namespaces/${SHOP}/endpointslices`;
  const metadata = { name: 'forged', labels: { 'kubernetes.io/service-name': 'db' } };
  await expect(user.create(slices, { metadata, addressType: 'IPv4', endpoints: [] })).rejects.toMatchObject({
    status: 403,
  });
  const config = '/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs/cluster/status';
  await expect(user.patch(config, { status: { recovery: null } })).rejects.toMatchObject({ status: 403 });
});
