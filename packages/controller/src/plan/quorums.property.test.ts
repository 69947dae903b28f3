/**
 * Whatever happens to a fleet of which five nodes have a member each: never more members are away for updates than the set
 * tolerates and one more. The count is made here, without the planner's functions.
 */
import { CORDONED_ANNOTATION } from '@brupop/shared/api/names';
import type { DrainPod } from '@brupop/shared/drain/pods';
import fc from 'fast-check';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { carryOut, cordoned, happen, newWorld, type Reconcile, snapshotOf } from '../testing/fleet-simulation.ts';
import { aMember, DB, withMembers } from '../testing/quorums.ts';
import { type Happening, NODES, releases, story, unhealthyRelease } from '../testing/stories.ts';
import { isUnderWay } from '../testing/world.ts';
import { wholePlan as plan } from '../whole-plan.ts';
import type { SpecChange } from './specs/spec-change.ts';

// oxlint-disable-next-line node/no-process-env -- a longer run is asked for so
const { BRUPOP_FUZZ_RUNS = '60' } = process.env;

/** The last node has no member. */
const MEMBERS = NODES - 1;

interface Sets {
  readonly members: number;
  readonly tolerate: number;
  /** From this happening on; before it, one more of five may be away, or there is no set. */
  readonly from: number;
  /** The API server cordons only when the agent says that it drains. */
  readonly cordonsLate: boolean;
  /** Members that are not Ready for a while, on whatever node. */
  readonly crashes: readonly { readonly node: number; readonly from: number; readonly to: number }[];
}

/** That of the simulation has a budget that allows nothing. */
const NAMESPACE = 'data';

/** The member of a node follows its health, unless it crashes. */
function podsOf(managedNodes: readonly ManagedNode[], { members, crashes }: Sets, step: number): DrainPod[] {
  return managedNodes.slice(0, members).map(({ name, node }, i) => {
    const crashed = crashes.some((one) => one.node === i && one.from <= step && step < one.to);
    const pod = aMember(`db-${name}`, name, { ready: node?.ready === true && !crashed });
    return { ...pod, metadata: { ...pod.metadata, namespace: NAMESPACE } };
  });
}

interface Told extends Reconcile {
  /** Names of the nodes whose member is Ready. */
  readonly ready: ReadonlySet<string>;
}

/** Tells a story in which all nodes may update at once, with a plan after each happening. */
function tellWith(events: readonly Happening[], sets: Sets): Told[] {
  const world = newWorld();
  const former = sets.members === MEMBERS ? [{ ...sets, tolerate: 1 }] : [];
  let written: unknown = {};
  world.config = configOf(written, former);
  return events.map((event, step) => {
    if (event.kind === 'config') written = event.spec;
    else happen(world, event);
    if (event.kind === 'config' || step === sets.from)
      world.config = configOf(written, step < sets.from ? former : [sets]);
    const says = (i: number): boolean => event.kind === 'report' && event.node === i && event.how === 'started';
    if (sets.cordonsLate)
      world.managedNodes = world.managedNodes.map((one, i) => cordonedLate(one, says(i), world.now));
    const before = { ...world };
    const known = snapshotOf(world);
    const pods = podsOf(world.managedNodes, sets, step);
    const { memberPods } = withMembers(known, pods, world.now);
    const onNodes = [...known.pods].map(([name, one]) => {
      const own = pods.filter(({ node }) => node === name);
      return [
        name,
        { ...one, pods: [...one.pods, ...own], namespaces: new Set([...one.namespaces, NAMESPACE]) },
      ] as const;
    });
    const made = plan({ ...known, memberPods, pods: new Map(onNodes) }, world.now);
    carryOut(world, made);
    const ready = new Set(pods.flatMap((pod) => (pod.ready ? [pod.node] : [])));
    return { before, made, after: { ...world }, ready };
  });
}

function configOf(spec: unknown, sets: readonly Sets[]): object {
  return {
    ...(typeof spec === 'object' ? spec : {}),
    concurrency: { maxUpdating: '100%' },
    quorums: sets.map(({ members, tolerate }) => ({ ...DB, namespace: NAMESPACE, members, tolerate })),
  };
}

/** The write of the spec does not cordon: that comes when the agent says that it drains. */
function cordonedLate(managedNode: ManagedNode, hasSaid: boolean, now: number): ManagedNode {
  const { node, shadow } = managedNode;
  if (node === undefined || shadow?.spec.state !== 'RebootedIntoUpdate') return managedNode;
  if (hasSaid) return { ...managedNode, node: cordoned(node, now) };
  if (shadow.status?.lastOperation?.operation === 'Drain') return managedNode;
  const { [CORDONED_ANNOTATION]: _, ...annotations } = node.metadata.annotations ?? {};
  return { ...managedNode, node: { ...node, metadata: { ...node.metadata, annotations }, unschedulable: false } };
}

const starts = ({ outcome }: SpecChange): boolean => outcome === 'Started';
const drains = ({ spec, outcome }: SpecChange): boolean =>
  outcome === 'Advanced' && spec.state === 'RebootedIntoUpdate';
const succeeds = ({ outcome }: SpecChange): boolean => outcome === 'Succeeded' || outcome === 'Reverted';
const isRecorded = ({ shadow }: SpecChange): boolean => shadow.record.members !== undefined;
const nameOf = ({ node }: SpecChange): string => node.metadata.name;

/** How many members are away: their own state, their nodes, and what the operator does to these, without the planner's functions. */
function awayIn({ after, ready }: Told, { members }: Sets): { readonly gone: number; readonly updating: number } {
  const nodes = after.managedNodes.slice(0, members);
  const isAway = ({ name, node }: ManagedNode): boolean => node?.ready !== true || !ready.has(name);
  const isStaged = ({ shadow }: ManagedNode): boolean => shadow?.spec.state === 'StagedAndPerformedUpdate';
  const updating = nodes.filter((one) => isAway(one) || isUnderWay(after, one));
  return { gone: updating.filter((one) => isAway(one) || !isStaged(one)).length, updating: updating.length };
}

const isMember = ({ node }: SpecChange, { members }: Sets): boolean =>
  Number(node.metadata.name.replace('node-', '')) < members;

const stories = fc.oneof(story(40, 10), unhealthyRelease, releases);
const crashes = fc.array(
  fc
    .record({ node: fc.nat(MEMBERS - 1), from: fc.nat(300), steps: fc.integer({ min: 1, max: 120 }) })
    .map(({ node, from, steps }) => ({ node, from, to: from + steps })),
  { maxLength: 4 },
);
const counts = fc.constantFrom(
  { members: MEMBERS, tolerate: 0 },
  { members: MEMBERS, tolerate: 1 },
  { members: 4, tolerate: 0 },
  { members: 3, tolerate: 0 },
);
const sets = fc
  .tuple(counts, fc.record({ from: fc.constantFrom(0, 0, 30), cordonsLate: fc.boolean(), crashes }))
  .map(([count, more]): Sets => ({ ...count, ...more }));

test('no node with a member starts or is drained while too many others are away, nor succeeds while its own is', () => {
  const seen = { drained: 0, deferred: 0, succeeded: 0 };
  const property = fc.property(stories, sets, (events, set) => {
    const steps = tellWith(events, set).slice(set.from);
    const wrong = steps.flatMap((one) => {
      const { gone, updating } = awayIn(one, set);
      const written = one.made.specs.filter((change) => isMember(change, set));
      const succeeding = written.filter((change) => succeeds(change) && isRecorded(change));
      seen.drained += written.filter(drains).length;
      seen.deferred += written.filter(({ because }) => because?.reason === 'QuorumAtRisk').length;
      seen.succeeded += succeeding.length;
      return [
        ...written.filter((change) => starts(change) && updating > set.tolerate + 1),
        ...written.filter((change) => drains(change) && gone > set.tolerate + 1),
        ...succeeding.filter((change) => !one.ready.has(nameOf(change))),
      ];
    });
    expect(wrong.map((change) => `${change.outcome} ${nameOf(change)}`)).toEqual([]);
  });
  fc.assert(property, { numRuns: Number(BRUPOP_FUZZ_RUNS) });
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(0);
});

test('a node without a member starts whatever the others do', () => {
  let started = 0;
  const property = fc.property(story(40), (events) => {
    const steps = tellWith(events, { members: MEMBERS, tolerate: 0, from: 0, cordonsLate: false, crashes: [] });
    started += steps
      .flatMap(({ made }) => made.specs)
      .filter((one) => starts(one) && one.node.metadata.name === `node-${MEMBERS}`).length;
  });
  fc.assert(property, { numRuns: 10 });
  expect(started).toBeGreaterThan(0);
});
