/** The real agent and the real planner of the controller with one node, through faults and edits at every instant. */
import fc from 'fast-check';
import { wrongIn } from './run.ts';
import { scenarios } from './scenarios.ts';

// oxlint-disable-next-line node/no-process-env -- a run is repeated with its seed
const { BRUPOP_FUZZ_SEED = '20261201', BRUPOP_JOINT_RUNS = '120' } = process.env;
const seed = Number(BRUPOP_FUZZ_SEED);

it('updates the node when nothing fails', async () => {
  expect(await wrongIn({ faults: [], needsReboot: false })).toBe('');
});

it(`leaves the node in service, updated or waiting for a user, after any faults and edits (seed ${seed})`, async () => {
  const property = fc.asyncProperty(scenarios, async (scenario) => expect(await wrongIn(scenario)).toBe(''));
  await fc.assert(property, { seed, numRuns: Number(BRUPOP_JOINT_RUNS) });
}, 600_000);
