/** A fleet whose nodes join, leave, are replaced under their names and move between groups, in every state of their updates. */
import { isDeepStrictEqual } from 'node:util';
import { RETRY_ANNOTATION, ZONE_LABEL } from '@brupop/shared/api/names';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import fc from 'fast-check';
import { isBeingRemoved } from '../cluster/node.ts';
import { isOwnedBy } from '../cluster/shadow.ts';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import { UnchangedNodes } from '../cluster/managed-nodes.ts';
import { nodesAtOnce } from '../policy/policy.ts';
import { carryOut, happen, newWorld, POOLS, snapshotOf, startsOf } from '../testing/fleet-simulation.ts';
import { aGroup, aManagedNode, aNode, withGroups } from '../testing/objects.ts';
import { type Happening, NODES, story } from '../testing/stories.ts';
import { isUnderWay, type World } from '../testing/world.ts';
import { KeptFacts, wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

// oxlint-disable-next-line node/no-process-env -- a longer run is asked for so
const { BRUPOP_FUZZ_RUNS = '30' } = process.env;

type Change =
  /** By another machine of the same name. Until the controller deletes it, the shadow of the earlier one may remain. */
  | { readonly kind: 'replace'; readonly node: number; readonly keepsShadow: boolean }
  | { readonly kind: 'leave'; readonly nodes: readonly number[]; readonly keepsShadow: boolean }
  | { readonly kind: 'join'; readonly names: readonly number[] }
  | { readonly kind: 'move'; readonly node: number; readonly pool: string; readonly zone: string }
  | { readonly kind: 'taint'; readonly node: number; readonly isSet: boolean };
type Event = Happening | Change;

const MOST = 3 * NODES;
const anyOne = fc.nat(MOST - 1);
const change: fc.Arbitrary<Change> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('replace' as const), node: anyOne, keepsShadow: fc.boolean() }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('leave' as const),
      nodes: fc.array(anyOne, { maxLength: MOST }),
      keepsShadow: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('join' as const), names: fc.array(anyOne, { maxLength: MOST }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('move' as const),
      node: anyOne,
      pool: fc.constantFrom(...POOLS, 'none'),
      zone: fc.constantFrom('zone-0', 'zone-9'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('taint' as const), node: anyOne, isSet: fc.boolean() }) },
);
/** The others concern nodes that have joined as well. */
const stories: fc.Arbitrary<Event[]> = fc
  .tuple(story(40), story(40), fc.array(fc.tuple(fc.nat(3), change), { minLength: 5, maxLength: 60 }))
  .map(([first, second, changes]) => {
    const others = second.map((one) => ('node' in one ? { ...one, node: one.node + NODES } : one));
    const all = first.flatMap((one, i) => [one, ...others.slice(i, i + 1)]);
    return changes.flatMap(([count, one], i): Event[] => [...all.slice(3 * i, 3 * i + count), one]);
  });

let machines = 0;
function joined(name: string, now: number): ManagedNode {
  machines += 1;
  const labels = { [ZONE_LABEL]: `zone-${machines % 3}`, pool: POOLS[machines % 2] ?? '' };
  const node = aNode({ name, uid: `machine-${machines}`, labels, creationTimestamp: rfc3339(now) });
  return { ...aManagedNode(name), node, shadow: undefined, missingSince: now };
}

function forget(world: World, name: string): void {
  for (const key of ['disturbed', 'rebooted', 'configured'] as const)
    world[key] = new Set([...world[key]].filter((one) => one !== name));
}

function apply(world: World, event: Event): void {
  const { now } = world;
  const edit = (nodes: readonly number[], edited: (one: ManagedNode) => ManagedNode[]): void => {
    const names = new Set(nodes.map((i) => `node-${i}`));
    world.managedNodes = world.managedNodes.flatMap((one) => (names.has(one.name) ? edited(one) : [one]));
  };
  switch (event.kind) {
    case 'replace':
      return edit([event.node], (one) => {
        if (one.node === undefined) return [one];
        forget(world, one.name);
        return [{ ...joined(one.name, now), shadow: event.keepsShadow ? one.shadow : undefined }];
      });
    case 'leave':
      return edit(event.nodes, (one) => {
        forget(world, one.name);
        return event.keepsShadow && one.shadow !== undefined ? [{ ...one, node: undefined, missingSince: now }] : [];
      });
    case 'join': {
      const known = new Set(world.managedNodes.map(({ name }) => name));
      const names = [...new Set(event.names.map((i) => `node-${i}`))].filter((name) => !known.has(name));
      world.managedNodes = [...world.managedNodes, ...names.map((name) => joined(name, now))];
      return undefined;
    }
    case 'move':
      return edit([event.node], (one) => [relabelled(one, { pool: event.pool, [ZONE_LABEL]: event.zone })]);
    case 'taint':
      return edit([event.node], (one) => [tainted(one, event.isSet)]);
    default: {
      const index = 'node' in event ? world.managedNodes.findIndex(({ name }) => name === `node-${event.node}`) : -1;
      return happen(world, 'node' in event ? { ...event, node: index } : event);
    }
  }
}

function relabelled(one: ManagedNode, labels: Readonly<Record<string, string>>): ManagedNode {
  if (one.node === undefined) return one;
  const { metadata } = one.node;
  const moved = { ...metadata, labels: { ...metadata.labels, ...labels } };
  return { ...one, node: { ...one.node, metadata: moved } };
}

function tainted(one: ManagedNode, isSet: boolean): ManagedNode {
  const taint = { key: 'karpenter.sh/disrupted', value: '', effect: 'NoSchedule' };
  return one.node === undefined ? one : { ...one, node: { ...one.node, taints: isSet ? [taint] : [] } };
}

/** What the controller does beside specs: shadows of Nodes that are gone are deleted. */
function cleanUp(world: World, { cleanups }: Plan): void {
  const names = new Set(
    cleanups.filter(({ kind }) => kind === 'DeleteShadow').map(({ managedNode: { name } }) => name),
  );
  world.managedNodes = world.managedNodes.flatMap((one) => {
    if (!names.has(one.name)) return [one];
    return one.node === undefined ? [] : [{ ...one, shadow: undefined, missingSince: world.now }];
  });
}

const GROUPS = [
  aGroup('even', { concurrency: { maxUpdating: '50%', maxUnavailable: 3 } }),
  aGroup('odd', { rollout: { failureBudget: 2, canary: { nodes: 1 } } }),
];

class Fleet {
  readonly world = newWorld();
  readonly wrong: string[] = [];
  readonly #unchanged = new UnchangedNodes();
  readonly #kept = new KeptFacts(2);
  groups: readonly BottlerocketNodeGroup[] = GROUPS;
  #groups: readonly BottlerocketNodeGroup[] = GROUPS;
  started = 0;

  after(event: Event): Plan {
    const { world } = this;
    apply(world, event);
    const snapshot = this.#snapshot();
    const made = plan(snapshot, world.now, new KeptFacts(1_000));
    const managedNodes = this.#unchanged.recognised(snapshot.managedNodes);
    const again = plan({ ...snapshot, managedNodes }, world.now, this.#kept);
    if (!isDeepStrictEqual(withoutParts(again), withoutParts(made))) this.wrong.push('a plan that keeps differs');
    const before = world.managedNodes;
    carryOut(world, made);
    this.#check(before, made);
    cleanUp(world, made);
    return made;
  }

  #snapshot(): Snapshot {
    const { world } = this;
    const groups = this.groups.map((group) => {
      const status = world.groups.get(group.metadata.name);
      return status === undefined ? group : { ...group, status };
    });
    if (!isDeepStrictEqual(groups, this.#groups)) this.#groups = groups;
    return withGroups(snapshotOf(world), this.#groups);
  }

  #check(before: readonly ManagedNode[], made: Plan): void {
    const { world, wrong } = this;
    this.started += startsOf(made);
    for (const change of made.specs)
      wrong.push(
        ...wrongOf(
          change,
          before.find(({ name }) => name === change.node.metadata.name),
        ),
      );
    if (made.wakeAt !== undefined && made.wakeAt <= world.now) wrong.push('wakes in the past');
    if (startsOf(made) === 0) return;
    const present = world.managedNodes.filter(({ node }) => node !== undefined);
    const updating = present.filter((one) => hasOwnShadow(one) && isUnderWay(world, one)).length;
    const may = nodesAtOnce(made.policy.concurrency.maxUpdating, present.length);
    if (updating > may) wrong.push(`${updating} of ${present.length} are updating, ${may} may be`);
  }
}

/** Also without a shadow. */
function hasOwnShadow({ node, shadow }: ManagedNode): boolean {
  return shadow === undefined || (node !== undefined && isOwnedBy(shadow, node));
}

function wrongOf({ node, shadow, outcome }: Plan['specs'][number], one: ManagedNode | undefined): string[] {
  const isOther = one?.node !== node || one.shadow?.metadata.uid !== shadow.metadata.uid;
  return [
    ...(isOther ? ['a spec of another node'] : []),
    ...(isOwnedBy(shadow, node) ? [] : ['a spec of an earlier Node']),
    ...(outcome === 'Started' && isBeingRemoved(node) ? ['a start of a node that is being removed'] : []),
  ];
}

function withoutParts({ conditions, releases, ...made }: Plan): object {
  const flat = releases.map((one) => ({ ...one, succeeded: one.succeeded.flat(), failed: one.failed.flat() }));
  return { ...made, conditions: conditions.flat(), releases: flat };
}

it('keeps its limits, and a plan that keeps what it has found is the same', () => {
  let started = 0;
  const property = fc.property(stories, (events) => {
    const fleet = new Fleet();
    for (const event of events) fleet.after(event);
    started += fleet.started;
    expect(fleet.wrong).toEqual([]);
  });
  fc.assert(property, { numRuns: Math.ceil(Number(BRUPOP_FUZZ_RUNS) / 5), endOnFailure: true });
  expect(started).toBeGreaterThan(0);
});

/** The agents of all nodes do what they are asked for. */
function behaveWell(fleet: Fleet): void {
  for (let node = 0; node < MOST; node += 1) {
    for (const event of [
      { kind: 'taint', node, isSet: false },
      { kind: 'ensure', node },
      { kind: 'health', node, ready: true },
      { kind: 'cordon', node, unschedulable: false },
      { kind: 'report', node, how: 'reached' },
    ] as const)
      apply(fleet.world, event);
    const { aborted } = fleet.world.managedNodes.find(({ name }) => name === `node-${node}`)?.shadow?.record ?? {};
    if (aborted !== undefined)
      apply(fleet.world, { kind: 'ask', node, request: { [RETRY_ANNOTATION]: aborted.version } });
  }
}

it('ends up to date, whatever has become of its nodes', () => {
  const property = fc.property(stories, (events) => {
    const fleet = new Fleet();
    for (const event of events) fleet.after(event);
    const { world } = fleet;
    world.config = { rollout: { failureBudget: '100%' } };
    world.status = undefined;
    world.groups = new Map();
    world.held = new Set();
    fleet.groups = [];
    let made = fleet.after({ kind: 'time', minutes: 5 });
    for (let turn = 0; turn < 100 && made.counts.upToDate < made.counts.managed; turn += 1) {
      behaveWell(fleet);
      made = fleet.after({ kind: 'time', minutes: turn % 5 === 4 ? 120 : 5 });
    }
    const reasons = made.conditions
      .flat()
      .map(({ node, progressing }) => [node.metadata.name, progressing.reason, progressing.message]);
    expect([fleet.wrong, reasons.filter(([, reason]) => reason !== 'UpToDate')]).toEqual([[], []]);
    expect(made.counts).toMatchObject({ upToDate: made.counts.managed });
  });
  fc.assert(property, { numRuns: Math.ceil(Number(BRUPOP_FUZZ_RUNS) / 10), endOnFailure: true });
});
