/** What holds for groups with a pause, a budget, canaries and an approval of their own, whatever happens to the fleet. */
import fc from 'fast-check';
import { isLater } from '@brupop/shared/api/version';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import type { NodeView } from '../cluster/node.ts';
import { type Reconcile, tell } from '../testing/fleet-simulation.ts';
import { badRelease, type Happening, releases, story } from '../testing/stories.ts';
import { brokenIn, type Invariants } from '../testing/invariants.ts';
import { aGroup, MINUTE, NEW } from '../testing/objects.ts';
import type { World } from '../testing/world.ts';
import { isPrevious } from './facts/attempts.ts';
import type { SpecChange } from './specs/spec-change.ts';

// oxlint-disable-next-line node/no-process-env -- a longer run is asked for so
const { BRUPOP_FUZZ_RUNS = '30' } = process.env;

function expectKept(
  stories: fc.Arbitrary<Happening[]>,
  invariants: Invariants,
  { groups, runs }: { readonly groups: readonly BottlerocketNodeGroup[]; readonly runs: number },
): void {
  const property = fc.property(stories, (events) => {
    expect(brokenIn(tell(events, groups), invariants)).toEqual([]);
  });
  fc.assert(property, { numRuns: Math.ceil(runs * Number(BRUPOP_FUZZ_RUNS)), endOnFailure: true });
}

const poolOf = (node: NodeView | undefined): string => node?.metadata.labels?.['pool'] ?? '';

/** What starts in a pool, and is no rollback. */
function startsIn(pool: string, { specs }: Reconcile['made']): SpecChange[] {
  return specs.filter(
    ({ outcome, node, shadow, spec: { version } }) =>
      outcome === 'Started' && poolOf(node) === pool && !isPrevious(shadow, version ?? ''),
  );
}

/** What starts or is drained in a pool. */
function disturbedIn(pool: string, { specs }: Reconcile['made']): SpecChange[] {
  return specs.filter(({ outcome, node, spec }) => {
    const disturbs = outcome === 'Started' || (outcome === 'Advanced' && spec.state === 'RebootedIntoUpdate');
    return disturbs && poolOf(node) === pool;
  });
}

/** Counted without the planner's functions. */
function rolledBackIn(pool: string | undefined, { rolledBack, managedNodes }: World, version: string): number {
  const pools = new Map(managedNodes.map(({ name, node }) => [name, poolOf(node)]));
  const names = rolledBack.filter((one) => one.version === version).map(({ name }) => name);
  return new Set(names.filter((name) => pool === undefined || pools.get(name) === pool)).size;
}

test('a version is frozen for a group by the budget of the group, and for all by that of the fleet', () => {
  const budgets = { even: 0, odd: 2 };
  const groups = Object.entries(budgets).map(([name, failureBudget]) => aGroup(name, { rollout: { failureBudget } }));
  const found = { frozen: 0, others: 0 };
  const isBeyond = (pool: 'even' | 'odd', { before, made }: Reconcile): boolean =>
    disturbedIn(pool, made).some(({ spec: { version } }) => {
      const own = rolledBackIn(pool, before, version ?? '');
      return own > budgets[pool] || rolledBackIn(undefined, before, version ?? '') > 1;
    });
  const kept: Invariants = {
    'budgets of group and fleet': (reconcile) => {
      const { before, made } = reconcile;
      found.frozen += made.groups.filter(({ frozen }) => frozen.length > 0).length;
      const goOn = disturbedIn('odd', made).filter(({ spec }) => rolledBackIn('even', before, spec.version ?? '') > 0);
      found.others += goOn.length;
      return isBeyond('even', reconcile) || isBeyond('odd', reconcile);
    },
  };
  expectKept(badRelease, kept, { groups, runs: 2.4 });
  expect(found.frozen).toBeGreaterThan(0);
  expect(found.others).toBeGreaterThan(0);
});

test('canaries of a group go first in it and soak, and a version is approved for each group', () => {
  const soakMs = 30 * MINUTE;
  const groups = [
    aGroup('even', { rollout: { canary: { nodes: 1 }, soak: '30m', approval: 'NotRequired' } }),
    aGroup('odd', { rollout: { canary: { nodes: '100%' }, approval: 'Required', approvedVersion: NEW } }),
  ];
  const found = { canaries: 0, others: 0, approved: 0 };
  const hasSucceeded = ({ managedNodes }: World, version: string): boolean =>
    managedNodes.some(
      ({ node, shadow }) =>
        poolOf(node) === 'even' &&
        shadow?.record.succeeded?.version === version &&
        shadow.status?.current_version === version,
    );
  const hasSoaked = ({ groups: statuses, now }: World, version: string): boolean => {
    const since = statuses.get('even')?.canaries?.find((one) => one.version === version)?.since;
    return since !== undefined && (parseTime(since) ?? Infinity) + soakMs <= now;
  };
  const kept: Invariants = {
    'canaries first': ({ before, made }) => {
      // One that runs a later version already is no canary, and waits for none.
      const updates = startsIn('even', made).filter(({ spec, shadow }) =>
        isLater(spec.version ?? '', shadow.status?.current_version ?? ''),
      );
      const byVersion = Map.groupBy(updates, ({ spec }) => spec.version ?? '');
      return [...byVersion].some(([version, started]) => {
        if (hasSoaked(before, version)) found.others += started.length;
        else found.canaries += started.length;
        const most = hasSucceeded(before, version) ? 0 : 1;
        return !hasSoaked(before, version) && started.length > most;
      });
    },
    'only the approved version': ({ made }) => {
      const started = startsIn('odd', made);
      found.approved += started.length;
      return started.some(({ spec }) => spec.version !== NEW);
    },
  };
  expectKept(releases, kept, { groups, runs: 0.2 });
  for (const count of Object.values(found)) expect(count).toBeGreaterThan(0);
});

test('a group that is paused starts nothing and leaves nothing that can be cancelled, and the others go on', () => {
  const groups = [aGroup('even', { paused: true, pauseMode: 'Interrupt' }), aGroup('odd', { paused: false })];
  let started = 0;
  const kept: Invariants = {
    'a pause of a group': ({ made, after }) => {
      started += startsIn('odd', made).length;
      const staging = after.managedNodes.filter(({ shadow }) => shadow?.spec.state === 'StagedAndPerformedUpdate');
      return disturbedIn('even', made).length > 0 || staging.some(({ node }) => poolOf(node) === 'even');
    },
    'a pause of the fleet holds for a group that is not paused': ({ made }, { paused }) =>
      paused && startsIn('odd', made).length > 0,
  };
  expectKept(story(40), kept, { groups, runs: 0.5 });
  expect(started).toBeGreaterThan(0);
});
