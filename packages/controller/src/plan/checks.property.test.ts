/** Jobs of checks and hooks, whatever becomes of them and of controllers. */
import fc from 'fast-check';
import { HAPPENINGS, JobWorld } from '../testing/job-world.ts';

const job = (cronJob: string): object => ({ job: { cronJob } });
const CONFIG = {
  health: {
    checks: [
      { name: 'smoke', when: ['Before', 'After'], ...job('smoke') },
      { name: 'slow', when: ['Before'], ...job('slow') },
    ],
  },
  hooks: {
    before: [
      { name: 'standby', ...job('standby') },
      { name: 'silence', ...job('silence') },
    ],
    after: [{ name: 'back', ...job('back') }],
  },
};
const happening = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom('complete' as const, 'wait' as const) },
  { weight: 1, arbitrary: fc.constantFrom(...HAPPENINGS) },
);
const stories = fc.array(happening, { minLength: 10, maxLength: 60 });

/** Tells a story, with a few reconciles after each happening. */
function tell(story: readonly (typeof HAPPENINGS)[number][], look: (world: JobWorld) => void): JobWorld {
  const world = new JobWorld(CONFIG);
  for (const what of story) {
    world.happen(what);
    for (let turn = 0; turn < 3; turn += 1) look(world);
  }
  return world;
}

test('no Job is created twice, however often controllers are killed', () => {
  fc.assert(
    fc.property(stories, (story) => {
      const world = tell(story, (one) => void one.reconcile());
      expect([...world.created].filter(([, times]) => times > 1)).toEqual([]);
    }),
    { numRuns: 300 },
  );
});

test('no node is drained before each check has passed and each hook has completed, in this attempt', () => {
  const needed = ['Before/check/smoke', 'Before/check/slow', 'Before/hook/standby', 'Before/hook/silence'];
  let drained = 0;
  fc.assert(
    fc.property(stories, (story) => {
      tell(story, (world) => {
        const attempt = world.attempt ?? '';
        const ofAttempt = [...world.runs.values()].filter(({ jobOf }) => jobOf.includes(attempt));
        const succeeded = ofAttempt
          .filter(({ jobName }) => world.jobs.get(jobName) === 'Succeeded')
          .map(({ key }) => key);
        const drains = world.reconcile().specs.some(({ spec }) => spec.state === 'RebootedIntoUpdate');
        if (!drains) return;
        drained += 1;
        expect(succeeded).toEqual(expect.arrayContaining(needed));
      });
    }),
    { numRuns: 300 },
  );
  expect(drained).toBeGreaterThan(10);
});

test('hooks run one after the other, and those before only when all checks have passed', () => {
  fc.assert(
    fc.property(stories, (story) => {
      tell(story, (world) => {
        world.reconcile();
        const running = [...world.runs.values()].filter(({ jobName }) => world.jobs.get(jobName) === 'Running');
        const hooks = running.filter(({ kind, jobOf }) => kind === 'hook' && jobOf.includes(world.attempt ?? ''));
        expect(hooks.length).toBeLessThanOrEqual(1);
      });
    }),
  );
});

test('if Jobs complete, every update ends with its hooks', () => {
  const world = new JobWorld(CONFIG);
  for (let turn = 0; turn < 60; turn += 1) {
    world.happen('complete');
    world.happen('wait');
    world.reconcile();
  }
  expect(world.outcomes).toEqual(['Started', 'Advanced', 'Advanced', 'Succeeded']);
  const keys = [...world.runs.values()].map(({ key }) => key);
  expect(keys).toEqual([
    'Before/check/smoke',
    'Before/check/slow',
    'Before/hook/standby',
    'Before/hook/silence',
    'After/check/smoke',
    'After/hook/back',
  ]);
  expect(world.node.shadow?.record.jobs).toBeUndefined();
});
