import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { Registry } from 'prom-client';
import { ConfigWriter } from '../../../packages/controller/src/apply/brupop-config.ts';
import { Writer } from '../../../packages/controller/src/apply/writer.ts';
import { AssumeCache } from '../../../packages/controller/src/cluster/assume-cache.ts';
import { serve } from '../../../packages/controller/src/main.ts';
import { createMetrics } from '../../../packages/controller/src/metrics.ts';
import { wholePlan as plan } from '../../../packages/controller/src/whole-plan.ts';
import { aSnapshot } from '../../../packages/controller/src/testing/objects.ts';
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import type { KubernetesObject } from '../../../packages/shared/src/api/meta.ts';
import {
  CONFIG_NAME,
  CONFIG_PLURAL,
  CONFIG_VERSION,
  CONTROLLER,
  GROUP,
  PAUSED_ANNOTATION,
} from '../../../packages/shared/src/api/names.ts';
import { createKubeClient, type KubeClient } from '../../../packages/shared/src/kube/client.ts';
import { Events } from '../../../packages/shared/src/kube/events.ts';
import { RELEASE } from '../../../packages/shared/src/runtime/build.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { FakeClock } from '../../../packages/shared/src/testing/fake-clock.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { ApiError } from '../../framework/control-plane/api.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { otherRelease } from '../../framework/controller/other-release.ts';
import { startReplica } from '../../framework/controller/replica.ts';
import { installCrds } from '../../framework/crds.ts';
import { eventually } from '../../framework/eventually.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

jest.setTimeout(120_000);

const collection = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}`;
const path = `${collection}/${CONFIG_NAME}`;
const definition = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${CONFIG_PLURAL}.${GROUP}`;
const lease = `/apis/coordination.k8s.io/v1/namespaces/${releaseNamespace}/leases/${CONTROLLER}`;
const { log } = recordingLogger();
const { signal } = new AbortController();

let cluster: ControlPlane;
let client: KubeClient;
let serviceAccountDir = '';

beforeAll(async () => {
  cluster = await startControlPlane();
  serviceAccountDir = await installForController(cluster);
  const { hostname: host, port } = new URL(cluster.url);
  const access = { host, port: Number(port), serviceAccountDir };
  client = await createKubeClient({ userAgent: CONTROLLER, clock: systemClock, log, access });
});

afterEach(async () => await cluster.api.delete(path));

afterAll(async () => {
  await client.close();
  await cluster.stop();
});

interface Leader {
  readonly clock: FakeClock;
  /** Reconciles without a configuration in the watch cache. */
  readonly seesNone: () => Promise<number | undefined>;
  readonly sees: (config: BrupopConfig) => Promise<number | undefined>;
  /** The status that a plan gets when the watch cache has this one. */
  readonly plansWith: (config: BrupopConfig) => BrupopConfig['status'];
  /** Writes by kind and result, such as `config_create ok`. */
  readonly writes: () => Promise<readonly string[]>;
}

function aLeader(latest?: BrupopConfig): Leader {
  const clock = new FakeClock();
  const registry = new Registry();
  const metrics = createMetrics(registry);
  const isLeading = (): boolean => true;
  const shared = { clock, log, metrics, signal, isLeading };
  const count = (): void => undefined;
  const events = new Events({ ...shared, client, component: CONTROLLER, instance: 'test', count });
  const writer = new Writer(shared);
  const assumeCache = new AssumeCache();
  const config = new ConfigWriter(
    {
      ...shared,
      client,
      namespace: releaseNamespace,
      agentNamespace: releaseNamespace,
      writer,
      events,
      assumeCache,
      logOf: () => log,
    },
    latest,
  );
  const empty = plan(aSnapshot([]), clock.now());
  return {
    clock,
    seesNone: () => config.write(undefined, empty, true),
    sees: (object) => config.write(object, empty, true),
    plansWith: (object) => config.withWritten({ config: object }).config?.status,
    writes: async () => {
      const { values } = await metrics.writes.get();
      return values.map(({ labels: { kind, result }, value }) => `${kind} ${result} ${value}`);
    },
  };
}

/** The controller itself reads it only in its watch. */
async function find(): Promise<BrupopConfig | undefined> {
  try {
    return await cluster.api.get<BrupopConfig>(path);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}

describe('a leader that sees no BrupopConfig', () => {
  it('creates one without any field after ten seconds', async () => {
    const leader = aLeader();
    expect(await leader.seesNone()).toBe(10_000);
    await leader.clock.advance(9_999);
    expect([await leader.seesNone(), await find()]).toEqual([1, undefined]);
    await leader.clock.advance(1);
    await leader.seesNone();
    expect(await find()).toMatchObject({ spec: {} });
    expect(await leader.writes()).toEqual(['config_create ok 1']);
  });

  it('waits anew after each deletion, so that a user can replace it', async () => {
    const leader = aLeader();
    await leader.seesNone();
    await leader.clock.advance(10_000);
    await leader.seesNone();
    const created = await find();
    if (created === undefined) throw new Error('there is no BrupopConfig');
    await leader.sees(created);
    await cluster.api.delete(path);
    expect(await leader.seesNone()).toBe(10_000);
    expect(await find()).toBeUndefined();
  });

  it('leaves the one that another leader or a user created meanwhile as it is', async () => {
    const leaders = [aLeader(), aLeader()];
    for (const { seesNone, clock } of leaders) {
      await seesNone();
      await clock.advance(10_000);
    }
    await Promise.all(leaders.map(async ({ seesNone }) => await seesNone()));
    const results = await Promise.all(leaders.map(async ({ writes }) => await writes()));
    expect(results.flat().toSorted()).toEqual(['config_create conflict 1', 'config_create ok 1']);
    expect((await find())?.metadata.generation).toBe(1);
  });
});

it('a new leader whose watch is behind knows what an earlier one has frozen, until the watch goes on', async () => {
  const frozen = { version: '1.27.0', since: '2027-01-15T07:00:00Z' };
  const before = { metadata: { name: CONFIG_NAME, uid: 'uid-1' }, spec: {}, status: {} } as unknown as BrupopConfig;
  const latest = { ...before, status: { ...before.status, frozenVersions: [frozen] } } as BrupopConfig;
  const leader = aLeader(latest);
  expect(leader.plansWith(before)).toMatchObject({ frozenVersions: [frozen] });
  await leader.clock.advance(30_000);
  expect(leader.plansWith(before)).toMatchObject({ frozenVersions: [frozen] });
  expect(leader.plansWith({ ...before, status: {} })).toEqual({});
});

it('a controller records the defaults soon after its start, and again after a user deleted the configuration', async () => {
  const replica = await startReplica(cluster, serviceAccountDir);
  const untilRecorded = async (): Promise<BrupopConfig> =>
    await eventually(
      async () => {
        const config = await find();
        expect(config).toMatchObject({
          spec: {},
          status: { confirmedGeneration: 1, inForce: { generation: 1, spec: { concurrency: { maxUpdating: 1 } } } },
        });
        return config as BrupopConfig;
      },
      { limitMs: 30_000 },
    );
  const first = await untilRecorded();
  await cluster.api.patch(path, { spec: { concurrency: { maxUpdating: 3 } } });
  await cluster.api.delete(path);
  expect((await untilRecorded()).metadata.uid).not.toBe(first.metadata.uid);
  await replica.stop();
});

describe('the release in the status', () => {
  const folder = mkdtempSync(join(tmpdir(), 'brupop-releases-'));
  const NEXT = '9.9.9';

  afterAll(() => rmSync(folder, { recursive: true }));

  const untilReleaseIs = async (expected: string | undefined): Promise<void> =>
    await eventually(
      async () => {
        const { status } = (await find()) ?? {};
        expect([status?.observedGeneration, status?.release]).toEqual([1, expected]);
      },
      { limitMs: 30_000 },
    );
  const versionOf = async (): Promise<string | undefined> => (await find())?.metadata.resourceVersion;
  /** Nothing is written after that. */
  const untilSettled = async (release: string | undefined): Promise<void> => {
    await untilReleaseIs(release);
    await sleep(1_500);
    const settled = await versionOf();
    await sleep(2_500);
    expect(await versionOf()).toBe(settled);
  };

  it('is that of the leader, written once for each of them while two releases take turns', async () => {
    const next = await otherRelease(join(folder, NEXT), { build: { [`'${RELEASE}'`]: `'${NEXT}'` } });
    const earlier = await otherRelease(join(folder, 'earlier'), {
      'config-status': { '...(release !== undefined && { release }),': '' },
    });
    let leader = await startReplica(cluster, serviceAccountDir);
    await untilSettled(RELEASE);
    for (const [release, program] of [
      [NEXT, next],
      [undefined, earlier],
      [RELEASE, { serve }],
    ] as const) {
      const standby = await startReplica(cluster, serviceAccountDir, {}, program);
      const before = await versionOf();
      await sleep(1_500);
      expect(await versionOf()).toBe(before);
      await leader.stop();
      leader = standby;
      await untilSettled(release);
    }
    await leader.stop();
  });
});

it('a controller creates a configuration that pauses the fleet as the deleted one did, with its reason or one of its own', async () => {
  const replica = await startReplica(cluster, serviceAccountDir);
  const untilFound = async (spec: object): Promise<void> =>
    await eventually(async () => expect(await find()).toMatchObject({ spec }), { limitMs: 30_000 });
  await untilFound({});
  await cluster.api.patch(path, { spec: { paused: true, pauseReason: 'change freeze' } });
  await eventually(async () => expect((await find())?.status).toMatchObject({ confirmedGeneration: 2 }));
  await cluster.api.delete(path);
  await untilFound({ paused: true, pauseReason: 'change freeze' });
  await replica.stop();
});

it.each<[string, object, string]>([
  ['a pause', { paused: true, pauseReason: 'change freeze' }, 'change freeze'],
  ['that there was no pause', {}, ''],
])(
  'a leader that finds no configuration, nor a node that waits, knows %s from the Lease',
  async (_, spec, expected) => {
    const first = await startReplica(cluster, serviceAccountDir);
    await eventually(async () => expect(await find()).toBeDefined(), { limitMs: 30_000 });
    await cluster.api.patch(path, { spec: { paused: null, pauseReason: null, ...spec } });
    await eventually(
      async () => {
        const { metadata } = await cluster.api.get<KubernetesObject>(lease);
        expect(metadata.annotations?.[PAUSED_ANNOTATION]).toBe(expected);
      },
      { limitMs: 30_000 },
    );
    await first.stop();
    await cluster.api.delete(path);
    const second = await startReplica(cluster, serviceAccountDir);
    await eventually(async () => expect((await find())?.spec).toEqual(spec), { limitMs: 30_000 });
    await second.stop();
  },
);

it('a leader that finds no configuration keeps the pause that the conditions of shadows show', async () => {
  await cluster.api.delete(lease);
  const [node, shadow] = ['paused-node', 'brs-paused-node'];
  const shadows = `/apis/${GROUP}/v2/namespaces/${releaseNamespace}/bottlerocketshadows`;
  const condition = { type: 'Progressing', status: 'False', reason: 'Paused', message: 'paused' };
  const metadata = { name: node, labels: { 'bottlerocket.aws/updater-interface-version': '2.0.0' } };
  const {
    metadata: { uid },
  } = await cluster.api.create<{ metadata: { uid: string } }>('/api/v1/nodes', { metadata });
  const ownerReferences = [{ apiVersion: 'v1', kind: 'Node', name: node, uid }];
  await cluster.api.create(shadows, {
    apiVersion: `${GROUP}/v2`,
    kind: 'BottlerocketShadow',
    metadata: { name: shadow, ownerReferences },
    spec: { state: 'Idle' },
  });
  await cluster.api.patch(`${shadows}/${shadow}/status`, {
    status: { conditions: [{ ...condition, lastTransitionTime: '2026-01-01T00:00:00Z' }] },
  });
  const replica = await startReplica(cluster, serviceAccountDir);
  const spec = { paused: true, pauseReason: 'The BrupopConfig was deleted while it paused the fleet' };
  await eventually(async () => expect(await find()).toMatchObject({ spec }), { limitMs: 30_000 });
  await replica.stop();
  await cluster.api.delete(`/api/v1/nodes/${node}`);
  await cluster.api.delete(`${shadows}/${shadow}`);
});

it('a leader whose cluster has lost the definition goes on, and creates the configuration when it is back', async () => {
  const leader = aLeader();
  await leader.seesNone();
  await cluster.api.delete(definition);
  // Until the definition is gone, the collection is served, and perhaps takes what is created.
  await eventually(async () => await expect(cluster.api.get(collection)).rejects.toMatchObject({ status: 404 }));
  await leader.clock.advance(10_000);
  await leader.seesNone();
  expect(await leader.writes()).toEqual(['config_create conflict 1']);

  await installCrds(cluster);
  await leader.clock.advance(60_000);
  await leader.seesNone();
  expect(await find()).toMatchObject({ spec: {} });
});
