/** Whole rollouts with the defaults, while applications break: how long they take, and how many nodes they touch. */
import { sameVersion } from '@brupop/shared/api/version';
import type { DrainPod } from '@brupop/shared/drain/pods';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { aPod } from '@brupop/shared/testing/pods';
import { type AllPods, NO_PODS_LISTED } from '../cluster/all-pods.ts';
import { observedPods } from '../cluster/pods.ts';
import type { ManagedNode, ObservedPods, PodsOfNode } from '../cluster/snapshot.ts';
import { carryOut, happen, newWorld, snapshotOf } from '../testing/fleet-simulation.ts';
import { MINUTE, NEW, NOW, podsOf } from '../testing/objects.ts';
import { wholePlan, type WholePlan } from '../whole-plan.ts';

const STEP_MS = 5_000;
const SPEC = { concurrency: { maxUpdating: 1 }, monitoring: { healthyFor: '30s' }, health: { watchFor: '5m' } };

interface Scene {
  readonly spec?: object;
  /** What is wrong with the pods on a node. */
  readonly broken: (runsNew: boolean, minutes: number, node: string) => Partial<DrainPod> | undefined;
  readonly namespace?: string;
  /** Of the namespaces of the tenant, in each of which as many pods run on each node. */
  readonly crowd?: { readonly namespaces: number; readonly pods: number };
  /** How long a pod takes to become Ready, minutes. */
  readonly startsIn?: number;
}

interface Rollout {
  readonly minutes: number;
  readonly isComplete: boolean;
  readonly frozen: readonly string[];
  /** How many nodes ran the new version when it was held first. */
  readonly touchedWhenHeld: number | undefined;
}

const runsNew = ({ shadow }: ManagedNode): boolean => sameVersion(shadow?.status?.current_version, NEW);

/** The fleet of a scene, whose agents answer at once and whose pods are listed at once. */
class Fleet {
  readonly #scene: Scene;
  readonly #world = newWorld();
  readonly #startedAt = this.#world.now;
  /** Since when the pods on a node are as they are. */
  readonly #since = new Map<string, number>();
  #observed: ReadonlyMap<string, ObservedPods> = new Map();
  #allPods = NO_PODS_LISTED;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#world.config = { ...SPEC, ...scene.spec };
  }

  get minutes(): number {
    return (this.#world.now - this.#startedAt) / MINUTE;
  }

  get updated(): number {
    return this.#world.managedNodes.filter(runsNew).length;
  }

  get isComplete(): boolean {
    return this.#world.managedNodes.every(runsNew);
  }

  step(): WholePlan {
    const world = this.#world;
    for (const i of world.managedNodes.keys()) this.#answer(i);
    const pods = new Map(world.managedNodes.map((one) => [one.name, this.#podsOn(one)]));
    const snapshot = { ...snapshotOf(world), pods, observed: this.#observed, allPods: this.#allPods };
    const made = wholePlan(snapshot, world.now);
    this.#look(made, pods);
    carryOut(world, made);
    world.now += STEP_MS;
    return made;
  }

  /** A node that runs the new version has new pods. */
  #answer(i: number): void {
    const before = this.#world.managedNodes[i];
    happen(this.#world, { kind: 'report', node: i, how: 'reached' });
    const after = this.#world.managedNodes[i];
    if (before === undefined || after === undefined || runsNew(before) === runsNew(after)) return;
    this.#since.set(after.name, this.#world.now);
  }

  #podsOn(one: ManagedNode): PodsOfNode {
    const { broken, namespace = 'tenant', crowd = { namespaces: 1, pods: 1 }, startsIn = 0 } = this.#scene;
    const createdAt = this.#since.get(one.name) ?? this.#startedAt - startsIn * MINUTE;
    const readyAt = createdAt + startsIn * MINUTE;
    const started = readyAt > this.#world.now ? { ready: false, readyChanged: createdAt } : { readyChanged: readyAt };
    const changes = { ...started, ...broken(runsNew(one), this.minutes, one.name) };
    if (one.node === undefined) throw new Error('there is a Node');
    const pods = Array.from({ length: crowd.namespaces * crowd.pods }, (_, i) => {
      const own = i < crowd.pods ? namespace : `${namespace}-${Math.floor(i / crowd.pods)}`;
      const name = i === 0 ? 'web' : `web-${i}`;
      const pod = aPod(name, { controller: `ReplicaSet ${own}/${name}`, ...changes });
      return { ...pod, metadata: { ...pod.metadata, namespace: own, creationTimestamp: rfc3339(createdAt) } };
    });
    return podsOf(one.node, pods, this.#world.now);
  }

  #look(made: WholePlan, pods: ReadonlyMap<string, PodsOfNode>): void {
    const listed = made.lookUps.flatMap(({ metadata: { name } }) => {
      const found = pods.get(name);
      return found === undefined ? [] : [[name, observedPods(found, this.#observed.get(name))] as const];
    });
    this.#observed = new Map([...[...this.#observed].filter(([name]) => made.observes.has(name)), ...listed]);
    if (made.allPods === 'list') this.#allPods = all(pods, this.#world.now);
    if (made.allPods === 'forget') this.#allPods = NO_PODS_LISTED;
  }
}

/** Plans every few seconds until all nodes run the new version, or the time is over. */
function rollOut(scene: Scene, maxMinutes: number): Rollout {
  const fleet = new Fleet(scene);
  let touchedWhenHeld: number | undefined;
  let frozen: readonly string[] = [];
  while (fleet.minutes < maxMinutes && !fleet.isComplete) {
    const made = fleet.step();
    if (made.holds.some(({ suspects }) => suspects.length > 0)) touchedWhenHeld ??= fleet.updated;
    frozen = made.frozen.map(({ version }) => version);
  }
  return { minutes: fleet.minutes, isComplete: fleet.isComplete, frozen, touchedWhenHeld };
}

function all(pods: ReadonlyMap<string, PodsOfNode>, now: number): AllPods {
  const placed = [...pods].flatMap(([node, of]) =>
    of.pods.map(({ ready, mirror, healthIgnored, drainPolicy, controller }) => ({
      namespace: 'apps',
      node,
      isTerminating: false,
      ready,
      mirror,
      healthIgnored,
      drainPolicy,
      controller,
    })),
  );
  return { pods: placed, seenAt: now, asOf: now, problem: undefined, nextAt: now };
}

const CRASHING = { ready: false, failing: true, mostRestarts: 5 };
const onNewOnly: Scene['broken'] = (isNew) => (isNew ? CRASHING : undefined);

const undisturbed = rollOut({ broken: () => undefined }, 120);

it('without trouble, a rollout ends', () => {
  expect(undisturbed).toMatchObject({ isComplete: true, frozen: [], touchedWhenHeld: undefined });
});

it('an application that breaks on the new version is held after three nodes at most', () => {
  const found = rollOut({ broken: onNewOnly }, 30);
  expect(found.isComplete).toBe(false);
  expect(found.touchedWhenHeld).toBeLessThanOrEqual(3);
});

it('so is one that never becomes Ready', () => {
  const found = rollOut({ broken: (isNew) => (isNew ? { ready: false } : undefined) }, 30);
  expect(found.isComplete).toBe(false);
  expect(found.touchedWhenHeld).toBeLessThanOrEqual(3);
});

it.each([1.5, 3, 4.5])('so is one that took %p minutes before', (startsIn) => {
  const broken: Scene['broken'] = (isNew) => (isNew ? { ready: false, readyChanged: 0 } : undefined);
  const found = rollOut({ broken, startsIn }, 30);
  expect(found.isComplete).toBe(false);
  expect(found.touchedWhenHeld).toBeLessThanOrEqual(3);
});

it.each([1.5, 4.5])('one that takes %p minutes as it did before holds nothing', (startsIn) => {
  const found = rollOut({ broken: () => undefined, startsIn }, 120);
  expect(found).toMatchObject({ isComplete: true, frozen: [], touchedWhenHeld: undefined });
  expect(found.minutes - undisturbed.minutes).toBeLessThan(30);
});

it('with pods that crash on new nodes, a tenant delays a rollout by little more than an hour, and freezes nothing', () => {
  const found = rollOut({ broken: onNewOnly }, 240);
  expect(found).toMatchObject({ isComplete: true, frozen: [] });
  expect(found.minutes - undisturbed.minutes).toBeLessThan(65);
});

it('with pods that crash on all nodes, a tenant delays it by less than an hour', () => {
  const found = rollOut({ broken: () => CRASHING }, 240);
  expect(found).toMatchObject({ isComplete: true, frozen: [], touchedWhenHeld: undefined });
  expect(found.minutes - undisturbed.minutes).toBeLessThan(60);
});

it.each<[string, Scene['broken']]>([
  ['on new nodes', onNewOnly],
  ['on all nodes', () => CRASHING],
])('50 such pods in each of four namespaces, %s, delay it no longer than one', (_, broken) => {
  const found = rollOut({ broken, crowd: { namespaces: 4, pods: 50 } }, 240);
  const one = rollOut({ broken }, 240);
  expect(found).toMatchObject({ isComplete: true, frozen: [] });
  expect(found.minutes).toBeLessThanOrEqual(one.minutes + 1);
});

it('an application that breaks everywhere in the middle of a rollout is no reason to hold it', () => {
  const spec = { health: { watchFor: '5m', podsBefore: 'Ignored' } };
  const found = rollOut({ spec, broken: (_, minutes) => (minutes > 2 ? CRASHING : undefined) }, 240);
  expect(found).toMatchObject({ isComplete: true, frozen: [], touchedWhenHeld: undefined });
  expect(found.minutes - undisturbed.minutes).toBeLessThan(10);
});

it('an application of a trusted namespace freezes the version, and no time ends that', () => {
  const found = rollOut({ broken: onNewOnly, namespace: 'kube-system' }, 120);
  expect(found).toMatchObject({ isComplete: false, frozen: [NEW] });
});

it('an application that flaps is held for an hour in all at most', () => {
  const found = rollOut({ broken: (isNew, minutes) => (isNew && minutes % 4 < 2 ? CRASHING : undefined) }, 240);
  expect(found).toMatchObject({ isComplete: true, frozen: [] });
  expect(found.minutes - undisturbed.minutes).toBeLessThan(65);
});

/** On each node it runs for three of seven minutes, from another minute on, whatever version the node runs. */
const CRASH_LOOP: Scene['broken'] = (_, minutes, node) => {
  const runsFor = (minutes + 2 * Number(node.replace('node-', ''))) % 7;
  if (runsFor >= 3) return CRASHING;
  const restartedAt = NOW + (minutes - runsFor) * MINUTE;
  return { readyChanged: restartedAt, mostRestarts: 5, restartedAt };
};

it.each(['tenant', 'kube-system'])(
  'an application of %s that crashed again and again before, on all nodes, holds and freezes nothing',
  (namespace) => {
    const spec = { health: { watchFor: '5m', podsBefore: 'Ignored' } };
    const found = rollOut({ spec, broken: CRASH_LOOP, namespace }, 240);
    expect(found).toMatchObject({ isComplete: true, frozen: [], touchedWhenHeld: undefined });
  },
);
