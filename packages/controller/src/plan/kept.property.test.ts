/** A plan that keeps what was found of nodes that have not changed beside one that finds everything anew. */
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { UnchangedNodes } from '../cluster/unchanged-nodes.ts';
import { carryOut, happen, newWorld, snapshotOf } from '../testing/fleet-simulation.ts';
import { badRelease, freeze, type Happening, story } from '../testing/stories.ts';
import { KeptFacts, wholePlan as plan } from '../whole-plan.ts';

// oxlint-disable-next-line node/no-process-env -- a longer run is asked for so
const { BRUPOP_FUZZ_RUNS = '30' } = process.env;

/** The events after which the two differ, in one process. */
function differences(events: readonly Happening[]): Happening[] {
  const world = newWorld();
  const [unchanged, kept] = [new UnchangedNodes(), new KeptFacts()];
  return events.filter((event) => {
    happen(world, event);
    const snapshot = snapshotOf(world);
    const made = plan(snapshot, world.now);
    const managedNodes = unchanged.recognised(snapshot.managedNodes);
    const isSame = isDeepStrictEqual(plan({ ...snapshot, managedNodes }, world.now, kept), made);
    carryOut(world, made);
    return !isSame;
  });
}

it.each([
  ['a story', story(40)],
  ['failures', fc.tuple(freeze, badRelease).map((parts) => parts.flat())],
])('they are the same after each event of %s', (_, stories) => {
  fc.assert(
    fc.property(stories, (events) => {
      expect(differences(events)).toEqual([]);
    }),
    { numRuns: Number(BRUPOP_FUZZ_RUNS) },
  );
});

it('a plan finds again only what has changed', () => {
  const world = newWorld();
  const [unchanged, kept] = [new UnchangedNodes(), new KeptFacts()];
  const decided = () => {
    const snapshot = snapshotOf(world);
    const nodes = unchanged.recognised(snapshot.managedNodes);
    return nodes.map((one) => kept.facts.of(one, world.now, () => ({ settings: undefined, slot: undefined })));
  };
  const before = decided();
  happen(world, { kind: 'health', node: 2, ready: false });
  const after = decided();
  expect(after.map((one, i) => one === before[i])).toEqual([true, true, false, true, true, true]);
});
