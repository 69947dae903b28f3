import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { CORDONED_ANNOTATION, OUT_OF_SERVICE_ANNOTATION } from '@brupop/shared/api/names';
import { DRAIN_RESULTS, OPERATION_STATES, OPERATIONS, SHADOW_STATES } from '@brupop/shared/api/shadow';
import { CONNECTED } from '../cluster/connectivity.ts';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import { ago, aManagedNode, aSnapshot, failure, MINUTE, NEW, NOW } from '../testing/objects.ts';
import { wholePlan as plan } from '../whole-plan.ts';

/** Mostly what a lost node has, so that some are tainted. */
const mostly = <const T>(usual: T, ...others: readonly T[]): fc.Arbitrary<T> =>
  fc.oneof({ weight: 8, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constantFrom(usual, ...others) });
const minutesAgo = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 30, max: 90 }) },
  fc.integer({ min: -90, max: 29 }),
);

const facts = fc.record({
  state: mostly('RebootedIntoUpdate', ...SHADOW_STATES),
  operation: mostly('Reboot', ...OPERATIONS),
  step: mostly('Processing', ...OPERATION_STATES),
  result: mostly('Drained', ...DRAIN_RESULTS),
  generation: mostly(3, 2, 4),
  bootID: mostly('boot-1', 'boot-2', ''),
  reportedBootID: mostly('boot-1', 'boot-2', ''),
  ready: mostly('Unknown', 'False', 'True'),
  leaseExpired: mostly<boolean | undefined>(true, false, undefined),
  isCordoned: mostly(true, false),
  isOurCordon: mostly(true, false),
  isManaged: mostly(true, false),
  isTainted: mostly(false, true),
  isOurs: mostly(false, true),
  drained: minutesAgo,
  silent: minutesAgo,
  requested: minutesAgo,
});
type Facts = typeof facts extends fc.Arbitrary<infer T> ? T : never;

function nodeOf(name: string, one: Facts): ManagedNode {
  const time = ago(one.requested * MINUTE);
  const { operation, step: state } = one;
  const annotations = {
    ...(one.isOurCordon && { [CORDONED_ANNOTATION]: ago(90 * MINUTE) }),
    ...(one.isOurs && { [OUT_OF_SERVICE_ANNOTATION]: ago(MINUTE) }),
  };
  const node = aManagedNode(
    name,
    {
      annotations,
      managed: one.isManaged,
      unschedulable: one.isCordoned,
      hasOutOfServiceTaint: one.isTainted,
      ready: one.ready === 'True',
      isUnreachable: one.ready === 'Unknown',
      readySince: ago(one.silent * MINUTE),
      bootID: one.bootID,
    },
    {
      spec: { state: one.state, version: NEW, state_transition_timestamp: ago(90 * MINUTE) },
      status: {
        current_state: 'StagedAndPerformedUpdate',
        bootID: one.reportedBootID,
        lastOperation: failure(undefined, { operation, state, startTime: time, lastUpdateTime: time }),
        drain: {
          observedGeneration: one.generation,
          startTime: ago(90 * MINUTE),
          endTime: ago(one.drained * MINUTE),
          result: one.result,
          evicted: 1,
          remaining: 0,
        },
      },
    },
  );
  return { ...node, leaseExpired: one.leaseExpired };
}

const NEEDED = {
  state: 'RebootedIntoUpdate',
  operation: 'Reboot',
  step: 'Processing',
  generation: 3,
  bootID: 'boot-1',
  reportedBootID: 'boot-1',
  ready: 'Unknown',
  isCordoned: true,
  isOurCordon: true,
  isManaged: true,
  isTainted: false,
  isOurs: false,
} satisfies Partial<Facts>;

/** Judged without the planner's functions. */
function mayBeTainted(one: Facts): boolean {
  const isDrained = one.result === 'Drained' || one.result === 'Forced';
  const isLongAgo = Math.min(one.silent, one.drained) >= 30;
  return isDrained && isLongAgo && one.leaseExpired !== false && isDeepStrictEqual({ ...one }, { ...one, ...NEEDED });
}

const SPECS = {
  OutOfServiceTaint: { lostNode: { action: 'OutOfServiceTaint' } },
  Report: { lostNode: { action: 'Report' } },
};

const story = fc.record({
  fleet: fc.array(facts, { minLength: 1, maxLength: 4 }),
  isLost: mostly(false, true),
  isStale: mostly(false, true),
  action: mostly('OutOfServiceTaint', 'Report'),
});
type Story = typeof story extends fc.Arbitrary<infer T> ? T : never;

function snapshotOf({ fleet, isLost, isStale, action }: Story): Snapshot {
  const nodes = fleet.map((one, index) => nodeOf(`node-${index}`, one));
  const watchLags = isStale ? [{ resource: 'nodes', ms: 150_000 }] : [];
  return { ...aSnapshot(nodes, SPECS[action]), watchLags, connectivity: { ...CONNECTED, lost: isLost } };
}

test('only drained nodes that do not return from their reboot are ever tainted, and only while all is known', () => {
  let tainted = 0;
  const property = fc.property(story, (drawn) => {
    const { fleet, isLost, isStale, action } = drawn;
    const names = plan(snapshotOf(drawn), NOW).outOfService.flatMap(({ node, wanted }) =>
      wanted ? [node.metadata.name] : [],
    );
    tainted += names.length;
    const allowed = fleet.flatMap((one, index) => (mayBeTainted(one) ? [`node-${index}`] : []));
    expect(names.filter((name) => !allowed.includes(name) || isLost || isStale || action === 'Report')).toEqual([]);
  });
  fc.assert(property, { numRuns: 300, seed: 1 });
  expect(tainted).toBeGreaterThan(10);
});

test('no taint is removed that the operator does not own, and none of its own stays on a node that is Ready', () => {
  const property = fc.property(story, (drawn) => {
    const made = plan(snapshotOf(drawn), NOW).outOfService.flatMap(({ node, wanted }) =>
      wanted ? [] : [node.metadata.name],
    );
    const ours = drawn.fleet.map(({ isOurs, ready }, index) => ({
      name: `node-${index}`,
      isOurs,
      isReady: ready === 'True',
    }));
    expect(made.filter((name) => !ours.some((one) => one.name === name && one.isOurs))).toEqual([]);
    expect(ours.filter((one) => one.isOurs && one.isReady && !made.includes(one.name))).toEqual([]);
  });
  fc.assert(property, { numRuns: 200 });
  expect.hasAssertions();
});
