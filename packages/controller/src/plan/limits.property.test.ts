import type { NodeLimit } from '@brupop/shared/api/config-values';
import fc from 'fast-check';
import { ABORT_ANNOTATION, RETRY_ANNOTATION, UPDATE_NOW_ANNOTATION, ZONE_LABEL } from '@brupop/shared/api/names';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import { isLater, sameVersion } from '@brupop/shared/api/version';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { lockOf, POOLS, type Reconcile, tell } from '../testing/fleet-simulation.ts';
import { badRelease, freeze, type Happening, NODES, story } from '../testing/stories.ts';
import { brokenIn, type Invariants } from '../testing/invariants.ts';
import { aGroup, aSnapshot } from '../testing/objects.ts';
import { isUnderWay } from '../testing/world.ts';
import { isPrevious } from './facts/attempts.ts';
import type { SpecChange } from './specs/spec-change.ts';

// oxlint-disable-next-line node/no-process-env -- a longer run is asked for so
const { BRUPOP_FUZZ_RUNS = '30' } = process.env;

const isValid = ({ before }: Reconcile): boolean => aSnapshot([], before.config).policy.problem === undefined;

/** However users edit the configuration and whatever happens. */
function expectKept(
  stories: fc.Arbitrary<Happening[]>,
  invariants: Invariants,
  { groups = [], runs = 1 }: { readonly groups?: readonly BottlerocketNodeGroup[]; readonly runs?: number } = {},
): void {
  const property = fc.property(stories, (events) => {
    expect(brokenIn(tell(events, groups).filter(isValid), invariants)).toEqual([]);
  });
  fc.assert(property, { numRuns: runs * Number(BRUPOP_FUZZ_RUNS) });
}

/**
 * Of a release that hosts often do not boot, with other releases before and after it. Every other story begins with a
 * freeze: of those that do not, one in eleven comes to one.
 */
const ofFailures = fc
  .tuple(fc.oneof(fc.constant([]), freeze), badRelease, story(40))
  .map(([first, failing, other]) => [...first, ...failing.flatMap((one, i) => [one, ...other.slice(i, i + 1)])]);

const starts = ({ outcome }: SpecChange): boolean => outcome === 'Started';
const drains = ({ spec, outcome }: SpecChange): boolean =>
  outcome === 'Advanced' && spec.state === 'RebootedIntoUpdate';
/** By a user, with the annotation update-now: windows do not hold. */
const isRequested = ({ record }: SpecChange): boolean => record.updateNow === true;
const zoneOf = ({ node }: ManagedNode): string => node?.metadata.labels?.[ZONE_LABEL] ?? '';

function isUnavailable(world: Reconcile['after'], managedNode: ManagedNode): boolean {
  return isUnderWay(world, managedNode) || managedNode.node?.ready !== true || managedNode.node.unschedulable;
}

/** A node that stages its version could still stay. */
function isGone({ node, shadow }: ManagedNode): boolean {
  const goes = shadow?.spec.state === 'RebootedIntoUpdate' || shadow?.spec.state === 'MonitoringUpdate';
  return goes || node?.ready !== true || node.unschedulable;
}

function allowed(limit: NodeLimit | undefined): number {
  if (limit === undefined) return Infinity;
  return 'nodes' in limit ? limit.nodes : Math.max(1, Math.floor((NODES * limit.percent) / 100));
}

const LIMITS: Invariants = {
  'no node starts or is drained while more than maxUnavailable are unavailable': ({ made, after }, { concurrency }) => {
    const most = allowed(concurrency.maxUnavailable);
    const unavailable = after.managedNodes.filter((managedNode) => isUnavailable(after, managedNode)).length;
    const gone = after.managedNodes.filter((managedNode) => isGone(managedNode)).length;
    return (made.specs.some(starts) && unavailable > most) || (made.specs.some(drains) && gone > most);
  },

  'no node starts or is drained while more than maxPerZone of its zone are unavailable': (
    { made, after },
    { concurrency: { maxPerZone = Infinity } },
  ) =>
    made.specs.some((write) => {
      const ofZone = after.managedNodes.filter(
        (managedNode) => zoneOf(managedNode) === write.node.metadata.labels?.[ZONE_LABEL],
      );
      const unavailable = ofZone.filter((managedNode) => isUnavailable(after, managedNode)).length;
      const gone = ofZone.filter((managedNode) => isGone(managedNode)).length;
      return (starts(write) && unavailable > maxPerZone) || (drains(write) && gone > maxPerZone);
    }),

  'no node is drained while more than maxUpdating are past that': ({ made, after }, { concurrency }) => {
    const goes = after.managedNodes.filter(({ shadow }) =>
      /^(?:Reboot|Monitor)/u.test(shadow?.spec.state ?? ''),
    ).length;
    return made.specs.some(drains) && goes > allowed(concurrency.maxUpdating);
  },

  'no node starts in one zone too many': ({ before, made, after }, { concurrency: { maxZones = Infinity } }) => {
    const zones = (world: Reconcile['after']): Set<string> =>
      new Set(world.managedNodes.filter((managedNode) => isUnderWay(world, managedNode)).map(zoneOf));
    return made.specs.some(starts) && zones(after).size > Math.max(maxZones, zones(before).size);
  },

  'no node starts or is drained for a version that is denied, or that is not the pinned one': (
    { made },
    { versions: { pin, deny } },
  ) =>
    made.specs
      .filter((write) => starts(write) || drains(write))
      .some(({ spec: { version } }) => deny.includes(version ?? '') || (pin ?? version) !== version),

  'no node starts before its host is set as the configuration says': ({ before, made }, { versions: { pin } }) =>
    made.specs.filter(starts).some(({ node }) => {
      const { shadow } = before.managedNodes.find(({ name }) => name === node.metadata.name) ?? {};
      return (shadow && lockOf(shadow)) !== pin;
    }),

  'nothing is written to a node past its drain but the next step': ({ before, made }) =>
    made.specs.some(({ node, outcome }) => {
      const { shadow } = before.managedNodes.find(({ name }) => name === node.metadata.name) ?? {};
      const expected = [
        'Advanced',
        'Succeeded',
        'Failed',
        'Cancelled',
        'Repaired',
        'Interrupted',
        'Released',
        'Reverting',
        'Reverted',
      ];
      return shadow?.spec.state === 'MonitoringUpdate' && !expected.includes(outcome);
    }),
};

const REQUESTS: Invariants = {
  'a request to abort ends an update that has not been drained, and nothing else does so': ({ before, made }) =>
    before.managedNodes.some(({ name, node, shadow }) => {
      const isAsked = shadow?.metadata.annotations?.[ABORT_ANNOTATION] === 'true';
      const { outcome } = made.specs.find((write) => write.node.metadata.name === name) ?? {};
      const isStaging = shadow?.spec.state === 'StagedAndPerformedUpdate' && node !== undefined;
      return (outcome === 'Aborted' && !isAsked) || (isAsked && isStaging && outcome !== 'Aborted');
    }),

  'what a user has aborted starts again on request only': ({ before, made }) =>
    made.specs.filter(starts).some(({ node, spec: { version } }) => {
      const { shadow } = before.managedNodes.find(({ name }) => name === node.metadata.name) ?? {};
      return (
        shadow?.record.aborted?.version === version && shadow?.metadata.annotations?.[RETRY_ANNOTATION] !== version
      );
    }),
};

const WINDOWS: Invariants = {
  'whatever the clock does, no node starts or is drained outside of the windows': (
    { before, made },
    { maintenance: { windows } },
  ) => {
    const isOpen = windows.length === 0 || Math.floor(before.now / 3_600_000) % 2 === 0;
    return !isOpen && made.specs.some((write) => (starts(write) || drains(write)) && !isRequested(write));
  },

  'no node starts outside of the windows for a user who has not asked for that version of it': ({ before, made }) =>
    made.specs.some(({ node, outcome, record, spec: { version } }) => {
      const { shadow } = before.managedNodes.find(({ name }) => name === node.metadata.name) ?? {};
      const asked = shadow?.metadata.annotations?.[UPDATE_NOW_ANNOTATION];
      return outcome === 'Started' && record.updateNow === true && asked !== version;
    }),

  'no window is entered by an update that does not fit': ({ before, made }, { maintenance: { windows } }) => {
    const leftMs = 3_600_000 - (before.now % 3_600_000);
    return (
      windows.length > 0 && made.specs.some((write) => starts(write) && !isRequested(write)) && leftMs < 30 * 60_000
    );
  },
};

test.each([
  ['no story breaks a limit', story(40), { ...LIMITS, ...REQUESTS }],
  ['no story breaks a window, whatever the clock does', story(40, 90), WINDOWS],
])('%s', (_, stories, invariants) => {
  expectKept(stories, invariants, { runs: 2 });
  expect.hasAssertions();
});

test('no node of a group starts beyond the limits of its group or of the fleet', () => {
  const [maxUpdating, maxUnavailable] = [1, 2];
  const groups = POOLS.map((pool) => aGroup(pool, { concurrency: { maxUpdating, maxUnavailable } }));
  let started = 0;
  const kept: Invariants = {
    'fleet and groups keep their limits': ({ made, after }, { concurrency }) => {
      started += made.specs.filter(starts).length;
      const fleet = after.managedNodes.filter((managedNode) => isUnavailable(after, managedNode)).length;
      const ofFleet = made.specs.some(starts) && fleet > allowed(concurrency.maxUnavailable);
      return ofFleet || POOLS.some((pool) => isBeyond(pool, made.specs, after));
    },
  };
  expectKept(story(40), kept, { groups });
  expect(started).toBeGreaterThan(0);

  function isBeyond(pool: string, specs: readonly SpecChange[], after: Reconcile['after']): boolean {
    const of = specs.filter(({ node }) => node.metadata.labels?.['pool'] === pool);
    const members = after.managedNodes.filter(({ node }) => node?.metadata.labels?.['pool'] === pool);
    const [updating, gone] = [isUnderWay, isUnavailable].map((is) => members.filter((one) => is(after, one)).length);
    return of.some(starts) && ((updating ?? 0) > maxUpdating || (gone ?? 0) > maxUnavailable);
  }
});

test('no node starts or is drained for a frozen version, or without a pin for an older one', () => {
  let frozen = 0;
  const kept: Invariants = {
    'frozen versions wait': ({ made }, { versions: { pin } }) => {
      frozen += made.frozen.length;
      const isFrozen = (version: string): boolean =>
        made.frozen.some((one) =>
          pin === undefined && one.holdsOlder ? !isLater(version, one.version) : sameVersion(version, one.version),
        );
      return made.specs
        .filter((write) => starts(write) || drains(write))
        .some(({ shadow, spec: { version } }) => isFrozen(version ?? '') && !isPrevious(shadow, version ?? ''));
    },
  };
  expectKept(ofFailures, kept);
  expect(frozen).toBeGreaterThan(0);
});
