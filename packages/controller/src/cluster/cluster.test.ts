/** A snapshot that makes only what has changed beside one that makes every node. */
import type { KubeClient } from '@brupop/shared/kube/client';
import { MANAGED_LABEL, MANAGED_LABEL_VALUE } from '@brupop/shared/api/names';
import { Listeners } from '@brupop/shared/runtime/listeners';
import { createLogger } from '@brupop/shared/runtime/log';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import fc from 'fast-check';
import { NEW, NO_CHECKS_KNOWN, OLD } from '../testing/objects.ts';
import type { CheckLookups } from './checks.ts';
import { Cluster } from './cluster.ts';
import { readShadow, type ShadowView } from './shadow.ts';

const NAMESPACE = 'brupop';
const NODES = 4;
/** That a cluster watches. */
const KINDS = 6;

interface Raw {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
}

/** An API server with objects by kind and name, whose watches show each change at once. */
class Server {
  readonly #objects = new Map<string, Map<string, Raw>>();
  readonly #watches = new Map<string, ReadableStreamDefaultController<Uint8Array>>();
  #version = 1;
  /** By how much the clock of the controller is ahead. */
  clockSkewMs = 0;

  set(kind: string, name: string, object: object): Raw {
    const of = this.#of(kind);
    const type = of.has(name) ? 'MODIFIED' : 'ADDED';
    const { metadata = {}, ...rest } = object as { metadata?: object };
    this.#version += 1;
    const made = { ...rest, metadata: { ...metadata, name, resourceVersion: `${this.#version}` } };
    of.set(name, made);
    this.#send(kind, { type, object: made });
    return made;
  }

  delete(kind: string, name: string): void {
    const object = this.#of(kind).get(name);
    this.#of(kind).delete(name);
    if (object !== undefined) this.#send(kind, { type: 'DELETED', object });
  }

  get watches(): number {
    return this.#watches.size;
  }

  get client(): KubeClient {
    return {
      clockSkewMs: () => this.clockSkewMs,
      request: async ({ path }: { path: string }) => ({
        metadata: { resourceVersion: `${this.#version}` },
        items: [...this.#of(kindOf(path)).values()],
      }),
      stream: async ({ path }: { path: string }) =>
        new ReadableStream<Uint8Array>({ start: (watch) => void this.#watches.set(kindOf(path), watch) }),
    } as unknown as KubeClient;
  }

  #of(kind: string): Map<string, Raw> {
    const of = this.#objects.get(kind) ?? new Map<string, Raw>();
    this.#objects.set(kind, of);
    return of;
  }

  #send(kind: string, event: object): void {
    this.#watches.get(kind)?.enqueue(new TextEncoder().encode(`${JSON.stringify(event)}\n`));
  }
}

const kindOf = (path: string): string => path.split('/').at(-1) ?? '';

class World {
  readonly clock = new FakeClock();
  readonly server = new Server();
  readonly #stop = new AbortController();
  readonly cluster: Cluster;
  /** How long ago there was a leader. */
  ledMsAgo: number | undefined;

  constructor() {
    const checks = { answers: new Listeners(), view: NO_CHECKS_KNOWN, clear: () => undefined };
    this.cluster = new Cluster({
      client: this.server.client,
      clock: this.clock,
      log: createLogger({ level: 'error', write: () => undefined }),
      namespace: NAMESPACE,
      agentNamespace: NAMESPACE,
      nodeName: '',
      checks: checks as unknown as CheckLookups,
      mayForce: false,
      dependents: [],
      ledBefore: () => (this.ledMsAgo === undefined ? undefined : this.clock.now() - this.ledMsAgo),
    });
  }

  async start(): Promise<void> {
    void this.cluster.run(this.#stop.signal).catch(() => undefined);
    while (this.server.watches < KINDS) await this.clock.advance(0);
  }

  end(): void {
    this.#stop.abort();
  }

  /** Makes every node again, as each change of any group does. */
  async changeGroups(generation: number): Promise<void> {
    const spec = { nodeSelector: { matchLabels: { pool: 'none' } } };
    this.server.set('bottlerocketnodegroups', 'other', { metadata: { uid: 'other', generation }, spec });
    await this.clock.advance(1);
  }

  /** What is compared; times that this process remembers are left out. */
  nodes() {
    return this.cluster.snapshot(undefined).managedNodes.map(({ name, node, shadow, group, policy, leaseExpired }) => ({
      name,
      node,
      shadow,
      leaseExpired,
      group: group && `${group.name} ${group.generation}`,
      grace: policy.connectivity.nodeMonitorGracePeriodMs,
    }));
  }
}

interface ShadowParts {
  readonly spec: object;
  readonly status: object;
  readonly generation: number;
  readonly machine?: number;
}

/** @param machine - which of those that have the name has the shadow */
const shadowOf = (i: number, { spec, status, generation, machine = 0 }: ShadowParts) => ({
  metadata: {
    namespace: NAMESPACE,
    uid: `shadow-${i}-${machine}`,
    generation,
    ownerReferences: [{ kind: 'Node', name: `node-${i}`, uid: `uid-${i}-${machine}` }],
  },
  spec,
  status,
});

const index = fc.nat(NODES - 1);
const flag = fc.boolean();
/** Another one may join under the name of an old node. */
const machine = fc.nat(1);
const event = fc.oneof(
  fc.record({
    kind: fc.constant('node' as const),
    i: index,
    isManaged: flag,
    pool: fc.constantFrom('a', 'b'),
    machine,
  }),
  fc.record({ kind: fc.constant('noNode' as const), i: index }),
  fc.record({ kind: fc.constant('shadow' as const), i: index, version: fc.constantFrom(OLD, NEW), machine }),
  fc.record({ kind: fc.constant('noShadow' as const), i: index }),
  fc.record({ kind: fc.constant('written' as const), i: index }),
  fc.record({ kind: fc.constant('condition' as const), i: index }),
  fc.record({ kind: fc.constant('renewed' as const), i: index }),
  fc.record({ kind: fc.constant('group' as const), pool: fc.constantFrom('a', 'b') }),
  fc.record({ kind: fc.constant('noGroup' as const) }),
  fc.record({ kind: fc.constant('config' as const), grace: fc.constantFrom('40s', '60s') }),
  fc.record({ kind: fc.constant('time' as const), seconds: fc.constantFrom(1, 20, 31, 45) }),
  fc.record({ kind: fc.constant('catchUp' as const) }),
);

type Happening = typeof event extends fc.Arbitrary<infer T> ? T : never;

const status = { current_version: OLD, target_version: OLD, current_state: 'Idle' };
const progressing = {
  type: 'Progressing',
  status: 'False',
  reason: 'Paused',
  message: 'm',
  lastTransitionTime: '',
} as const;

/** The shadow of a node as it is when the controller has started an update. */
function startedShadow(i: number, generation: number): ShadowView {
  const spec = { state: 'StagedAndPerformedUpdate', version: NEW };
  const { metadata, ...rest } = shadowOf(i, { spec, status, generation });
  return readShadow({ ...rest, metadata: { ...metadata, name: `brs-node-${i}` } });
}

type Effects = {
  readonly [K in Happening['kind']]: (
    world: World,
    one: Extract<Happening, { kind: K }>,
    generation: number,
  ) => unknown;
};

const EFFECTS: Effects = {
  node: ({ server }, { i, isManaged, pool, machine: of }) => {
    const labels = { pool, ...(isManaged && { [MANAGED_LABEL]: MANAGED_LABEL_VALUE }) };
    server.set('nodes', `node-${i}`, { metadata: { uid: `uid-${i}-${of}`, labels }, spec: {}, status: {} });
  },
  noNode: ({ server }, { i }) => server.delete('nodes', `node-${i}`),
  shadow: ({ server }, { i, version, machine: of }, generation) => {
    const reported = { ...status, target_version: version };
    const object = shadowOf(i, { spec: { state: 'Idle' }, status: reported, generation, machine: of });
    server.set('bottlerocketshadows', `brs-node-${i}`, object);
  },
  noShadow: ({ server }, { i }) => server.delete('bottlerocketshadows', `brs-node-${i}`),
  written: ({ cluster }, { i }, generation) => cluster.assumeCache.shadow(startedShadow(i, generation + 1)),
  condition: ({ cluster, clock }, { i }, generation) =>
    cluster.assumeCache.condition(startedShadow(i, generation), { progressing, health: [], group: '' }, clock.now()),
  renewed: ({ server, clock }, { i }) => {
    const renewTime = new Date(clock.now()).toISOString();
    server.set('leases', `node-${i}`, { metadata: { namespace: 'kube-node-lease' }, spec: { renewTime } });
  },
  group: ({ server }, { pool }, generation) => {
    const spec = { nodeSelector: { matchLabels: { pool } } };
    server.set('bottlerocketnodegroups', 'group', { metadata: { uid: 'group', generation }, spec });
  },
  noGroup: ({ server }) => server.delete('bottlerocketnodegroups', 'group'),
  config: ({ server }, { grace }, generation) => {
    const spec = { connectivity: { nodeMonitorGracePeriod: grace } };
    server.set('brupopconfigs', 'cluster', { metadata: { uid: 'config', generation }, spec });
  },
  time: ({ clock }, { seconds }) => clock.advance(seconds * 1_000),
  catchUp: ({ cluster }) => cluster.catchUp(AbortSignal.timeout(5_000)),
};

async function happen<K extends Happening['kind']>(
  world: World,
  one: Extract<Happening, { kind: K }>,
  generation: number,
): Promise<void> {
  const effect = EFFECTS[one.kind];
  await effect(world, one, generation);
  await world.clock.advance(1);
}

it('a snapshot has of each node what one that makes every node has', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(event, { minLength: 10, maxLength: 40 }), async (events) => {
      const world = new World();
      await world.start();
      let generation = 1;
      for (const one of events) {
        generation += 1;
        await happen(world, one, generation);
        const found = world.nodes();
        await world.changeGroups(generation);
        expect(found).toEqual(world.nodes());
      }
      world.end();
    }),
    { numRuns: 20 },
  );
}, 60_000);

it('a snapshot has the same nodes when nothing has changed', async () => {
  const world = new World();
  await world.start();
  await happen(world, { kind: 'node', i: 0, isManaged: true, pool: 'a', machine: 0 }, 1);
  await happen(world, { kind: 'renewed', i: 0 }, 1);
  const before = world.cluster.snapshot(undefined).managedNodes;
  await world.clock.advance(5_000);
  expect(world.cluster.snapshot(undefined).managedNodes).toBe(before);
  world.end();
});

it('every node has the policy of a configuration that has changed', async () => {
  const world = new World();
  await world.start();
  for (const i of [0, 1]) await happen(world, { kind: 'node', i, isManaged: true, pool: 'a', machine: 0 }, 1);
  world.nodes();
  await happen(world, { kind: 'config', grace: '60s' }, 2);
  expect(world.nodes().map(({ grace }) => grace)).toEqual([60_000, 60_000]);
  world.end();
});

it('the shadow of a node is not that of a Node with its name, also when that is deleted', async () => {
  const world = new World();
  await world.start();
  await happen(world, { kind: 'node', i: 0, isManaged: true, pool: 'a', machine: 0 }, 1);
  await happen(world, { kind: 'shadow', i: 0, version: OLD, machine: 0 }, 1);
  world.server.set('nodes', 'brs-node-0', { metadata: { uid: 'other', labels: {} }, spec: {}, status: {} });
  await world.clock.advance(1);
  world.server.delete('nodes', 'brs-node-0');
  await world.clock.advance(1);
  expect(world.nodes().map(({ name }) => name)).toEqual(['node-0']);
  world.end();
});

it('a shadow with a name that the operator does not give belongs to no Node', async () => {
  const world = new World();
  await world.start();
  world.server.set('bottlerocketshadows', 'node-0', {
    metadata: { namespace: NAMESPACE, uid: 's' },
    spec: { state: 'Idle' },
  });
  await world.clock.advance(1);
  expect(world.nodes().map(({ name, node }) => [name, node])).toEqual([['node-0', undefined]]);
  world.end();
});

it('no node is late when the clock of the controller, which was an hour behind, is set right', async () => {
  const HOUR = 3_600_000;
  const world = new World();
  await world.start();
  await happen(world, { kind: 'node', i: 0, isManaged: true, pool: 'a', machine: 0 }, 1);
  const policyOf = () => world.cluster.snapshot(undefined).managedNodes[0]?.policy;
  expect(policyOf()?.deadlinesFrom).toBeUndefined();
  world.server.clockSkewMs = -HOUR;
  await world.clock.advance(20_000);
  expect(policyOf()).toMatchObject({ isSuspended: true, isClockWrong: true });
  world.clock.step(HOUR);
  world.server.clockSkewMs = 0;
  const rightAt = world.clock.now();
  await world.clock.advance(20_000);
  expect(policyOf()).toMatchObject({ isSuspended: false });
  expect(policyOf()?.isClockWrong).toBeUndefined();
  expect(policyOf()?.deadlinesFrom).toBeGreaterThan(rightAt - 20_000);
  world.end();
});

it('the time limits of steps after a drain start again when there was no leader for an hour, not for a minute', async () => {
  for (const [minutes, isAgain] of [
    [60, true],
    [1, false],
    [undefined, false],
  ] as const) {
    const world = new World();
    await world.start();
    await happen(world, { kind: 'node', i: 0, isManaged: true, pool: 'a', machine: 0 }, 1);
    world.ledMsAgo = minutes === undefined ? undefined : minutes * 60_000;
    const takenOverAt = world.clock.now();
    await world.cluster.catchUp(AbortSignal.timeout(5_000));
    await world.clock.advance(60_000);
    const policy = world.cluster.snapshot(undefined).managedNodes[0]?.policy;
    expect(policy?.isSuspended).not.toBe(true);
    expect(policy?.deadlinesFrom).toBe(isAgain ? takenOverAt : undefined);
    world.end();
  }
});
