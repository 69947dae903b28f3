/** Groups that change, or have a mistake, while nodes update; and what is told of a rollout in several groups. */
import { pinned } from '@brupop/shared/testing/settings';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import type { Setting } from '@brupop/shared/api/shadow';
import { differs } from '../cluster/change.ts';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import {
  ago,
  aGroup,
  aManagedNode,
  aShadow,
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
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const snapshotOf = (
  nodes: readonly ManagedNode[],
  groups: readonly BottlerocketNodeGroup[],
  config: object,
): Snapshot => withGroups(aSnapshot(nodes, config), groups);
const planOf = (
  nodes: readonly ManagedNode[],
  groups: readonly BottlerocketNodeGroup[],
  config: object = { concurrency: { maxUpdating: 100 } },
): Plan => plan(snapshotOf(nodes, groups, config), NOW);
const inPool = (name: string, pool: string, shadow: ShadowParts = {}, node: NodeParts = {}): ManagedNode =>
  aManagedNode(name, { labels: { pool }, ...node }, shadow);
const outcomes = ({ specs }: Plan): string[] => specs.map(({ outcome }) => outcome);
const groupNow = (node: ManagedNode, groups: readonly BottlerocketNodeGroup[]): string | undefined =>
  snapshotOf([node], groups, {}).managedNodes[0]?.group?.name;

describe('a node whose attempt has ended', () => {
  const failed = (began: Record<string, string>): ManagedNode =>
    inPool('a', 'gpu', { record: { rebootRequestedAt: ago(MINUTE), ...began } });
  const groups = [aGroup('gpu'), aGroup('web')];

  it.each<[string, Record<string, string>]>([
    ['without a group', {}],
    ['with another group', { group: 'web' }],
    ['with a group that was deleted', { group: 'gone' }],
  ])('%s is in the group of its labels', (_, began) => {
    expect(groupNow(failed(began), groups)).toBe('gpu');
  });

  it('stays in its group until the agent has confirmed the end, and while it goes back', () => {
    const began = { group: 'web', rebootRequestedAt: ago(MINUTE) };
    const unconfirmed = inPool('a', 'gpu', { record: began, status: { observedGeneration: 1 } });
    expect(groupNow(unconfirmed, groups)).toBe('web');
    const rollback = { ...began, rollback: { failed: NEW, previous: OLD, since: ago(MINUTE), isDone: false } };
    expect(groupNow(inPool('a', 'gpu', { record: rollback }), groups)).toBe('web');
  });

  it('forgets the group when the update has succeeded', () => {
    const monitored = inPool('a', 'gpu', {
      spec: underWay('MonitoringUpdate'),
      status: { current_version: NEW },
      record: { group: 'gpu', startedAt: ago(10 * MINUTE) },
    });
    expect(planOf([monitored], groups).specs[0]?.record.group).toBeUndefined();
  });
});

describe('a staged node', () => {
  const staged = (began: string): ManagedNode =>
    inPool('a', 'gpu', { spec: underWay('StagedAndPerformedUpdate'), record: { group: began } });

  it('is drained while its group is valid', () => {
    expect(outcomes(planOf([staged('gpu')], [aGroup('gpu')]))).toEqual(['Advanced']);
  });

  it.each<[string, Partial<BottlerocketNodeGroup['spec']>, object, string]>([
    ['denies the pinned version', { versions: { deny: [NEW] } }, { versions: { pin: NEW } }, 'Superseded'],
    [
      'has a window that never opens',
      { maintenance: { windows: [{ schedule: '0 25 * * *', duration: '1h' }] } },
      {},
      'Deferred',
    ],
    ['waits for a group that does not exist', { after: ['gone'] }, {}, 'Deferred'],
  ])('is not drained when its group %s', (_, spec, config, expected) => {
    expect(outcomes(planOf([staged('gpu')], [aGroup('gpu', spec)], config))).toEqual([expected]);
  });

  it('is not drained when its group was renamed', () => {
    expect(outcomes(planOf([staged('former')], [aGroup('gpu')]))).toEqual(['Deferred']);
  });
});

describe('of a group of whose fields only retry has a mistake', () => {
  const invalid = (spec: object): BottlerocketNodeGroup[] => [aGroup('gpu', { retry: { maxBackoff: '1m' }, ...spec })];
  const updating = (state: 'StagedAndPerformedUpdate' | 'MonitoringUpdate', record: object = {}): ManagedNode => {
    const began = { group: 'gpu', startedAt: ago(60 * MINUTE), ...record };
    const status = state === 'MonitoringUpdate' ? { current_version: NEW } : {};
    return inPool('a', 'gpu', { spec: underWay(state, 40 * MINUTE), status, record: began });
  };

  it('a node runs the hooks after an attempt before which it ran some', () => {
    const hooks = {
      before: [{ name: 'in', job: { cronJob: 'in' } }],
      after: [{ name: 'out', job: { cronJob: 'out' } }],
    };
    const jobs = { from: OLD, to: NEW, 'Before/hook/in': 'Succeeded' };
    const [spec] = planOf([updating('StagedAndPerformedUpdate', { jobs })], invalid({ hooks })).specs;
    expect(spec).toMatchObject({ outcome: 'Deferred', record: { jobs: { 'After/hook/out': 'Due' } } });
  });

  it('an update succeeds only with the checks of the group', () => {
    const health = { daemonSets: 'Ignored', checks: [{ name: 'smoke', when: ['After'], job: { cronJob: 'smoke' } }] };
    expect(outcomes(planOf([updating('MonitoringUpdate')], invalid({ health })))).toEqual([]);
  });

  it('a node has the time of the group to become healthy', () => {
    const made = planOf([updating('MonitoringUpdate')], invalid({ monitoring: { timeout: '2h', healthyFor: '1h' } }));
    expect(made.failed).toEqual([]);
  });
});

it('the hosts of a group with a mistake keep their settings', () => {
  const locked = inPool('a', 'gpu', { spec: { settings: pinned({ versionLock: OLD }) } });
  const group = aGroup('gpu', { versions: { pin: OLD } });
  expect(outcomes(planOf([locked], [group]))).toEqual([]);
  expect(outcomes(planOf([locked], [group], { versions: { deny: [OLD] } }))).toEqual([]);
});

it.each([
  [{ after: ['gone'] }, {}, null],
  [{ after: ['gone'] }, { pin: NEW }, NEW],
  [{ versions: { pin: OLD }, maintenance: { timeZone: 'Nowhere' } }, {}, OLD],
])('the hosts of a group with the mistake %j follow spec.versions, which is %j', (spec, versions, versionLock) => {
  const own = [{ key: 'settings.motd', value: '"a"', owner: 'BottlerocketNodeGroup/gpu' }];
  const leavesWith = (lock: string | null): readonly Setting[] => [
    ...(pinned({ versionLock: lock })?.leaves ?? []),
    ...own,
  ];
  const locked = inPool('a', 'gpu', { spec: { settings: { leaves: leavesWith('1.19.0'), allow: 'None' } } });
  const { specs } = planOf([locked], [aGroup('gpu', spec)], { versions });
  expect(specs.map(({ spec: { settings } }) => settings)).toEqual([{ leaves: leavesWith(versionLock), allow: 'None' }]);
});

it('groups follow what is readable of a configuration that was never valid, and not the defaults', () => {
  const config = { maintenance: { windows: [{ schedule: '0 25 * * *', duration: '1h' }] }, versions: { deny: [NEW] } };
  const [node] = snapshotOf([inPool('a', 'gpu')], [aGroup('gpu', { drain: { timeout: '2h' } })], config).managedNodes;
  expect(node?.policy.problem).toContain('spec.maintenance');
  expect(node?.policy.calendar.at(NOW).open).toBe(false);
  expect(node?.policy.versions.deny).toEqual([NEW]);
  expect(node?.policy.drain.timeoutMs).toBe(120 * MINUTE);
});

describe('of a rollout in several groups', () => {
  const closed = { windows: [{ schedule: '0 0 1 1 *', duration: '1h' }] };

  it('the progress deadline does not count while all nodes wait for a window, or for the group that does', () => {
    const nodes = [inPool('a', 'web'), inPool('b', 'db')];
    const stopped = planOf(nodes, [aGroup('web', { maintenance: closed }), aGroup('db', { after: ['web'] })]);
    expect(stopped.progress?.countedFrom).toBeUndefined();
    const updated = {
      status: { current_version: NEW },
      record: { succeeded: { version: NEW, at: ago(MINUTE) } },
    };
    const down = inPool('a', 'web', updated, { ready: false });
    const counted = planOf([down, inPool('b', 'db')], [aGroup('web'), aGroup('db', { after: ['web'] })]);
    expect(counted.progress?.countedFrom).toBe(NOW);
  });

  it('the window of one does not delay the expected time of another', () => {
    const nodes = [inPool('a', 'db'), inPool('b', 'web'), inPool('c', 'web')];
    const made = planOf(nodes, [aGroup('db', { maintenance: closed }), aGroup('web')], {});
    const expected = made.forecast.queue.find(({ node }) => node === 'c')?.expectedTime;
    expect(Date.parse(expected ?? '')).toBeLessThan(NOW + 3 * 60 * MINUTE);
  });

  it('the limit of a group spaces its plan', () => {
    const nodes = ['a', 'b', 'c'].map((name) => inPool(name, 'web'));
    const made = planOf(nodes, [aGroup('web', { concurrency: { maxUpdating: 1 } })]);
    const times = made.groups[0]?.forecast.queue.map(({ expectedTime }) => expectedTime);
    expect(new Set(times).size).toBe(2);
  });

  it('the soak of one ends although nodes join the one before it', () => {
    const success = { succeeded: { version: NEW, at: ago(70 * MINUTE) } };
    const first = inPool('a', 'web', { status: { current_version: NEW }, record: success });
    const joined = inPool('b', 'web', { status: { current_version: NEW } }, { creationTimestamp: ago(MINUTE) });
    const snapshot = snapshotOf(
      [first, joined, inPool('c', 'db')],
      [aGroup('web'), aGroup('db', { after: ['web'], soak: '1h' })],
      {},
    );
    const versions = [{ version: NEW, running: 2, offered: 1, firstOfferedTime: ago(600 * MINUTE) }];
    const config = snapshot.config && { ...snapshot.config, status: { versions } };
    expect(outcomes(plan({ ...snapshot, config }, NOW))).toEqual(['Started']);
  });
});

it('the group in the status of a shadow, which this controller writes, changes no plan', () => {
  const object = { ...aShadow(), group: 'gpu' };
  expect(differs({ type: 'Modified', object, old: aShadow() })).toBe(false);
});
