/**
 * Whatever happens to a fleet of which five nodes have a member each: never more members are away for updates than the set
 * tolerates and one more. The count is made here, without the planner's functions.
 */
import type { DrainPod } from '@brupop/shared/drain/pods';
import fc from 'fast-check';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { carryOut, happen, newWorld, type Reconcile, snapshotOf } from '../testing/fleet-simulation.ts';
import { aMember, DB, withMembers } from '../testing/quorums.ts';
import { type Happening, NODES, story, unhealthyRelease } from '../testing/stories.ts';
import { wholePlan as plan } from '../whole-plan.ts';
import type { SpecChange } from './spec-change.ts';

// oxlint-disable-next-line node/no-process-env -- a longer run is asked for so
const { BRUPOP_FUZZ_RUNS = '30' } = process.env;

/** The last node has no member. */
const MEMBERS = NODES - 1;

interface Sets {
  readonly members: number;
  readonly tolerate: number;
}

/** That of the simulation has a budget that allows nothing. */
const NAMESPACE = 'data';

/** The member of a node follows its health. */
function podsOf(managedNodes: readonly ManagedNode[], { members }: Sets): DrainPod[] {
  return managedNodes.slice(0, members).map(({ name, node }) => {
    const pod = aMember(`db-${name}`, name, { ready: node?.ready === true });
    return { ...pod, metadata: { ...pod.metadata, namespace: NAMESPACE } };
  });
}

/** Tells a story in which all nodes may update at once, with a plan after each happening. */
function tellWith(events: readonly Happening[], sets: Sets): Reconcile[] {
  const world = newWorld();
  const withSets = (spec: unknown): object => ({
    ...(typeof spec === 'object' ? spec : {}),
    concurrency: { maxUpdating: '100%' },
    quorums: [{ ...DB, namespace: NAMESPACE, ...sets }],
  });
  world.config = withSets({});
  return events.map((event) => {
    happen(world, event.kind === 'config' ? { ...event, spec: withSets(event.spec) } : event);
    const before = { ...world };
    const known = snapshotOf(world);
    const pods = podsOf(world.managedNodes, sets);
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
    return { before, made, after: { ...world } };
  });
}

const starts = ({ outcome }: SpecChange): boolean => outcome === 'Started';
const drains = ({ spec, outcome }: SpecChange): boolean =>
  outcome === 'Advanced' && spec.state === 'RebootedIntoUpdate';

/** Its pods may be evicted, or its host may reboot. */
function isGone({ node, shadow }: ManagedNode): boolean {
  const goes = shadow?.spec.state === 'RebootedIntoUpdate' || shadow?.spec.state === 'MonitoringUpdate';
  return goes || node?.ready !== true;
}

const isMember = ({ node }: SpecChange, { members }: Sets): boolean =>
  Number(node.metadata.name.replace('node-', '')) < members;

const stories = fc.oneof(story(40, 10), unhealthyRelease);
const sets = fc.constantFrom<Sets>(
  { members: MEMBERS, tolerate: 0 },
  { members: MEMBERS, tolerate: 1 },
  { members: 4, tolerate: 0 },
  { members: 3, tolerate: 0 },
);

test('no node with a member starts or is drained while too many others are away', () => {
  let drained = 0;
  const property = fc.property(stories, sets, (events, set) => {
    const wrong = tellWith(events, set).filter(({ made, after }) => {
      const members = after.managedNodes.slice(0, set.members);
      const gone = members.filter(isGone).length;
      const updating = members.filter((one) => isGone(one) || one.shadow?.spec.state === 'StagedAndPerformedUpdate');
      const written = made.specs.filter((one) => isMember(one, set));
      drained += written.filter(drains).length;
      const isBeyond = written.some(starts) && updating.length > set.tolerate + 1;
      return isBeyond || (written.some(drains) && gone > set.tolerate + 1);
    });
    expect(wrong.map(({ made }) => made.specs.map(({ outcome, node }) => `${outcome} ${node.metadata.name}`))).toEqual(
      [],
    );
  });
  fc.assert(property, { numRuns: Number(BRUPOP_FUZZ_RUNS) });
  expect(drained).toBeGreaterThan(0);
});

test('a node without a member starts whatever the others do', () => {
  let started = 0;
  const property = fc.property(story(40), (events) => {
    const told = tellWith(events, { members: MEMBERS, tolerate: 0 });
    started += told
      .flatMap(({ made }) => made.specs)
      .filter((one) => starts(one) && one.node.metadata.name === `node-${MEMBERS}`).length;
  });
  fc.assert(property, { numRuns: 10 });
  expect(started).toBeGreaterThan(0);
});
