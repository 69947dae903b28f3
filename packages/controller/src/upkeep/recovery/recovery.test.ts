/** The loop, with a client that responds from memory. What is evicted is up to `decide.test.ts`. */
import { type KubeClient, KubeError, type KubeRequest } from '@brupop/shared/kube/client';
import type { BrupopConfigSpec } from '@brupop/shared/api/config-spec';
import type { Listener } from '@brupop/shared/kube/reflector';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { createLogger } from '@brupop/shared/runtime/log';
import { createRegistry } from '@brupop/shared/runtime/metrics';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { UpkeepView } from '../../cluster/upkeep-view.ts';
import { createMetrics } from '../../metrics.ts';
import { aShadow, aSnapshot, underWay } from '../../testing/objects.ts';
import { Recovery } from './recovery.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'api', uid: 'rs', controller: true };
const crashing = (name: string) => ({
  metadata: { name, uid: name, namespace: 'shop', ownerReferences: [owner] },
  spec: { nodeName: 'node-a', volumes: name.startsWith('scratch') ? [{ name: 'tmp', emptyDir: {} }] : [] },
  status: { containerStatuses: [{ state: { waiting: { reason: 'CrashLoopBackOff' } } }] },
});

const ready = (name: string) => ({ ...crashing(name), status: { containerStatuses: [{ state: { running: {} } }] } });

/** A leader, on whose node-a pods in CrashLoopBackOff wait until they are evicted. */
async function lead(drain: BrupopConfigSpec['drain'] = {}) {
  const clock = new FakeClock();
  const log = createLogger({ write: () => undefined });
  const { config, policy } = aSnapshot([], { drain, recovery: { updatedNodes: 'Restart', watchFor: '5m' } });
  const world = {
    pods: ['api-0', 'api-1'],
    running: new Set<string>(),
    mayEvict: (_path: string): boolean => true,
    denial: `pods "api-0" is forbidden: User "brupop" cannot create resource "pods/eviction"`,
    obstacle: undefined as string | undefined,
  };
  const request = async ({ method, path }: KubeRequest): Promise<unknown> => {
    const items =
      path === '/api/v1/pods' ? world.pods.map((name) => (world.running.has(name) ? ready(name) : crashing(name))) : [];
    if (method === 'GET') return { metadata: { resourceVersion: '1' }, items };
    if (!world.mayEvict(path)) throw new KubeError(403, 'Forbidden', world.denial);
    world.pods = world.pods.filter((name) => !path.includes(`/${name}/`));
    return {};
  };
  const applied: unknown[] = [];
  const apply = async (_: string, body: unknown): Promise<unknown> => applied.push(body);
  let listener: Listener<ShadowView> = () => undefined;
  const upkeep = {
    config,
    policy,
    get obstacle() {
      return world.obstacle;
    },
    isLost: () => false,
    keepsEmptyDirs: () => policy.drain.emptyDirPods === 'Block',
    monitored: () => [],
    onConfig: () => () => undefined,
    onShadow: (one: Listener<ShadowView>) => {
      listener = one;
      return () => undefined;
    },
  };
  const recovery = new Recovery({
    client: { request, apply } as unknown as KubeClient,
    clock,
    log,
    upkeep: upkeep as unknown as UpkeepView,
    metrics: createMetrics(createRegistry('test')),
    events: { record: () => undefined },
    agentNamespace: 'brupop',
    recoveryNamespaces: ['shop'],
    onReport: () => undefined,
  });
  const stop = new AbortController();
  const running = recovery.run(stop.signal);
  await clock.advance(SECOND);
  const succeeds = async (): Promise<void> => {
    const record = { succeeded: { version: '1.21.0', at: '2026-11-22T10:00:00Z' } };
    listener({ type: 'Modified', old: aShadow({ spec: underWay('MonitoringUpdate') }), object: aShadow({ record }) });
    await clock.advance(SECOND);
  };
  const end = async (): Promise<void> => {
    stop.abort();
    await clock.advance(MINUTE);
    await running;
  };
  return { clock, world, applied, recovery, succeeds, end };
}

describe('while evictions are forbidden in the namespace', () => {
  it('the report says so, until one is accepted there', async () => {
    const { clock, world, recovery, succeeds, end } = await lead();
    world.mayEvict = () => false;
    await succeeds();
    const text = 'Evictions in shop are forbidden after the recovery of Node node-a: pods "api-0" is forbidden';
    const message = expect.stringContaining(text) as string;
    expect(recovery.report).toMatchObject({ status: 'False', reason: 'EvictionsBlocked', message });
    world.mayEvict = () => true;
    await clock.advance(20 * SECOND);
    expect(world.pods).toEqual([]);
    expect(recovery.report).toMatchObject({ status: 'True', reason: 'AsConfigured' });
    await end();
  });

  it('the report ends with the right, also of a pod that its kubelet has restarted meanwhile', async () => {
    const { clock, world, recovery, succeeds, end } = await lead();
    world.mayEvict = () => false;
    await succeeds();
    world.running.add('api-1');
    world.mayEvict = () => true;
    await clock.advance(20 * SECOND);
    expect([world.pods, recovery.report]).toMatchObject([['api-1'], { status: 'True', reason: 'AsConfigured' }]);
    await end();
  });

  it('the report says so of one pod that is protected, although others are evicted', async () => {
    const { clock, world, recovery, succeeds, end } = await lead();
    world.mayEvict = (path) => !path.includes('/api-0/');
    world.denial = 'admission webhook "a.b" denied the request: 1 pod';
    await succeeds();
    const { report } = recovery;
    expect([world.pods, report]).toMatchObject([['api-0'], { reason: 'EvictionsBlocked' }]);
    world.denial = 'admission webhook "a.b" denied the request: 2 pods';
    world.pods = ['api-0', 'api-2'];
    await clock.advance(20 * SECOND);
    expect([world.pods, recovery.report]).toEqual([['api-0'], report]);
    world.pods = [];
    await clock.advance(20 * SECOND);
    expect(recovery.report).toMatchObject({ status: 'True', reason: 'AsConfigured' });
    await end();
  });

  it('the report says the same, until the window closes', async () => {
    const { clock, world, recovery, succeeds, end } = await lead();
    world.mayEvict = () => false;
    await succeeds();
    const { report } = recovery;
    await clock.advance(4 * MINUTE);
    expect(report).toMatchObject({ reason: 'EvictionsBlocked' });
    expect(recovery.report).toEqual(report);
    await clock.advance(MINUTE + 10 * SECOND);
    expect(recovery.report).toMatchObject({ status: 'True', reason: 'AsConfigured' });
    await end();
  });
});

it('a window ends after watchFor, also if the clock was an hour ahead when the node succeeded', async () => {
  const { clock, world, applied, succeeds, end } = await lead();
  const from = clock.now();
  world.obstacle = 'the clock of this node is wrong';
  clock.step(60 * MINUTE);
  await succeeds();
  clock.step(-60 * MINUTE);
  world.obstacle = undefined;
  await clock.advance(10 * SECOND);
  expect(world.pods).toEqual([]);
  const times = { startTime: rfc3339(from), endTime: rfc3339(from + 5 * MINUTE) };
  expect(applied.at(-1)).toMatchObject({ status: { recovery: [{ name: 'node-a', ...times }] } });
  await end();
});

it('at most maxPerMinute pods are evicted in a minute, also when the clock is set forward', async () => {
  const { clock, world, succeeds, end } = await lead();
  world.pods = Array.from({ length: 20 }, (_, index) => `api-${index}`);
  await succeeds();
  expect(world.pods).toHaveLength(10);
  clock.step(61 * SECOND);
  // The pods are listed at once.
  await succeeds();
  expect(world.pods).toHaveLength(10);
  await clock.advance(MINUTE);
  expect(world.pods).toEqual([]);
  await end();
});

it.each([
  ['Block', ['scratch-0']],
  ['Evict', []],
] as const)('with emptyDirPods: %s the pods that are left are %j', async (emptyDirPods, left) => {
  const { world, succeeds, end } = await lead({ emptyDirPods });
  world.pods = ['api-0', 'scratch-0'];
  await succeeds();
  expect(world.pods).toEqual(left);
  await end();
});
