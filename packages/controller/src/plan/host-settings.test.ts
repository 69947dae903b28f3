import { leavesOf } from '@brupop/shared/api/settings';
import { pinned, pinRecords } from '@brupop/shared/testing/settings';
import { SKIP_ANNOTATION } from '@brupop/shared/api/names';
import type { Operation } from '@brupop/shared/api/shadow';
import type { ManagedNode } from '../cluster/snapshot.ts';
import {
  ago,
  aGroup,
  aManagedNode,
  aSnapshot,
  failure,
  NEW,
  NOW,
  OLD,
  type ShadowParts,
  underWay,
  withGroups,
} from '../testing/objects.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const planOf = (managedNodes: readonly ManagedNode[], versions?: object): Plan =>
  plan(aSnapshot(managedNodes, { versions }), NOW);
const only = (made: Plan): [unknown, unknown, unknown] => {
  const [write] = made.specs;
  return [write?.outcome, write?.spec.state, write?.spec.settings];
};
const reasonOf = ({ conditions }: Plan): string | undefined => conditions.flat()[0]?.progressing.reason;
const locked = { spec: { settings: pinned({ versionLock: NEW }) } } as const;
const step = (operation: Operation): ShadowParts => ({
  spec: underWay('RebootedIntoUpdate'),
  status: {
    current_state: 'StagedAndPerformedUpdate',
    lastOperation: { ...failure(undefined), operation, state: 'Processing' },
  },
});

const changes: Record<string, [Plan, unknown[]]> = {
  'a pin is set on hosts at rest first': [
    planOf([aManagedNode('a')], { pin: NEW }),
    ['Configured', 'Idle', pinned({ versionLock: NEW })],
  ],
  'waves are ignored on hosts at rest first': [
    planOf([aManagedNode('a')], { ignoreWaves: true }),
    ['Configured', 'Idle', pinned({ ignoreWaves: true })],
  ],
  'a pin that is gone is removed': [planOf([aManagedNode('a', {}, locked)]), ['Configured', 'Idle', null]],
  'a pin that stays is not written again': [
    planOf([aManagedNode('a', {}, locked)], { pin: NEW }),
    ['Started', 'StagedAndPerformedUpdate', pinned({ versionLock: NEW })],
  ],
  'a node that stages another version gives it up': [
    planOf([aManagedNode('a', {}, { spec: underWay('StagedAndPerformedUpdate') })], { pin: '1.19.0' }),
    ['Superseded', 'Idle', pinned({ versionLock: '1.19.0' })],
  ],
  'a node that drains for a version that is denied by now gives it up': [
    planOf([aManagedNode('a', {}, step('Drain'))], { deny: [NEW] }),
    ['Superseded', 'Idle', null],
  ],
  'a node that is past its drain goes on': [
    planOf([aManagedNode('a', {}, step('Activate'))], { deny: [NEW] }),
    [undefined, undefined, undefined],
  ],
  'a node that reboots goes on': [
    planOf([aManagedNode('a', {}, step('Reboot'))], { pin: '1.19.0' }),
    [undefined, undefined, undefined],
  ],
  'a node that goes to the pinned version goes on': [
    planOf([aManagedNode('a', {}, { spec: underWay('StagedAndPerformedUpdate') })], { pin: NEW }),
    ['Advanced', 'RebootedIntoUpdate', undefined],
  ],
};
test.each(Object.entries(changes))('%s', (_, [made, expected]) => expect(only(made)).toEqual(expected));

describe('a node that drains to be rebooted for settings of its group', () => {
  const settings = { kernel: { lockdown: 'integrity' } };
  const owner = 'BottlerocketNodeGroup/gpu';
  const leaves = [...leavesOf(settings)].map(([key, value]) => ({ key, value, owner }));
  const { spec, status } = step('Drain');
  const draining = aManagedNode(
    'a',
    { labels: { pool: 'gpu' } },
    {
      spec: { ...spec, version: OLD, settings: { leaves, allow: 'NeedsReboot' } },
      status: { ...status, target_version: OLD },
      record: { startedAt: ago(0), from: OLD, group: 'gpu' },
    },
  );

  it.each([
    ['goes on when its version is pinned', { pin: OLD }, undefined],
    ['goes on when waves are to be ignored', { ignoreWaves: true }, undefined],
    ['gives it up when another version is pinned', { pin: NEW }, 'Superseded'],
    ['gives it up when its version is denied', { deny: [OLD] }, 'Superseded'],
  ])('%s', (_, versions, outcome) => {
    const snapshot = withGroups(aSnapshot([draining], { versions }), [aGroup('gpu', { settings })]);
    expect(only(plan(snapshot, NOW))[0]).toBe(outcome);
  });
});

test('a host that is set otherwise has time to confirm that', () => {
  const [write] = planOf([aManagedNode('a')], { pin: NEW }).specs;
  expect(write?.spec.state_transition_timestamp).toBe(ago(0));
});

const isBlocked: Record<string, [Plan, string | undefined]> = {
  'a node that runs the pinned version is up to date, whatever else it is offered': [
    planOf([aManagedNode('a', {}, { spec: { settings: pinned({ versionLock: OLD }) } })], { pin: OLD }),
    'UpToDate',
  ],
  'a node whose host does not offer the pinned version waits': [
    planOf([aManagedNode('a', {}, { spec: { settings: pinned({ versionLock: '1.22.0' }) } })], { pin: '1.22.0' }),
    'VersionNotOffered',
  ],
  'a node whose host offers nothing although another version is pinned waits': [
    planOf([aManagedNode('a', {}, { ...locked, status: { target_version: OLD } })], { pin: NEW }),
    'VersionNotOffered',
  ],
  'a version that is denied is waited for': [planOf([aManagedNode('a')], { deny: [NEW] }), 'VersionDenied'],
};
test.each(Object.entries(isBlocked))('%s', (_, [made, reason]) => {
  expect(reasonOf(made)).toBe(reason);
  expect(made.specs).toEqual([]);
});

test('a host that cannot be set, or set back, is not said to be up to date', () => {
  const settings = { message: 'PATCH /settings: 404' };
  const shadow: ShadowParts = {
    spec: { settings: pinned({ ignoreWaves: true }) },
    status: { target_version: OLD, settings },
  };
  const made = planOf([aManagedNode('a', {}, shadow)], { ignoreWaves: true });
  expect([reasonOf(made), made.counts.upToDate]).toEqual(['HostSettingsNotApplied', 0]);
  expect(reasonOf(planOf([aManagedNode('a', {}, { status: { target_version: OLD, settings } })]))).toBe(
    'HostSettingsNotApplied',
  );
});

const lockedTo = (hostLock: string): ShadowParts => ({ status: { target_version: OLD, settings: { hostLock } } });

test('a host with a lock that no pin explains is not UpToDate, and its condition and an Event name the lock and the remedy', () => {
  const made = planOf([aManagedNode('a', {}, lockedTo(OLD))]);
  const [news] = made.conditions.flat();
  expect([reasonOf(made), made.counts.upToDate, made.forecast.needAttention]).toEqual([
    'HostLocked',
    0,
    new Map([['HostLocked', 1]]),
  ]);
  expect(news?.progressing.message).toMatch(
    new RegExp(`version-lock of its host is ${OLD}.*apiclient set updates.version-lock=latest`, 'u'),
  );
  expect(news?.event).toMatchObject({ reason: 'Waiting', warning: true });
  expect(news?.event?.message).toContain(`HostLocked: settings.updates.version-lock of its host is ${OLD}`);
});

test.each(['UpdateCheckFailed', 'HostStatusUnreadable'] as const)(
  'a host that reports %s is not UpToDate, and its condition quotes it',
  (errorCode) => {
    const lastOperation = failure(errorCode, { version: OLD, message: 'refresh: no route to host' });
    const made = planOf([aManagedNode('a', {}, { status: { target_version: OLD, lastOperation } })]);
    expect([reasonOf(made), made.counts.upToDate]).toEqual(['UpdateCheckFailed', 0]);
    expect(made.conditions.flat()[0]?.progressing.message).toBe(
      `Runs ${OLD}; its host cannot check for updates (${errorCode}): refresh: no route to host`,
    );
  },
);

test('a host that could not check is updated to what it was offered before', () => {
  const lastOperation = failure('UpdateCheckFailed', { version: OLD });
  const shadow: ShadowParts = { status: { target_version: NEW, lastOperation } };
  expect(planOf([aManagedNode('a', {}, shadow)]).specs).toMatchObject([{ outcome: 'Started' }]);
});

test('a host that cannot check is not UpToDate either while a setting of a user stays in the place of another', () => {
  const lastOperation = failure('UpdateCheckFailed', { version: OLD });
  const settings = { conflicts: ['settings.motd'] };
  const made = planOf([aManagedNode('a', {}, { status: { target_version: OLD, lastOperation, settings } })]);
  expect([reasonOf(made), made.counts.upToDate]).toEqual(['UpdateCheckFailed', 0]);
});

test('a user may leave out or pin a node whose host cannot check', () => {
  const lastOperation = failure('UpdateCheckFailed', { version: OLD });
  const status = { target_version: OLD, lastOperation };
  const skipped = aManagedNode('a', { annotations: { [SKIP_ANNOTATION]: 'true' } }, { status });
  expect(reasonOf(planOf([skipped]))).toBe('UpToDate');
  const spec = { settings: pinned({ versionLock: OLD }) };
  const held = aManagedNode(
    'a',
    {},
    { spec, status: { ...status, settings: { records: pinRecords({ versionLock: OLD }) } } },
  );
  expect(reasonOf(planOf([held], { pin: OLD }))).toBe('UpToDate');
});

test('a host without in-place updates is left alone', () => {
  const lastOperation = failure('HostUnsupported', { version: OLD });
  expect(reasonOf(planOf([aManagedNode('a', {}, { status: { target_version: OLD, lastOperation } })]))).toBe(
    'UpToDate',
  );
});

test('a locked host is updated to what it is offered first', () => {
  const shadow: ShadowParts = { status: { target_version: NEW, settings: { hostLock: NEW } } };
  expect(planOf([aManagedNode('a', {}, shadow)]).specs).toMatchObject([{ outcome: 'Started' }]);
});

test('a lock is accepted of a node that is pinned, or that a user leaves out', () => {
  const spec = { settings: pinned({ versionLock: OLD }) };
  const pin = planOf([aManagedNode('a', {}, { spec, ...lockedTo(OLD) })], { pin: OLD });
  const skipped = planOf([aManagedNode('a', { annotations: { [SKIP_ANNOTATION]: 'true' } }, lockedTo(OLD))]);
  expect([reasonOf(pin), reasonOf(skipped)]).toEqual(['UpToDate', 'UpToDate']);
});

test('settings that stay on a host although they are no longer requested are in its condition, and in one Event', () => {
  const settings = {
    cannotUnset: ['settings.motd'],
    records: [{ key: 'settings.motd', value: '"a"', owner: 'group' }],
  };
  const shadow: ShadowParts = { status: { target_version: OLD, settings } };
  const [news] = planOf([aManagedNode('a', {}, shadow)]).conditions.flat();
  expect(news?.progressing.reason).toBe('UpToDate');
  expect(news?.progressing.message).toContain('settings.motd');
  expect(news?.event).toMatchObject({ reason: 'SettingsKept', warning: true });
  const { status = 'False', reason = '', message = '' } = news?.progressing ?? {};
  const known = { type: 'Progressing', status, reason, message, lastTransitionTime: ago(0) } as const;
  const [again] = planOf([aManagedNode('a', {}, { ...shadow, progressing: known })]).conditions.flat();
  expect(again?.event).toBeUndefined();
});

test('a node without the label of managed nodes is not pinned', () => {
  const [write] = planOf([aManagedNode('a', { managed: false }, locked)], { pin: NEW }).specs;
  expect(write?.spec.settings).toBeNull();
  expect(planOf([aManagedNode('a', { managed: false })], { pin: NEW }).specs).toEqual([]);
});

test('what the host says about the lock is passed on', () => {
  const settings = { message: 'PATCH /settings: 400 Invalid version string' };
  const shadow: ShadowParts = { ...locked, status: { target_version: OLD, settings } };
  const [news] = planOf([aManagedNode('a', {}, shadow)], { pin: NEW }).conditions.flat();
  expect(news?.progressing.message).toContain('400 Invalid version string');
});

test('no node of a fleet that gets other settings starts before it has them', () => {
  const managedNodes = Array.from({ length: 150 }, (_, i) => aManagedNode(`node-${i}`));
  const { specs } = planOf(managedNodes, { pin: NEW });
  expect(specs.map(({ outcome }) => outcome)).toEqual(managedNodes.map(() => 'Configured'));
});

test('an agent that names other settings each time gets one Event an hour', () => {
  const keys = Array.from({ length: 3 }, (_, i) => {
    const shadow: ShadowParts = { status: { target_version: OLD, settings: { cannotUnset: [`settings.motd-${i}`] } } };
    return planOf([aManagedNode('a', {}, shadow)])
      .conditions.flat()
      .map(({ event }) => event?.key);
  });
  expect(new Set(keys.flat()).size).toBe(1);
});
