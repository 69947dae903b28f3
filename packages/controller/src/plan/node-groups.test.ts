/** What a group means for the nodes of the fleet. */
import { pinned } from '@brupop/shared/testing/settings';
import fc from 'fast-check';
import { SKIP_ANNOTATION } from '@brupop/shared/api/names';
import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import type { ManagedNode } from '../cluster/snapshot.ts';
import {
  ago,
  aGroup,
  aManagedNode,
  aSnapshot,
  MINUTE,
  NEW,
  type NodeParts,
  NOW,
  OLD,
  type ShadowParts,
  underWay,
  withGroups,
} from '../testing/objects.ts';
import { statusOf } from '../report/config-status.ts';
import { groupStatusOf } from '../report/group-status.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

interface World {
  readonly groups?: readonly BottlerocketNodeGroup[];
  readonly config?: object;
  /** For how long NEW has been available in the cluster. */
  readonly offeredMinutes?: number;
  readonly failedNodes?: BrupopConfigStatus['failedNodes'];
}

const MANY = { concurrency: { maxUpdating: 100 } };
const planOf = (
  nodes: readonly ManagedNode[],
  { groups = [], config = MANY, offeredMinutes = 600, failedNodes = [] }: World = {},
): Plan => {
  const snapshot = aSnapshot(nodes, config);
  const versions = [{ version: NEW, running: 1, offered: 1, firstOfferedTime: ago(offeredMinutes * MINUTE) }];
  const known = snapshot.config && { ...snapshot.config, status: { versions, failedNodes } };
  return plan(withGroups({ ...snapshot, config: known }, groups), NOW);
};
const inPool = (name: string, pool: string, shadow: ShadowParts = {}, node: NodeParts = {}): ManagedNode =>
  aManagedNode(name, { labels: { pool }, ...node }, shadow);
const started = ({ specs }: Plan): string[] =>
  specs.filter(({ outcome }) => outcome === 'Started').map(({ node }) => node.metadata.name);
const waitsFor = ({ conditions }: Plan, name: string): { reason: string; message: string } | undefined =>
  conditions.flat().find(({ node }) => node.metadata.name === name)?.progressing;
const updatedTo = (version: string, minutes: number): ShadowParts => ({
  status: { current_version: version, target_version: version },
  record: { succeeded: { version: version, at: ago(minutes * MINUTE) } },
});

it('the limits of a group hold for its nodes, and those of the fleet for all', () => {
  const nodes = ['a', 'b', 'c', 'd', 'e'].map((name) => inPool(name, name < 'd' ? 'gpu' : 'web'));
  const groups = [aGroup('gpu', { concurrency: { maxUpdating: 1 } }), aGroup('web')];
  expect(started(planOf(nodes, { groups }))).toEqual(['a', 'd', 'e']);
  expect(waitsFor(planOf(nodes, { groups }), 'b')).toMatchObject({
    reason: 'WaitingForCapacity',
    message: 'In BottlerocketNodeGroup "gpu": As many nodes are updating as concurrency.maxUpdating allows',
  });
  expect(started(planOf(nodes, { groups, config: { concurrency: { maxUpdating: 2 } } }))).toEqual(['a', 'd']);
});

it('the limits of groups and fleet hold whatever the groups are', () => {
  const limit = fc.option(fc.integer({ min: 1, max: 4 }), { nil: undefined });
  const pools = fc.array(fc.constantFrom('gpu', 'web', 'none'), { minLength: 1, maxLength: 12 });
  const property = fc.property(
    pools,
    limit,
    limit,
    fc.integer({ min: 1, max: 8 }),
    (members, gpu, web, maxUpdating) => {
      const nodes = members.map((pool, i) => inPool(`node-${i}`, pool));
      const of = (name: string, most: number | undefined): BottlerocketNodeGroup =>
        aGroup(name, most === undefined ? {} : { concurrency: { maxUpdating: most } });
      const names = started(
        planOf(nodes, { groups: [of('gpu', gpu), of('web', web)], config: { concurrency: { maxUpdating } } }),
      );
      const countOf = (pool: string): number => names.filter((name) => members[Number(name.slice(5))] === pool).length;
      const size = (pool: string): number => members.filter((one) => one === pool).length;
      const most = [
        ['gpu', gpu],
        ['web', web],
        ['none', undefined],
      ] as const;
      const possible = most
        .map(([pool, allowed = Infinity]) => Math.min(allowed, size(pool)))
        .reduce((a, b) => a + b, 0);
      expect(names.length).toBe(Math.min(maxUpdating, possible));
      for (const [pool, allowed = Infinity] of most) expect(countOf(pool)).toBeLessThanOrEqual(allowed);
    },
  );
  fc.assert(property);
});

it('a blackout, a pin and a denied version of one group leave the others alone', () => {
  const nodes = [inPool('a', 'gpu'), inPool('b', 'web'), inPool('c', 'none')];
  const blackouts = [{ from: ago(MINUTE), to: ago(-MINUTE) }];
  const spec = [{ maintenance: { blackouts } }, { versions: { deny: [NEW] } }, { versions: { pin: OLD } }];
  for (const one of spec) {
    const made = planOf(nodes, { groups: [aGroup('gpu', one)] });
    expect(started(made)).toEqual(['b', 'c']);
  }
  expect(planOf(nodes, { groups: [aGroup('gpu', { maintenance: { blackouts } })] }).wakeAt).toBeLessThanOrEqual(
    NOW + MINUTE,
  );
});

it('a pause of one group leaves the others alone, and its mistakes do not end it', () => {
  const staging = { spec: underWay('StagedAndPerformedUpdate'), record: { group: 'gpu' }, status: null };
  const nodes = [inPool('a', 'gpu'), inPool('b', 'web'), inPool('c', 'none'), inPool('d', 'gpu', staging)];
  const paused = { paused: true, pauseReason: 'month-end' };
  const made = planOf(nodes, { groups: [aGroup('gpu', paused)] });
  expect(started(made)).toEqual(['b', 'c']);
  const message = 'BottlerocketNodeGroup "gpu" pauses its nodes: month-end';
  expect(waitsFor(made, 'a')).toMatchObject({ reason: 'Paused', message });
  expect(made.specs.filter(({ outcome }) => outcome === 'Interrupted')).toEqual([]);
  const interrupting = aGroup('gpu', { ...paused, pauseMode: 'Interrupt' });
  const interrupted = planOf(nodes, { groups: [interrupting] }).specs.filter(
    ({ outcome }) => outcome === 'Interrupted',
  );
  expect(interrupted.map(({ node }) => node.metadata.name)).toEqual(['d']);
  expect(interrupted[0]?.event?.message).toBe(
    `A pause interrupts this update, which is undone and starts again afterwards. ${message}`,
  );
  const mistaken = planOf(nodes, { groups: [aGroup('gpu', { ...paused, after: ['gone'] })] });
  expect(waitsFor(mistaken, 'a')).toMatchObject({ reason: 'Paused', message });
  const ofFleet = planOf(nodes, { groups: [aGroup('gpu', paused)], config: { paused: true } });
  expect(started(ofFleet)).toEqual([]);
  expect(waitsFor(ofFleet, 'a')?.message).toBe('BrupopConfig "cluster" pauses all updates');
});

it('a group with a mistake starts nothing, and the others do', () => {
  const nodes = [inPool('a', 'gpu'), inPool('b', 'web')];
  const made = planOf(nodes, { groups: [aGroup('gpu', { after: ['gone'] }), aGroup('web')] });
  expect(started(made)).toEqual(['b']);
  expect(waitsFor(made, 'a')?.reason).toBe('InvalidConfiguration');
  expect(waitsFor(made, 'a')?.message).toContain('"gone"');
});

describe('a group after another', () => {
  const after = (spec: Partial<BottlerocketNodeGroup['spec']> = {}): BottlerocketNodeGroup[] => [
    aGroup('web'),
    aGroup('gpu', { after: ['web'], ...spec }),
  ];
  const last = inPool('z', 'gpu');
  const failedCheck = { version: NEW, code: 'CheckFailed', at: ago(MINUTE) };
  const monitored = {
    spec: underWay('MonitoringUpdate'),
    status: { current_version: NEW },
    record: { group: 'web' },
  };

  it.each<[string, ManagedNode]>([
    ['waits for its update', inPool('a', 'web', {}, { unschedulable: true })],
    ['is updating', inPool('a', 'web', monitored)],
    ['has not reported', inPool('a', 'web', { status: null })],
    ['runs the version, and is not Ready', inPool('a', 'web', updatedTo(NEW, 60), { ready: false })],
    [
      'runs the version, and failed a check on it',
      inPool('a', 'web', { ...updatedTo(NEW, 60), record: { failed: failedCheck } }),
    ],
  ])('does not start while a node of that group %s', (_, node) => {
    const made = planOf([node, last], { groups: after() });
    expect(started(made)).not.toContain('z');
    expect(waitsFor(made, 'z')).toMatchObject({
      reason: 'WaitingForNodeGroup',
      message:
        `Nodes of BottlerocketNodeGroup "web" must run ${NEW} or a later version first, and be Ready ` +
        '(spec.after of BottlerocketNodeGroup "gpu"). The condition Progressing of "gpu" names them',
    });
    const [rollout] = made.groups.filter(({ group }) => group.name === 'gpu');
    expect(rollout?.waitsFor).toEqual({ name: 'web', version: NEW, nodes: ['a'] });
  });

  it('names that group also while canaries go first', () => {
    const canary = { nodes: 1, nodeSelector: { matchLabels: { pool: 'web' } } };
    const first = inPool('a', 'web', {}, { unschedulable: true });
    const made = planOf([first, last], { groups: after(), config: { ...MANY, rollout: { canary } } });
    expect(waitsFor(made, 'z')?.reason).toBe('WaitingForCanary');
    const [rollout] = made.groups.filter(({ group }) => group.name === 'gpu');
    expect(rollout?.waitsFor).toEqual({ name: 'web', version: NEW, nodes: ['a'] });
  });

  it('does not start while that group has not gone back to a pinned version', () => {
    const runs = { status: { current_version: NEW, target_version: OLD }, annotations: {} };
    const config = { ...MANY, versions: { pin: OLD } };
    const lock = { spec: { settings: pinned({ versionLock: OLD }) } };
    const made = planOf(
      [inPool('a', 'web', { ...runs, ...lock }, { unschedulable: true }), inPool('z', 'gpu', { ...runs, ...lock })],
      {
        groups: after(),
        config,
      },
    );
    expect(started(made)).toEqual([]);
    expect(waitsFor(made, 'z')?.reason).toBe('WaitingForNodeGroup');
  });

  it('does not start while that group has no nodes', () => {
    const made = planOf([inPool('a', 'none', {}, { unschedulable: true }), last], { groups: after() });
    expect(started(made)).toEqual([]);
    expect(waitsFor(made, 'z')?.message).toBe(
      'BottlerocketNodeGroup "web" has no nodes, and is to go first (spec.after of BottlerocketNodeGroup "gpu")',
    );
  });

  it('starts when its soak has passed since the latest success in that group', () => {
    const first = inPool('a', 'web', updatedTo(NEW, 120));
    const soaking = planOf([first, inPool('b', 'web', updatedTo(NEW, 59)), last], { groups: after({ soak: '1h' }) });
    expect(started(soaking)).toEqual([]);
    expect(waitsFor(soaking, 'z')).toMatchObject({
      reason: 'Soaking',
      message: `The groups that go first (spec.after of BottlerocketNodeGroup "gpu") have updated; spec.soak of the group ends at ${ago(-MINUTE)}`,
    });
    expect(soaking.wakeAt).toBeLessThanOrEqual(NOW + MINUTE);
    const groups = after({ soak: '1h' });
    expect(started(planOf([first, inPool('b', 'web', updatedTo(NEW, 60)), last], { groups }))).toEqual(['z']);
  });

  it('counts its soak from when a node joined with the version, and not from what an agent claims', () => {
    const joined = inPool('a', 'web', { status: { current_version: NEW } }, { creationTimestamp: ago(59 * MINUTE) });
    expect(started(planOf([joined, last], { groups: after({ soak: '1h' }) }))).toEqual([]);
    const claims = ['a', 'b'].map((name) =>
      inPool(name, 'web', { status: { current_version: '99.0.0', target_version: '99.0.0' } }),
    );
    const offered = [...claims, last, inPool('y', 'gpu')];
    expect(started(planOf(offered, { groups: after() })).toSorted()).toEqual(['y', 'z']);
    const made = planOf(offered, { groups: after({ soak: '1h' }), offeredMinutes: 59 });
    expect([started(made), waitsFor(made, 'z')?.reason]).toEqual([[], 'Soaking']);
  });

  it.each<[string, ManagedNode, readonly BottlerocketNodeGroup[]]>([
    [
      'that a user leaves out',
      inPool('a', 'web', {}, { annotations: { [SKIP_ANNOTATION]: '' }, ready: false }),
      after(),
    ],
    [
      'of a group that is pinned to another version',
      inPool('a', 'web'),
      [aGroup('web', { versions: { pin: OLD } }), aGroup('gpu', { after: ['web'] })],
    ],
  ])('does not wait for a node %s', (_, node, groups) => {
    expect(started(planOf([node, last], { groups }))).toEqual(['z']);
  });

  it.each([
    ['the node itself', 60 * 24, []],
    ['an earlier Node of this name, whose machine was replaced by one that runs the version', 60, ['z']],
  ])('waits while a failure with the version is that of %s', (_, ageMinutes, expected) => {
    const failedNodes = [{ name: 'a', version: NEW, code: 'RolledBack', since: ago(120 * MINUTE) }];
    const node = { creationTimestamp: ago(ageMinutes * MINUTE) };
    const joined = inPool('a', 'web', { status: { current_version: NEW, target_version: NEW } }, node);
    const made = planOf([joined, last], { groups: after(), failedNodes });
    expect(made.failed.map(({ name }) => name)).toEqual(['a']);
    expect(started(made)).toEqual(expected);
  });
});

describe('an update', () => {
  it('records the group with which it begins', () => {
    const groupAtStart = (node: ManagedNode): unknown =>
      planOf([node], { groups: [aGroup('gpu')] }).specs[0]?.record.group;
    expect(groupAtStart(inPool('a', 'gpu'))).toBe('gpu');
    expect(groupAtStart(inPool('a', 'web', { record: { group: 'gpu' } }))).toBeUndefined();
    expect(groupAtStart(inPool('a', 'web'))).toBeUndefined();
  });

  it('ends under the rules that it began with, also in another group', () => {
    const groups = [aGroup('gpu', { monitoring: { healthyFor: '1h' } }), aGroup('web')];
    const monitored = (began: string): ManagedNode =>
      inPool('a', 'web', {
        spec: underWay('MonitoringUpdate', 2 * MINUTE),
        status: { current_version: NEW },
        record: { group: began },
      });
    const outcomes = (node: ManagedNode): string[] => planOf([node], { groups }).specs.map(({ outcome }) => outcome);
    expect(outcomes(monitored('web'))).toEqual(['Succeeded']);
    expect(outcomes(monitored('gpu'))).toEqual([]);
  });
});

it('a shadow shows the group of its node, and a group its nodes, its plan and what is wrong', () => {
  const web = aGroup('web', { concurrency: { maxUpdating: 1 } });
  const made = planOf([inPool('a', 'web'), inPool('b', 'web'), inPool('c', 'none')], { groups: [web] });
  expect(made.conditions.flat().map(({ node, group }) => [node.metadata.name, group])).toContainEqual(['b', 'web']);
  const [rollout] = made.groups;
  if (rollout === undefined) throw new Error('there is one');
  const status = groupStatusOf(web, { rollout, before: undefined, isWritten: true, now: NOW });
  expect(status).toMatchObject({
    confirmedGeneration: 1,
    nodes: { managed: 2, updating: 1, waiting: 1 },
    plan: [{ node: 'b', version: NEW, reason: 'WaitingForCapacity' }],
  });
  expect(status.conditions?.map(({ type, status: value, reason }) => [type, value, reason])).toEqual([
    ['Ready', 'True', 'InUse'],
    ['Paused', 'False', 'NotPaused'],
    ['Frozen', 'False', 'NotFrozen'],
    ['WindowOpen', 'True', 'NoWindows'],
    ['Progressing', 'True', 'Updating'],
    ['SettingsApplied', 'True', 'NoSettings'],
    ['Degraded', 'False', 'AsExpected'],
    ['MetadataApplied', 'True', 'NoMetadata'],
    ['PendingChanges', 'False', 'NoOtherRendering'],
  ]);
});

describe('what is in effect', () => {
  const groups = [aGroup('gpu'), aGroup('web')];
  const digestOf = (of: readonly BottlerocketNodeGroup[]): string | undefined => statusWith(of).observedDigest;
  const statusWith = (
    of: readonly BottlerocketNodeGroup[],
    nodes: readonly ManagedNode[] = [],
    isWritten = true,
  ): BrupopConfigStatus => {
    const snapshot = withGroups(aSnapshot(nodes, {}), of);
    const { config } = snapshot;
    if (config === undefined) throw new Error('there is one');
    return statusOf({ config, plan: plan(snapshot, NOW), before: undefined, isWritten, now: NOW });
  };
  const edited = (group: BottlerocketNodeGroup, metadata: object): BottlerocketNodeGroup => ({
    ...group,
    metadata: { ...group.metadata, ...metadata },
  });

  it('has a sum of generations and a digest of all objects, in no order', () => {
    expect(statusWith(groups).childrenObservedGeneration).toBe(2);
    expect(statusWith([]).childrenObservedGeneration).toBe(0);
    expect(digestOf(groups.toReversed())).toBe(digestOf(groups));
  });

  it('shows each group that is added, removed, replaced or edited', () => {
    const [gpu = aGroup('gpu'), web = aGroup('web')] = groups;
    const others = [
      [gpu],
      [...groups, aGroup('db')],
      [edited(gpu, { uid: 'another' }), web],
      [edited(gpu, { generation: 2 }), web],
      [edited(gpu, { generation: 2 }), edited(web, { generation: 0 })],
    ];
    expect(new Set([groups, ...others].map(digestOf)).size).toBe(others.length + 1);
  });

  it('has one digest for each set of groups, whatever their order', () => {
    const group = fc.record({ uid: fc.constantFrom('u', 'v', 'w', 'uv'), generation: fc.integer({ min: 1, max: 12 }) });
    const sets = fc.uniqueArray(group, { selector: ({ uid }) => uid, maxLength: 4 });
    const named = (of: readonly { uid: string; generation: number }[]): BottlerocketNodeGroup[] =>
      of.map((one) => edited(aGroup(`group-${one.uid}`), one));
    const textOf = (of: readonly object[]): string => JSON.stringify(of.map((one) => JSON.stringify(one)).toSorted());
    fc.assert(
      fc.property(sets, sets, (a, b) => {
        expect(digestOf(named(a)) === digestOf(named(b).toReversed())).toBe(textOf(a) === textOf(b));
      }),
    );
  });

  it('is not known while something is to be written, a node has not confirmed it, or a group has a mistake', () => {
    const pinned = [aGroup('gpu', { versions: { pin: OLD } })];
    const node = inPool('a', 'gpu');
    expect(statusWith(groups, [], false)).not.toHaveProperty('observedDigest');
    expect(statusWith(pinned, [node])).not.toHaveProperty('observedDigest');
    expect(statusWith([aGroup('gpu', { after: ['gone'] })])).not.toHaveProperty('observedDigest');
    const [rollout] = planOf([node], { groups: pinned }).groups;
    if (rollout === undefined) throw new Error('there is one');
    const status = groupStatusOf(aGroup('gpu'), {
      rollout,
      before: { confirmedGeneration: 0 },
      isWritten: true,
      now: NOW,
    });
    expect([status.confirmedGeneration, status.conditions?.[0]?.message]).toEqual([
      0,
      'The spec is being applied; not confirmed yet by a',
    ]);
  });
});
