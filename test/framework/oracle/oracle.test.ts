/** This planner beside the one that was frozen before it was restructured. */
import fc from 'fast-check';
import { firstDifference, frozenFleet } from './comparison.ts';
import { stories } from './events.ts';
import { Fleet } from './fleet.ts';

// oxlint-disable-next-line node/no-process-env -- a longer run is asked for so
const { BRUPOP_ORACLE_RUNS = '25', BRUPOP_FUZZ_SEED = '20261126' } = process.env;

it(`says what the frozen planner says, after each event of a story (seed ${BRUPOP_FUZZ_SEED})`, () => {
  const Frozen = frozenFleet();
  const property = fc.property(stories, (story) => {
    expect(firstDifference(story, new Frozen(), new Fleet())).toBeUndefined();
  });
  fc.assert(property, { seed: Number(BRUPOP_FUZZ_SEED), numRuns: Number(BRUPOP_ORACLE_RUNS) });
  expect.hasAssertions();
});
