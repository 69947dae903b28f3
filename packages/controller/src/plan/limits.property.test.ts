import { lockOf } from './facts/requested-settings.ts';
import type { NodeLimit } from '@brupop/shared/api/config-values';
import fc from 'fast-check';
import { ZONE_LABEL } from '@brupop/shared/api/names';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import { isLater, sameVersion } from '@brupop/shared/api/version';
import type { ManagedNode } from '../cluster/snapshot.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import { POOLS, type Reconcile, tell } from '../testing/fleet-simulation.ts';
import { badRelease, freeze, NODES, story } from '../testing/stories.ts';
import { aGroup, aSnapshot } from '../testing/objects.ts';
import { isUnderWay } from '../testing/world.ts';
import { isPrevious } from './facts/rollback.ts';
import type { SpecChange } from './spec-change.ts';

// oxlint-disable-next-line node/no-process-env -- a longer run is asked for so
const { BRUPOP_FUZZ_RUNS = '30' } = process.env;

/** Expects that `isWrong` is true of no reconcile, however users edit the configuration and whatever happens. */
function never(
  maxMinutes: number,
  back: number,
  isWrong: (reconcile: Reconcile, settings: UpdatePolicy) => boolean,
  stories = story(maxMinutes, back),
  groups: readonly BottlerocketNodeGroup[] = [],
): void {
  const property = fc.property(stories, (events) => {
    const wrong = tell(events, groups).filter((reconcile) => {
      const settings = aSnapshot([], reconcile.before.config).policy;
      return settings.problem === undefined && isWrong(reconcile, settings);
    });
    expect(wrong).toEqual([]);
  });
  fc.assert(property, { numRuns: Number(BRUPOP_FUZZ_RUNS) });
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

test('no node starts or is drained while more than maxUnavailable are unavailable', () => {
  never(40, 0, ({ made, after }, { concurrency }) => {
    const most = allowed(concurrency.maxUnavailable);
    const unavailable = after.managedNodes.filter((managedNode) => isUnavailable(after, managedNode)).length;
    const gone = after.managedNodes.filter((managedNode) => isGone(managedNode)).length;
    return (made.specs.some(starts) && unavailable > most) || (made.specs.some(drains) && gone > most);
  });
  expect.hasAssertions();
});

test('no node starts or is drained while more than maxPerZone of its zone are unavailable', () => {
  never(40, 0, ({ made, after }, { concurrency: { maxPerZone = Infinity } }) =>
    made.specs.some((write) => {
      const ofZone = after.managedNodes.filter(
        (managedNode) => zoneOf(managedNode) === write.node.metadata.labels?.[ZONE_LABEL],
      );
      const unavailable = ofZone.filter((managedNode) => isUnavailable(after, managedNode)).length;
      const gone = ofZone.filter((managedNode) => isGone(managedNode)).length;
      return (starts(write) && unavailable > maxPerZone) || (drains(write) && gone > maxPerZone);
    }),
  );
  expect.hasAssertions();
});

test('no node is drained while more than maxUpdating are past that', () => {
  never(40, 0, ({ made, after }, { concurrency }) => {
    const goes = after.managedNodes.filter(({ shadow }) =>
      /^(?:Reboot|Monitor)/u.test(shadow?.spec.state ?? ''),
    ).length;
    return made.specs.some(drains) && goes > allowed(concurrency.maxUpdating);
  });
  expect.hasAssertions();
});

test('no node of a group starts beyond the limits of its group or of the fleet', () => {
  const [maxUpdating, maxUnavailable] = [1, 2];
  const groups = POOLS.map((pool) => aGroup(pool, { concurrency: { maxUpdating, maxUnavailable } }));
  let started = 0;
  never(
    40,
    0,
    ({ made, after }, { concurrency }) => {
      started += made.specs.filter(starts).length;
      const fleet = after.managedNodes.filter((managedNode) => isUnavailable(after, managedNode)).length;
      const ofFleet = made.specs.some(starts) && fleet > allowed(concurrency.maxUnavailable);
      return ofFleet || POOLS.some((pool) => isBeyond(pool, made.specs, after));
    },
    undefined,
    groups,
  );
  expect(started).toBeGreaterThan(0);

  function isBeyond(pool: string, specs: readonly SpecChange[], after: Reconcile['after']): boolean {
    const of = specs.filter(({ node }) => node.metadata.labels?.['pool'] === pool);
    const members = after.managedNodes.filter(({ node }) => node?.metadata.labels?.['pool'] === pool);
    const [updating, gone] = [isUnderWay, isUnavailable].map((is) => members.filter((one) => is(after, one)).length);
    return of.some(starts) && ((updating ?? 0) > maxUpdating || (gone ?? 0) > maxUnavailable);
  }
});

test('no node starts in one zone too many', () => {
  never(40, 0, ({ before, made, after }, { concurrency: { maxZones = Infinity } }) => {
    const zones = (world: Reconcile['after']): Set<string> =>
      new Set(world.managedNodes.filter((managedNode) => isUnderWay(world, managedNode)).map(zoneOf));
    return made.specs.some(starts) && zones(after).size > Math.max(maxZones, zones(before).size);
  });
  expect.hasAssertions();
});

test('whatever the clock does, no node starts or is drained outside of the windows', () => {
  never(40, 90, ({ before, made }, { maintenance: { windows } }) => {
    const isOpen = windows.length === 0 || Math.floor(before.now / 3_600_000) % 2 === 0;
    return !isOpen && made.specs.some((write) => starts(write) || drains(write));
  });
  expect.hasAssertions();
});

test('no window is entered by an update that does not fit', () => {
  never(40, 90, ({ before, made }, { maintenance: { windows } }) => {
    const leftMs = 3_600_000 - (before.now % 3_600_000);
    return windows.length > 0 && made.specs.some(starts) && leftMs < 30 * 60_000;
  });
  expect.hasAssertions();
});

test('no node starts or is drained for a version that is denied, or that is not the pinned one', () => {
  never(40, 0, ({ made }, { versions: { pin, deny } }) =>
    made.specs
      .filter((write) => starts(write) || drains(write))
      .some(({ spec: { version } }) => deny.includes(version ?? '') || (pin ?? version) !== version),
  );
  expect.hasAssertions();
});

test('no node starts or is drained for a frozen version, or without a pin for an older one', () => {
  let frozen = 0;
  never(
    40,
    0,
    ({ made }, { versions: { pin } }) => {
      frozen += made.frozen.length;
      const isFrozen = (version: string): boolean =>
        made.frozen.some((one) =>
          pin === undefined && one.holdsOlder ? !isLater(version, one.version) : sameVersion(version, one.version),
        );
      return made.specs
        .filter((write) => starts(write) || drains(write))
        .some(({ shadow, spec: { version } }) => isFrozen(version ?? '') && !isPrevious(shadow, version ?? ''));
    },
    ofFailures,
  );
  expect(frozen).toBeGreaterThan(0);
});

test('no node starts before its host is set as the configuration says', () => {
  never(40, 0, ({ before, made }, { versions: { pin } }) =>
    made.specs.filter(starts).some(({ node }) => {
      const { shadow } = before.managedNodes.find(({ name }) => name === node.metadata.name) ?? {};
      return (shadow && lockOf(shadow)) !== pin;
    }),
  );
  expect.hasAssertions();
});

test('nothing is written to a node past its drain but the next step', () => {
  never(40, 0, ({ before, made }) =>
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
  );
  expect.hasAssertions();
});
