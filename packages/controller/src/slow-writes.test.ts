import { type KubeClient, KubeError, type KubeRequest } from '@brupop/shared/kube/client';
import { createLogger } from '@brupop/shared/runtime/log';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { Registry } from 'prom-client';
import { MetadataNotes } from './cluster/metadata-notes.ts';
import { AssumeCache } from './cluster/assume-cache.ts';
import { AllPodsLookup } from './cluster/all-pods.ts';
import { MemberPodsLookup } from './cluster/member-pods.ts';
import { CheckLookups } from './cluster/checks.ts';
import type { Cluster } from './cluster/cluster.ts';
import { PodLookups } from './cluster/pods.ts';
import { NO_CHECKS } from './testing/checks.ts';
import { Controller } from './controller.ts';
import { createMetrics } from './metrics.ts';
import type { ManagedNode } from './cluster/snapshot.ts';
import { aManagedNode, aSnapshot, NOW } from './testing/objects.ts';

const WRITE_MS = 2_000;
const MINUTE = 60_000;

interface Body {
  readonly metadata: { readonly uid: string; readonly resourceVersion?: string };
  readonly spec?: { readonly state: string };
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly reason: string }[] };
}

/** Lists no pods, and takes its time for each write. Records the specs and the conditions that were sent. */
class SlowClient {
  readonly clock = new FakeClock(NOW);
  readonly specs: unknown[] = [];
  /** The states and the reasons of Progressing that were written, in their order. */
  readonly written: string[] = [];
  failsSpecs = true;
  /** What users have written into the configuration. */
  config: object | undefined;
  /** The node whose condition takes an hour to write. */
  hangsFor = '';

  async request({ method, path, body }: KubeRequest): Promise<unknown> {
    if (method === 'GET') return { items: [], metadata: { resourceVersion: '1' } };
    const hangs = path.endsWith(`/brs-${this.hangsFor}/status`);
    await this.clock.sleep(hangs ? 60 * MINUTE : WRITE_MS);
    const { metadata, spec, status } = body as Body;
    // A POST creates the configuration.
    if (method === 'POST') return {};
    if (path.includes('bottlerocketshadows'))
      this.written.push(...(status?.conditions ?? []).flatMap((one) => (one.type === 'Progressing' ? one.reason : [])));
    if (spec === undefined) return {};
    this.specs.push(spec);
    if (this.failsSpecs) throw FAILURE;
    this.written.push(spec.state);
    return { metadata: { ...metadata, name: path.split('/').at(-1), generation: 9 }, spec };
  }

  apply(path: string, body: unknown): Promise<unknown> {
    return this.request({ method: 'PATCH', path, body });
  }

  mergePatch(path: string, body: unknown): Promise<unknown> {
    return this.request({ method: 'PATCH', path, body });
  }
}

const FAILURE = new KubeError(500, 'InternalError', 'failed calling webhook');

/** A leader of this fleet. `conditions` has the reason that each node shows. */
function lead(slow: SlowClient, managedNodes: readonly ManagedNode[]) {
  const { clock } = slow;
  const client = slow as unknown as KubeClient;
  const log = createLogger({ level: 'error', write: () => undefined });
  const assumeCache = new AssumeCache();
  const lookups = new PodLookups({ client, clock, logOf: () => log });
  const shown = (): ManagedNode[] =>
    managedNodes.map((node) => ({ ...node, shadow: node.shadow && assumeCache.view(node.shadow, clock.now()) }));
  const cluster = {
    assumeCache,
    metadataNotes: new MetadataNotes(),
    lookups,
    logOf: () => log,
    allPods: new AllPodsLookup({ client, clock, log }),
    members: new MemberPodsLookup({ client, clock, log }),
    checks: new CheckLookups({ client, clock, log, config: NO_CHECKS, count: () => undefined }),
    snapshot: (failureOf: Parameters<Cluster['snapshot']>[0]) => {
      const withFailures = shown().map((node) => ({ ...node, ...failureOf?.(node.name, node.shadow) }));
      return { ...aSnapshot(withFailures, slow.config), pods: lookups.known };
    },
    catchUp: async () => undefined,
    shadowOf: (node: string) => shown().find(({ name }) => name === node)?.shadow,
    onChange: (listener: () => void) => lookups.answers.subscribe(listener),
  } as unknown as Cluster;
  const metrics = createMetrics(new Registry());
  const names = { namespace: 'brupop', agentNamespace: 'brupop', podName: 'controller-a' };
  const controller = new Controller({ ...names, client, clock, log, cluster, metrics, isLeading: () => true });
  const stop = new AbortController();
  const running = controller.run(stop.signal);
  return {
    wake: () => controller.wake(),
    conditions: () => shown().map(({ name, shadow }) => `${name} ${shadow?.progressing?.reason}`),
    end: async (): Promise<void> => {
      stop.abort();
      await clock.advance(61 * MINUTE);
      await running;
    },
  };
}

it('an update starts in a large fleet whose conditions take minutes to write', async () => {
  const slow = new SlowClient();
  slow.failsSpecs = false;
  const leader = lead(
    slow,
    Array.from({ length: 1_000 }, (_, i) => aManagedNode(`node-${i}`)),
  );
  for (let step = 0; step < 120 && slow.specs.length === 0; step += 1) await slow.clock.advance(MINUTE / 60);
  await leader.end();
  expect(slow.specs).toHaveLength(1);
});

it('a condition that is slow to write delays neither specs nor the conditions of other nodes', async () => {
  const slow = new SlowClient();
  slow.failsSpecs = false;
  slow.hangsFor = 'b';
  const leader = lead(slow, [aManagedNode('a'), aManagedNode('b'), aManagedNode('c')]);
  await slow.clock.advance(MINUTE / 6);
  expect(slow.written).toContain('StagedAndPerformedUpdate');
  expect(leader.conditions()).toEqual(['a Updating', 'b undefined', 'c WaitingForCapacity']);
  await leader.end();
});

it('a node whose spec cannot be written for a minute says why, keeps its slot, and is tried again', async () => {
  const slow = new SlowClient();
  const leader = lead(slow, [aManagedNode('a'), aManagedNode('b')]);
  await slow.clock.advance(MINUTE / 2);
  expect(leader.conditions()).toEqual(['a undefined', 'b WaitingForCapacity']);
  await slow.clock.advance(2 * MINUTE);
  expect(leader.conditions()).toEqual(['a SpecWriteRejected', 'b WaitingForCapacity']);
  const tries = slow.specs.length;
  await slow.clock.advance(2 * MINUTE);
  expect(slow.specs.length).toBeGreaterThan(tries);
  await leader.end();
});

it('no condition says that a spec was rejected once it is written', async () => {
  const slow = new SlowClient();
  const leader = lead(slow, [aManagedNode('a')]);
  await slow.clock.advance(MINUTE);
  slow.failsSpecs = false;
  await slow.clock.advance(3 * MINUTE);
  await leader.end();
  const after = slow.written.slice(slow.written.indexOf('StagedAndPerformedUpdate'));
  expect(after).toContain('StagedAndPerformedUpdate');
  expect(after).not.toContain('SpecWriteRejected');
});

it.each([
  ['must wait for those of other nodes', false],
  ['cannot be written at first', true],
])('a condition that is left to be written is, when other settings follow whose spec %s', async (_, failsSpecs) => {
  const slow = new SlowClient();
  slow.failsSpecs = failsSpecs;
  slow.config = { paused: true };
  const nodes = Array.from({ length: 12 }, (__, i) => aManagedNode(`node-${i}`));
  const leader = lead(slow, nodes);
  await slow.clock.advance(WRITE_MS / 4);
  slow.config = { paused: true, versions: { ignoreWaves: true } };
  leader.wake();
  await slow.clock.advance(2 * WRITE_MS);
  slow.failsSpecs = false;
  await slow.clock.advance(6 * WRITE_MS);
  expect(leader.conditions()).toEqual(nodes.map(({ name }) => `${name} Paused`));
  await leader.end();
});
