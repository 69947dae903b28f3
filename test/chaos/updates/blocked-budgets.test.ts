import { type NodeRecord, readRecord } from '../../../packages/shared/src/api/record.ts';
import { jest } from '@jest/globals';
import type { V1Pod } from '@kubernetes/client-node';
import { createBudget, createPod } from '../../framework/apiserver/pods.ts';
import { eventually } from '../../framework/eventually.ts';
import { inject } from '../../framework/faults/inject.ts';
import { Evictions } from '../../framework/fleet/evictions.ts';
import { type Fleet, fleetNodes } from '../../framework/fleet/fleet.ts';
import { type FleetContext, NEW, OLD, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(600_000);

const HELD = 'node-1';
const NAMES = ['node-1', 'node-2', 'node-3'];
const labels = { app: 'pg' };
const PRIMARY = { ...labels, role: 'primary' };

async function requireOne({ cluster, namespace }: FleetContext, matchLabels: Readonly<Record<string, string>>) {
  const path = `/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets`;
  await createBudget(cluster, namespace, 'pg', matchLabels, { minAvailable: 1 });
  await eventually(async () => {
    const { status } = await cluster.api.get<{ status?: { currentHealthy?: number } }>(`${path}/pg`);
    expect(status?.currentHealthy).toBe(1);
  });
}

const isReady = ({ status, metadata }: V1Pod): boolean =>
  metadata?.deletionTimestamp === undefined &&
  status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') === true;

/** Three pods of a database, of which the one on HELD is the primary, whose budget allows no disruption. */
async function createCluster(context: FleetContext): Promise<void> {
  const { cluster, namespace } = context;
  await cluster.api.create(`/apis/apps/v1/namespaces/${namespace}/statefulsets`, {
    metadata: { name: 'pg' },
    spec: {
      replicas: 3,
      serviceName: 'pg',
      podManagementPolicy: 'Parallel',
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'pg' }] } },
    },
  });
  const path = `/api/v1/namespaces/${namespace}/pods`;
  const primary = await eventually(async () => {
    const { items } = await cluster.api.get<{ items: V1Pod[] }>(`${path}?labelSelector=app%3Dpg`);
    expect(items.filter(isReady)).toHaveLength(3);
    return items.find(({ spec }) => spec?.nodeName === HELD)?.metadata?.name;
  });
  if (primary === undefined) throw new Error(`no pod of the database runs on ${HELD}`);
  await cluster.api.patch(`${path}/${primary}`, { metadata: { labels: PRIMARY } });
  await requireOne(context, PRIMARY);
}

/** Moves the primary when its node is cordoned, as the operators of databases do. Returns how to stop it. */
function movePrimary({ fleet, cluster, namespace }: FleetContext): { stop: () => void; moves: string[] } {
  const moves: string[] = [];
  const move = async (): Promise<void> => {
    const pods = fleet.observer.pods.list().filter(({ metadata }) => metadata.labels?.['app'] === 'pg');
    const isCordoned = ({ spec }: (typeof pods)[number]): boolean =>
      fleet.observer.nodes.get(spec?.nodeName ?? '')?.spec?.unschedulable === true;
    const primary = pods.find(({ metadata }) => metadata.labels?.['role'] === 'primary');
    const next = pods.find((pod) => isReady(pod) && !isCordoned(pod));
    if (primary === undefined || next === undefined || !isCordoned(primary)) return;
    const path = `/api/v1/namespaces/${namespace}/pods`;
    await cluster.api.patch(`${path}/${primary.metadata.name}`, { metadata: { labels: { role: 'replica' } } });
    await cluster.api.patch(`${path}/${next.metadata.name}`, { metadata: { labels: { role: 'primary' } } });
    moves.push(primary.spec?.nodeName ?? '');
  };
  return { moves, stop: again(move) };
}

/** Acts twice a second, as a controller that tries again after an error. Returns how to stop it. */
function again(act: () => Promise<void>): () => void {
  let busy = false;
  const timer = setInterval(() => {
    if (busy) return;
    busy = true;
    void act()
      .catch(() => undefined)
      .finally(() => (busy = false));
  }, 500);
  return () => clearInterval(timer);
}

const INSTANCE_MANAGER = {
  apiVersion: 'longhorn.io/v1beta2',
  kind: 'InstanceManager',
  name: 'server',
  uid: '6f9619ff-8b86-4d01-b42d-00cf4fc964ff',
  controller: true,
};

/**
 * As Longhorn does: deletes the budget of the pod that serves the volumes of HELD once HELD is cordoned and the pod that uses
 * one is gone. Returns how to stop it.
 */
function openWithoutVolumes({ fleet, cluster, namespace }: FleetContext): () => void {
  return again(async () => {
    const isUsed = fleet.observer.pods.list().some(({ metadata }) => metadata.name === 'user');
    if (isUsed || fleet.observer.nodes.get(HELD)?.spec?.unschedulable !== true) return;
    await cluster.api.delete(`/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets/pg`);
  });
}

/** The names of nodes in the order in which they were first cordoned, and how often each was. */
function cordonsOf(fleet: Fleet): string[] {
  const cordons: string[] = [];
  const cordoned = new Set<string>();
  fleet.observer.nodes.subscribe(({ object: { metadata, spec } }) => {
    if (spec?.unschedulable !== true) cordoned.delete(metadata.name);
    else if (!cordoned.has(metadata.name)) {
      cordoned.add(metadata.name);
      cordons.push(metadata.name);
    }
  });
  return cordons;
}

const recordOf = (fleet: Fleet, name: string): NodeRecord => readRecord(fleet.shadow(name)?.metadata ?? {});
const reasonOf = (fleet: Fleet): string | undefined => fleet.shadow(HELD)?.status?.conditions?.[0]?.reason;

describe('a budget that allows no disruption while its pod is healthy', () => {
  it('is opened by the cordon of the last node, when its operator moves the primary', async () => {
    const config = { paused: true };
    await withFleet({ nodes: fleetNodes(3), config, before: createCluster }, async (context) => {
      const { fleet } = context;
      const cordons = cordonsOf(fleet);
      const actor = movePrimary(context);
      try {
        await fleet.untilAllAreOffered(NEW);
        await fleet.configure({});
        await fleet.untilAllRun(NEW);
      } finally {
        actor.stop();
      }
      expect(cordons.toSorted()).toEqual(NAMES);
      expect(cordons.at(-1)).toBe(HELD);
      expect(actor.moves).toEqual([HELD]);
      expect(NAMES.map((name) => fleet.shadow(name)?.status?.crash_count)).toEqual([0, 0, 0]);
      expect(recordOf(fleet, HELD).blockedDrains).toBeUndefined();
    });
  });

  it('is opened when the other pods of the last node are gone, as for the volumes of Longhorn', async () => {
    const evictions = new Evictions();
    const before = async (context: FleetContext): Promise<void> => {
      evictions.follow(context.fleet);
      const { cluster, namespace } = context;
      await createPod(cluster, {
        namespace,
        node: HELD,
        name: 'server',
        labels: PRIMARY,
        ownerReferences: [INSTANCE_MANAGER],
      });
      await createPod(cluster, { namespace, node: HELD, name: 'user' });
      await requireOne(context, PRIMARY);
    };
    await withFleet({ nodes: fleetNodes(3), config: { paused: true }, before }, async (context) => {
      const { fleet, namespace } = context;
      const cordons = cordonsOf(fleet);
      const stop = openWithoutVolumes(context);
      try {
        await fleet.untilAllAreOffered(NEW);
        await fleet.configure({});
        await fleet.untilAllRun(NEW);
      } finally {
        stop();
      }
      expect(cordons.toSorted()).toEqual(NAMES);
      expect(cordons.at(-1)).toBe(HELD);
      expect(await evictions.all(fleet)).toEqual(
        expect.arrayContaining([`${namespace}/user`, `${namespace}/server`]) as string[],
      );
      expect(fleet.shadow(HELD)?.status).toMatchObject({ crash_count: 0, drain: { result: 'Drained' } });
      expect(recordOf(fleet, HELD).blockedDrains).toBeUndefined();
    });
  });

  it('costs one short cordon after the other nodes when nothing opens it, and no eviction', async () => {
    const evictions = new Evictions();
    const before = async (context: FleetContext): Promise<void> => {
      evictions.follow(context.fleet);
      const { cluster, namespace } = context;
      await createPod(cluster, { namespace, node: HELD, name: 'held', labels: PRIMARY });
      await createPod(cluster, { namespace, node: HELD, name: 'other' });
      await requireOne(context, PRIMARY);
    };
    const drain = { timeout: '1m' };
    await withFleet({ nodes: fleetNodes(3), config: { paused: true, drain }, before }, async (context) => {
      const { fleet, cluster, namespace } = context;
      const cordons = cordonsOf(fleet);
      await fleet.untilAllAreOffered(NEW);
      await fleet.configure({ drain });
      await eventually(() => expect(cordons).toHaveLength(3), { limitMs: 180_000 });
      expect(cordons.at(-1)).toBe(HELD);
      const pods = (): string[] =>
        fleet.observer.pods
          .list()
          .filter(({ spec }) => spec?.nodeName === HELD)
          .map(({ metadata }) => metadata.uid)
          .toSorted();
      const evicted = await evictions.all(fleet);
      const there = pods();
      await eventually(() => expect(reasonOf(fleet)).toBe('DrainBlocked'), { limitMs: 120_000 });
      await eventually(() => expect(fleet.observer.leftovers()).toEqual([]));
      await new Promise((resolve) => setTimeout(resolve, 20_000));
      expect(reasonOf(fleet)).toBe('DrainBlocked');
      expect(cordons).toHaveLength(3);
      expect(pods()).toEqual(there);
      expect(await evictions.all(fleet)).toEqual(evicted);
      const { status } = fleet.shadow(HELD) ?? {};
      expect(status).toMatchObject({ crash_count: 0, drain: { result: 'Blocked', evicted: 0 } });
      expect(recordOf(fleet, HELD).blockedDrains).toMatchObject({ count: 1 });
      expect(fleet.node(HELD).host.version).toBe(OLD);
      await cluster.api.delete(`/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets/pg`);
      await fleet.untilAllRun(NEW);
    });
  });

  it('costs no second cordon when the controller, the API servers and the agent are killed while the node is held', async () => {
    const before = async (context: FleetContext): Promise<void> => {
      const { cluster, namespace } = context;
      await createPod(cluster, { namespace, node: HELD, name: 'held', labels: PRIMARY });
      await createPod(cluster, { namespace, node: HELD, name: 'other' });
      await requireOne(context, PRIMARY);
    };
    const drain = { timeout: '1m' };
    await withFleet({ nodes: fleetNodes(3), config: { paused: true, drain }, before }, async (context) => {
      const { fleet, cluster, namespace } = context;
      const cordons = cordonsOf(fleet);
      await fleet.untilAllAreOffered(NEW);
      await fleet.configure({ drain });
      const isHeld = (): boolean =>
        fleet.shadow(HELD)?.status?.drain?.blockedBy?.some(({ reason }) => reason === 'DisruptionBudget') === true;
      await eventually(() => expect(isHeld()).toBe(true), { limitMs: 180_000 });
      const victims = [
        { kind: 'killed', who: { program: 'controller', which: 'leader' }, forMs: 0 },
        { kind: 'each API server killed' },
        { kind: 'killed', who: { program: 'agent', node: HELD }, forMs: 0 },
      ] as const;
      for (const fault of victims) expect([fault, await inject(context, fault)]).toEqual([fault, 'hit']);
      await eventually(() => expect(reasonOf(fleet)).toBe('DrainBlocked'), { limitMs: 180_000 });
      await eventually(() => expect(fleet.observer.leftovers()).toEqual([]));
      expect(cordons).toHaveLength(3);
      expect(fleet.shadow(HELD)?.status).toMatchObject({ crash_count: 0, drain: { result: 'Blocked', evicted: 0 } });
      expect(recordOf(fleet, HELD).blockedDrains).toMatchObject({ count: 1 });
      await cluster.api.delete(`/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets/pg`);
      await fleet.untilAllRun(NEW);
    });
  });

  it('is overridden at the time limit with Force and the right to delete pods, and not before', async () => {
    const before = async (context: FleetContext): Promise<void> => {
      const { cluster, namespace } = context;
      await createPod(cluster, { namespace, node: HELD, name: 'held', labels: PRIMARY });
      await requireOne(context, PRIMARY);
    };
    const config = { drain: { timeout: '1m', onTimeout: 'Force' } } as const;
    const values = { 'drain.allowForce': true };
    await withFleet({ nodes: fleetNodes(3), config, values, before }, async ({ fleet, namespace }) => {
      const startedAt = await eventually(
        () => {
          expect(fleet.shadow(HELD)?.status?.drain?.startTime).toBeDefined();
          return performance.now();
        },
        { limitMs: 120_000 },
      );
      const isThere = (): boolean =>
        fleet.observer.pods.list().some(({ metadata }) => metadata.namespace === namespace && metadata.name === 'held');
      await eventually(() => expect(isThere()).toBe(false), { limitMs: 120_000 });
      expect(performance.now() - startedAt).toBeGreaterThan(55_000);
      await fleet.untilAllRun(NEW);
      expect(fleet.shadow(HELD)?.status).toMatchObject({ crash_count: 0, drain: { result: 'Forced' } });
      // The override itself.
      expect(fleet.observer.violations.splice(0)).toEqual([expect.stringContaining('budget pg is short of 1 pods')]);
    });
  });
});
