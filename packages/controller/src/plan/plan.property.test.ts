import fc from 'fast-check';
import { RETRY_ANNOTATION } from '@brupop/shared/api/names';
import type { ShadowState } from '@brupop/shared/api/shadow';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { carryOut, happen, limitOf, newWorld, snapshotOf, startsOf, tell } from '../testing/fleet-simulation.ts';
import { badRelease, NODES, story, unhealthyRelease } from '../testing/stories.ts';
import { brokenIn, type Invariants } from '../testing/invariants.ts';
import { underWay, type World } from '../testing/world.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

/** Counted without the planner's functions. */
function nodesThatRolledBack({ rolledBack }: World, version: string | null | undefined): number {
  return new Set(rolledBack.filter((one) => one.version === version).map(({ name }) => name)).size;
}

test('no node starts or is drained for a version that two nodes rolled back from', () => {
  const property = fc.property(badRelease, (events) => {
    const wrong = tell(events).filter(({ before, made }) =>
      made.specs.some(({ outcome, spec }) => {
        const disturbs = outcome === 'Started' || (outcome === 'Advanced' && spec.state === 'RebootedIntoUpdate');
        return disturbs && nodesThatRolledBack(before, spec.version) > 1;
      }),
    );
    expect(wrong).toEqual([]);
  });
  fc.assert(property, { numRuns: 100 });
  expect.hasAssertions();
});

test('nodes that go back keep to the limit, and go back once from a version', () => {
  let reverted = 0;
  const property = fc.property(unhealthyRelease, (events) => {
    const steps = tell(events);
    expect(steps.filter(({ before, made, after }) => startsOf(made) > 0 && underWay(after) > limitOf(before))).toEqual(
      [],
    );
    const back = steps.flatMap(({ made }) => made.specs.filter(({ outcome }) => outcome === 'Reverting'));
    const from = back.map(({ node, shadow }) => `${node.metadata.name} from ${shadow.spec.version}`);
    expect(from).toEqual([...new Set(from)]);
    reverted += steps.flatMap(({ made }) => made.specs.filter(({ outcome }) => outcome === 'Reverted')).length;
  });
  fc.assert(property, { numRuns: 40, endOnFailure: true });
  expect(reverted).toBeGreaterThan(0);
});

const GOES_ON: readonly ShadowState[] = ['StagedAndPerformedUpdate', 'RebootedIntoUpdate'];

function hasReported({ shadow }: ManagedNode): boolean {
  if (shadow?.status === undefined || !GOES_ON.includes(shadow.spec.state)) return false;
  const { current_state, observedGeneration } = shadow.status;
  const isResult = current_state === shadow.spec.state || current_state === 'ErrorReset';
  return isResult && observedGeneration === shadow.metadata.generation;
}

const KEPT: Invariants = {
  'nothing is started or asked to reboot that cannot be drained': ({ before, made }) =>
    made.specs.some(({ spec, outcome, node }) => {
      const disturbs = outcome === 'Started' || outcome === 'Advanced';
      return disturbs && GOES_ON.includes(spec.state) && before.held.has(node.metadata.name);
    }),

  'however agents behave and users edit, no start makes more nodes under way than may be': ({ before, made, after }) =>
    startsOf(made) > 0 && underWay(after) > limitOf(before),

  'nothing but a start makes more nodes be under way': ({ before, made, after }) =>
    startsOf(made) === 0 && underWay(after) > underWay(before),

  'a pause or a configuration that cannot be followed starts nothing': ({ made }, { paused, problem }) =>
    (paused || problem !== undefined) && startsOf(made) > 0,

  'whatever is started was healthy, unless it goes back, and nobody else had cordoned it': ({ made }) =>
    made.specs.some(({ outcome, node, shadow }) => {
      const isUnhealthy = !node.ready && shadow.rollback === undefined;
      return outcome === 'Started' && (isUnhealthy || node.unschedulable);
    }),

  'a pause that interrupts leaves nothing under way that was not asked to reboot': (
    { after },
    { paused, pauseMode },
  ) => {
    const goesOn = after.managedNodes.some(({ shadow }) => shadow?.spec.state === 'StagedAndPerformedUpdate');
    return paused && pauseMode === 'Interrupt' && goesOn;
  },

  'a node under way that reports is always taken on, pause or not': ({ before, made }) => {
    const written = new Set(made.specs.map(({ node }) => node.metadata.name));
    return before.managedNodes.some((managedNode) => hasReported(managedNode) && !written.has(managedNode.name));
  },

  'a plan never asks to be made again in the past': ({ before, made }) =>
    made.wakeAt !== undefined && made.wakeAt <= before.now,
};

test('no story breaks an invariant', () => {
  const property = fc.property(story(40), (events) => {
    expect(brokenIn(tell(events), KEPT)).toEqual([]);
  });
  fc.assert(property, { numRuns: 150 });
  expect.hasAssertions();
});

const namesOf = ({ specs }: Plan): string[] => specs.map(({ node }) => node.metadata.name).toSorted();

test('the same world gives the same plan, in whatever order it is listed', () => {
  const property = fc.property(story(40), (events) => {
    for (const { before, made } of tell(events)) {
      const reversed = { ...before, managedNodes: before.managedNodes.toReversed() };
      expect(plan(snapshotOf(before), before.now)).toEqual(made);
      expect(namesOf(plan(snapshotOf(reversed), before.now))).toEqual(namesOf(made));
    }
  });
  fc.assert(property);
  expect.hasAssertions();
});

/** The agent does what it is asked for, and a user retries what was aborted. */
function behaveWell(world: World, node: number): void {
  happen(world, { kind: 'ensure', node });
  happen(world, { kind: 'health', node, ready: true });
  happen(world, { kind: 'cordon', node, unschedulable: false });
  happen(world, { kind: 'report', node, how: 'reached' });
  const { aborted } = world.managedNodes[node]?.shadow?.record ?? {};
  if (aborted !== undefined) happen(world, { kind: 'ask', node, request: { [RETRY_ANNOTATION]: aborted.version } });
}

test('after any past, well-behaved agents, retries of what was aborted and a valid configuration bring every node up to date', () => {
  fc.assert(
    fc.property(story(40), (events) => {
      const world = newWorld();
      for (const event of events) {
        happen(world, event);
        carryOut(world, plan(snapshotOf(world), world.now));
      }
      world.config = { rollout: { failureBudget: '100%' } };
      world.status = undefined;
      world.held = new Set();
      for (let turn = 0; turn < 400; turn += 1) {
        for (let i = 0; i < NODES; i += 1) behaveWell(world, i);
        const made = plan(snapshotOf(world), world.now);
        if (made.counts.upToDate === NODES) return;
        carryOut(world, made);
        if (made.specs.length === 0 && made.wakeAt !== undefined) world.now = made.wakeAt;
      }
      expect(plan(snapshotOf(world), world.now).counts).toMatchObject({ upToDate: NODES });
    }),
  );
});
