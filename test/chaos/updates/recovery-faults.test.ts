/** Recovery when the leader ends, or connectivity is lost, in a cluster with managed nodes in two zones. */
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { V1Node, V1Pod } from '@kubernetes/client-node';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import type { ControlPlane } from '../../framework/control-plane/start.ts';
import { CUT_OFF_ANNOTATION } from '../../framework/control-plane/node-leases.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { managedLabel } from '../../framework/controller/agents.ts';
import { createDeployment, setPodsReady, setWaiting } from '../../framework/controller/crashing.ts';
import { spawnController } from '../../framework/controller/process.ts';
import { namesOf, Recoveries, SHOP } from '../../framework/controller/recoveries.ts';
import { eventually } from '../../framework/eventually.ts';
import { presentCredentials } from '../../framework/faulty-api/access.ts';
import { FaultyApi } from '../../framework/faulty-api/faulty-api.ts';
import { startWatchdog, type Watchdog } from '../../framework/watchdog.ts';

jest.setTimeout(240_000);

const ZONE_A = ['a-1', 'a-2'];
const ZONE_B = ['b-1', 'b-2', 'b-3'];
const NODES = [...ZONE_A, ...ZONE_B];
/** A Lease expires after 18 s; the three nodes of zone b are 60 % of the fleet. */
const SPEC: BrupopConfigSpec = { connectivity: { nodeMonitorGracePeriod: '24s', expiredPercent: 80 } };
const LOSS = { limitMs: 120_000, pauseMs: 250 };
const hostname = 'kubernetes.io/hostname';
const [onWorker, onA, onB] = ['worker', 'a-1', 'b-1'].map((name) => ({ nodeSelector: { [hostname]: name } }));

let world: Recoveries;
let cluster: ControlPlane;

beforeAll(async () => {
  world = await Recoveries.start();
  ({ cluster } = world);
  await createNode(cluster, { name: 'worker' });
  for (const name of NODES) await createNode(cluster, { name, zone: name.charAt(0), labels: managedLabel });
});

beforeEach(async () => {
  await world.begin();
});

afterEach(async () => {
  await cut([]);
  await world.end();
});

afterAll(async () => {
  await cluster.stop();
});

/** Exactly these nodes stop renewing their Leases. */
async function cut(names: readonly string[]): Promise<void> {
  for (const name of NODES) {
    const annotations = { [CUT_OFF_ANNOTATION]: names.includes(name) ? 'true' : null };
    await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata: { annotations } });
  }
}

/** Leases count when their nodes are older than a minute. */
async function untilNodesCount(): Promise<void> {
  await eventually(async () => {
    for (const name of NODES) {
      const { metadata } = await cluster.api.get<V1Node>(`/api/v1/nodes/${name}`);
      const ageMs = Date.now() - new Date(metadata?.creationTimestamp ?? 0).getTime();
      if (ageMs < 61_000) throw new Error('the nodes are too young');
    }
  }, LOSS);
}

const uidsOf = (pods: readonly V1Pod[]): string[] => pods.map(({ metadata }) => metadata?.uid ?? '').toSorted();

/** The UIDs on record, when there are some. */
async function recorded(): Promise<string[]> {
  return await eventually(async () => {
    const pods = (await world.status())?.recovery?.[0]?.pods ?? [];
    expect(pods).not.toEqual([]);
    return pods.map(({ uid }) => uid).toSorted();
  });
}

it('evicts no pod twice when the leader stops meanwhile', async () => {
  const down = await world.outage('leader', { replicas: 6 });
  await setWaiting(cluster, down.pods);
  await world.watch(down, { maxPerMinute: 4 });
  const first = await world.startReplica();
  await world.watched();
  await world.startReplica();
  await setPodsReady(cluster, down.backends, true);
  const known = await recorded();
  await first.stop();
  // Of the recorded ones, the first leader may have left some to kubelet.
  const left = namesOf(down.pods.filter(({ metadata }) => !known.includes(metadata?.uid ?? '')));
  expect(left).toHaveLength(2);
  await eventually(async () => expect(await world.evicted()).toEqual(expect.arrayContaining(left)), {
    limitMs: 100_000,
    pauseMs: 500,
  });
  const names = await world.evicted();
  expect(names).toEqual([...new Set(names)]);
});

describe('behind a proxy', () => {
  let api: FaultyApi;
  let dir: string;
  let watchdog: Watchdog;

  beforeEach(async () => {
    api = await FaultyApi.start(cluster);
    dir = mkdtempSync(join(tmpdir(), 'brupop-recovery-'));
    watchdog = startWatchdog(dir);
    await presentCredentials(dir, { token: readFileSync(join(world.serviceAccountDir, 'token'), 'utf8'), ca: api.ca });
  });

  afterEach(async () => {
    await watchdog.release();
    await api.stop();
  });

  describe.each([1, 4])('a leader that is killed before it has the response to its eviction %i', (nth) => {
    it('is followed by one that evicts no pod twice, and evicts another one', async () => {
      const down = await world.outage(`killed-${nth}`, { replicas: 6 });
      await setWaiting(cluster, down.pods);
      const podSelectors = [down.api, `fresh-${nth}`].map((app) => ({ matchLabels: { app } }));
      await world.watch(down, { services: [{ name: 'db', namespace: SHOP, service: down.service, podSelectors }] });
      const evictions = { verbs: ['create'], path: /\/eviction$/u } as const;
      api.set({ match: evictions, answer: { kind: 'lost' }, after: nth - 1 });
      const leader = await spawnController(watchdog, api.url, dir, { RECOVERY_NAMESPACES: SHOP });
      await world.watched();
      const next = await world.startReplica();
      await setPodsReady(cluster, down.backends, true);
      await eventually(async () => expect(await world.requests('create', 'pods/eviction')).toHaveLength(nth));
      await leader.kill();
      expect(await recorded()).toEqual(uidsOf(down.pods));
      const before = await world.evicted();
      expect(before).toHaveLength(nth);
      await eventually(async () => expect(await next.isLeader()).toBe(true), LOSS);
      const fresh = await createDeployment(cluster, { namespace: SHOP, name: `fresh-${nth}`, replicas: 1 });
      await setWaiting(cluster, fresh);
      const requested = [...before, ...namesOf(fresh)].toSorted();
      await eventually(async () => expect(await world.evicted()).toEqual(requested), LOSS);
      // Two more lists.
      await sleep(11_000);
      const all = await world.requests('create', 'pods/eviction');
      expect(all.map(({ name }) => name).toSorted()).toEqual(requested);
    });
  });

  it('nothing is evicted while the record cannot be written, with the reason, and after that the pods are', async () => {
    const down = await world.outage('unwritten');
    await setWaiting(cluster, down.pods);
    await world.watch(down);
    const record = { verbs: ['patch'], query: /fieldManager=brupop-controller-recovery/u } as const;
    api.set({ match: record, answer: { kind: 'status', status: 403 } });
    await spawnController(watchdog, api.url, dir, { RECOVERY_NAMESPACES: SHOP });
    await world.watched();
    await world.untilCondition('AsConfigured');
    await setPodsReady(cluster, down.backends, true);
    const message = await world.untilCondition('EvictionsBlocked');
    expect(message).toContain('No pod is evicted after the recovery of Service db: status.recovery cannot be written');
    expect(message).toContain('403');
    expect(await world.requests('create', 'pods/eviction')).toEqual([]);
    api.clear();
    await eventually(async () => expect(await world.evicted()).toEqual(namesOf(down.pods)), LOSS);
    await world.untilCondition('AsConfigured');
  });
});

it('while most nodes have lost connectivity nothing is evicted, with the reason, and after that the pods are', async () => {
  const down = await world.outage('lost', onWorker);
  await setWaiting(cluster, down.pods);
  await world.watch(down, {}, SPEC);
  await untilNodesCount();
  const leader = await world.startReplica();
  await world.watched();
  await cut(NODES);
  await eventually(async () => expect(await leader.metrics()).toMatch(/^brupop_connectivity_lost 1$/m), LOSS);
  await setPodsReady(cluster, down.backends, true);
  const message = await world.untilCondition('EvictionsBlocked');
  expect(message).toBe('No pod is evicted after the recovery of Service db: connectivity is lost');
  expect(leader.lines.filter((line) => line.includes('EvictionsBlocked'))).toHaveLength(1);
  await sleep(11_000);
  expect(await world.requests('create', 'pods/eviction')).toEqual([]);
  expect(await world.requests('list', 'pods')).toEqual([]);
  await cut([]);
  await eventually(async () => expect(await world.evicted()).toEqual(namesOf(down.pods)), LOSS);
  await world.untilCondition('AsConfigured');
});

it('while a zone has lost connectivity its pods are left, with the reason, and those of others are evicted', async () => {
  const down = await world.outage('zone', { ...onWorker, replicas: 1 });
  const [inA, inB] = [
    await createDeployment(cluster, { namespace: SHOP, name: 'zone-a', replicas: 1, ...onA }),
    await createDeployment(cluster, { namespace: SHOP, name: 'zone-b', replicas: 1, ...onB }),
  ];
  await setWaiting(cluster, [...inA, ...inB]);
  const podSelectors = ['zone-a', 'zone-b'].map((app) => ({ matchLabels: { app } }));
  await world.watch(down, { services: [{ name: 'db', namespace: SHOP, service: down.service, podSelectors }] }, SPEC);
  await untilNodesCount();
  const leader = await world.startReplica();
  await world.watched();
  await cut(ZONE_B);
  await eventually(async () => expect(await leader.metrics()).toMatch(/^brupop_connectivity_lost 1$/m), LOSS);
  await setPodsReady(cluster, down.backends, true);
  expect(await world.untilCondition('EvictionsBlocked')).toContain('The pods on b-1 are not evicted');
  expect(await world.evicted()).toEqual(namesOf(inA));
  await cut([]);
  await eventually(async () => expect(await world.evicted()).toEqual(namesOf([...inA, ...inB])), LOSS);
});
