/** A plan that keeps what was found of nodes that have not changed beside one that finds everything anew. */
import { isDeepStrictEqual } from 'node:util';
import type { NodeRecord } from '@brupop/shared/api/record';
import { hashOf, SETTING_CLASSES } from '@brupop/shared/api/settings';
import { ALLOWED, SHADOW_STATES } from '@brupop/shared/api/shadow';
import fc from 'fast-check';
import type { JobView } from '../cluster/checks.ts';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import { UnchangedNodes } from '../cluster/managed-nodes.ts';
import { carryOut, happen, newWorld, snapshotOf } from '../testing/fleet-simulation.ts';
import {
  ago,
  aGroup,
  aManagedNode,
  aSnapshot,
  MINUTE,
  NEW,
  NO_CHECKS_KNOWN,
  NOW,
  OLD,
  withGroups,
} from '../testing/objects.ts';
import { badRelease, freeze, type Happening, story } from '../testing/stories.ts';
import { KeptFacts, type WholePlan, wholePlan as plan } from '../whole-plan.ts';
import type { CheckWork } from './look-ups.ts';

// oxlint-disable-next-line node/no-process-env -- a longer run is asked for so
const { BRUPOP_FUZZ_RUNS = '30' } = process.env;

/** Nodes of a part, and of one that is the whole fleet. */
const [FEW, ALL] = [2, 1_000];

/** The same, however many nodes a part has. */
function withoutParts({ conditions, releases, ...made }: WholePlan): object {
  const flat = releases.map((one) => ({ ...one, succeeded: one.succeeded.flat(), failed: one.failed.flat() }));
  return { ...made, conditions: conditions.flat(), releases: flat };
}

/** The events after which the two differ, in one process. */
function differences(events: readonly Happening[]): Happening[] {
  const world = newWorld();
  const [unchanged, kept] = [new UnchangedNodes(), new KeptFacts(FEW)];
  return events.filter((event) => {
    happen(world, event);
    const snapshot = snapshotOf(world);
    const made = plan(snapshot, world.now, new KeptFacts(ALL));
    const managedNodes = unchanged.recognised(snapshot.managedNodes);
    const again = plan({ ...snapshot, managedNodes }, world.now, kept);
    const isSame = isDeepStrictEqual(withoutParts(again), withoutParts(made));
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

const LEAF = { key: 'settings.motd', value: '"x"', owner: 'web' };
const HASH = hashOf([[LEAF.key, LEAF.value]]);
/** Near the limits by which nodes are late, proved or lost. */
const time = fc.constantFrom(-90, -46, -16, -6, -5, -4, -1, 0, 1, 4, 20).map((minutes) => ago(-minutes * MINUTE));
const settingsAt = fc.record({ hash: fc.constantFrom(HASH, 'other'), at: time });
const record: fc.Arbitrary<NodeRecord> = fc.record(
  {
    startedAt: time,
    from: fc.constantFrom(OLD, NEW),
    rebootRequestedAt: time,
    failed: fc.record({
      version: fc.constantFrom(OLD, NEW),
      code: fc.constantFrom('CheckFailed', 'RolledBack'),
      at: time,
    }),
    rollback: fc.record({
      failed: fc.constantFrom(OLD, NEW),
      previous: fc.constantFrom(OLD, NEW),
      since: time,
      isDone: fc.boolean(),
    }),
    settingsFailed: settingsAt,
    settingsRebooted: settingsAt,
    jobs: fc.record(
      {
        from: fc.constant(OLD),
        to: fc.constant(NEW),
        'Before/check/smoke': fc.constantFrom('Started', 'Succeeded'),
        'After/check/smoke': fc.constantFrom('Started', 'Failed'),
        'After/hook/out': fc.constantFrom('Due', 'Started'),
      },
      { requiredKeys: ['from', 'to'] },
    ),
  },
  { requiredKeys: [] },
);
const settings = fc.record(
  {
    lastApplied: fc.record({ hash: fc.constantFrom(HASH, 'other'), time }),
    message: fc.constant('the host refused it'),
    pending: fc.array(
      fc.record({ key: fc.constant(LEAF.key), class: fc.constantFrom(...SETTING_CLASSES), reason: fc.constant('r') }),
      { maxLength: 1 },
    ),
  },
  { requiredKeys: [] },
);
const anyNode = fc
  .record({
    node: fc.record({ ready: fc.boolean(), isUnreachable: fc.boolean(), readySince: time }),
    pool: fc.constantFrom('web', 'other'),
    record,
    spec: fc.record({
      state: fc.constantFrom('Idle' as const, ...SHADOW_STATES),
      version: fc.constantFrom(OLD, NEW, null),
      state_transition_timestamp: time,
      settings: fc.record({ leaves: fc.constantFrom([LEAF], []), allow: fc.constantFrom(...ALLOWED) }),
    }),
    status: fc.record({
      observedGeneration: fc.constantFrom(2, 3),
      current_version: fc.constantFrom(OLD, NEW),
      settings,
    }),
    evictedSince: fc.constantFrom(undefined, NOW, NOW - 10 * MINUTE),
  })
  .map(({ node, pool, evictedSince, ...shadow }) => (name: string): ManagedNode => ({
    ...aManagedNode(name, { ...node, labels: { pool } }, shadow),
    evictedSince,
  }));

/** The group requests the setting, there is a check and a hook, and a user may accept failures later. */
function snapshotWith(nodes: readonly ManagedNode[], resume: string | undefined): Snapshot {
  const job = { cronJob: 'job' };
  const spec = {
    rollout: { rollback: 'Automatic', ...(resume !== undefined && { resume }) },
    health: { checks: [{ name: 'smoke', when: ['Before', 'After'], job }] },
    hooks: { after: [{ name: 'out', job }] },
  };
  return withGroups(aSnapshot(nodes, spec), [aGroup('web', { settings: { motd: 'x' } })]);
}

/** Gives all Jobs that a plan starts or reads the state. */
function runJobs(
  { jobs }: { jobs: Map<string, JobView> },
  { nodes, read }: CheckWork,
  state: JobView['state'],
  now: number,
): void {
  const started = nodes.flatMap(({ start, create }) => [...start, ...create]);
  for (const { jobName, jobOf } of [...started, ...read]) jobs.set(jobName, { jobOf, state, since: now, seenAt: now });
}

it('they are the same while only time passes and Jobs run, also when the clock is set back', () => {
  const nodes = fc.array(anyNode, { minLength: 4, maxLength: 4 });
  const step = fc.record({
    minutes: fc.integer({ min: -10, max: 60 }),
    jobs: fc.constantFrom<JobView['state'][]>('Creating', 'Running', 'Succeeded', 'Failed', 'Gone'),
  });
  const steps = fc.array(step, { minLength: 12, maxLength: 12 });
  const property = fc.property(nodes, fc.option(time, { nil: undefined }), steps, (made, resume, all) => {
    const checks = { ...NO_CHECKS_KNOWN, jobs: new Map<string, JobView>() };
    const shadows = made.map((nodeOf, i) => nodeOf(`node-${i}`));
    const snapshot = { ...snapshotWith(shadows, resume), checks };
    const kept = new KeptFacts(FEW);
    const differs = all.filter(({ minutes, jobs }) => {
      const now = NOW + minutes * MINUTE;
      const found = plan(snapshot, now, new KeptFacts(ALL));
      const isSame = isDeepStrictEqual(withoutParts(plan(snapshot, now, kept)), withoutParts(found));
      runJobs(checks, found.checks, jobs, now);
      return !isSame;
    });
    expect(differs).toEqual([]);
  });
  fc.assert(property, { numRuns: 10 * Number(BRUPOP_FUZZ_RUNS) });
});
