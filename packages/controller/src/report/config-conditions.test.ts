import { pinned } from '@brupop/shared/testing/settings';
import type { BrupopConfig, BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { DEFAULT_SPEC } from '@brupop/shared/api/config-spec';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { readPolicy } from '../policy/policy.ts';
import {
  ago,
  aManagedNode,
  aSnapshot,
  failure,
  MINUTE,
  NEW,
  NOW,
  OLD,
  underWay,
  withPolicy,
} from '../testing/objects.ts';
import { CONDITIONS } from './config-conditions.ts';
import { type BesideReports, statusOf } from './config-status.ts';
import { wholePlan as plan } from '../whole-plan.ts';

interface Case extends Pick<BesideReports, 'certificate' | 'dependents'> {
  readonly managedNodes?: readonly ManagedNode[];
  readonly before?: BrupopConfigStatus;
  readonly generation?: number;
  readonly isWritten?: boolean;
  readonly silentMs?: number;
  readonly clockSkewMs?: number;
}

function report(spec: object, parts: Case = {}): BrupopConfigStatus {
  const {
    managedNodes = [aManagedNode('a')],
    before,
    generation = 1,
    isWritten = true,
    silentMs = 0,
    clockSkewMs = 0,
    certificate,
    dependents,
  } = parts;
  const snapshot = aSnapshot(managedNodes, spec);
  const metadata = { name: 'cluster', uid: 'config', resourceVersion: '1', generation };
  const config = { metadata, spec, ...(before !== undefined && { status: before }) } as BrupopConfig;
  const watchLags = [{ resource: 'nodes', ms: silentMs }];
  const made = plan({ ...withPolicy(snapshot, readPolicy(config)), config, watchLags, clockSkewMs }, NOW);
  return statusOf({ config, plan: made, before, isWritten, now: NOW, certificate, dependents });
}

function shown(status: BrupopConfigStatus, type: string): string {
  const found = status.conditions?.find((condition) => condition.type === type);
  return `${found?.status} ${found?.reason}: ${found?.message}`;
}

const exactly = (text: string): RegExp => new RegExp(`^${text.replaceAll(/[.()+]/gu, '\\$&')}$`, 'u');
const upToDate = aManagedNode('z', {}, { status: { current_version: NEW } });
const updating = aManagedNode(
  'a',
  {},
  { spec: underWay('StagedAndPerformedUpdate'), status: { current_state: 'Idle' } },
);
const failed = aManagedNode(
  'a',
  {},
  {
    status: {
      crash_count: 1,
      state_transition_failure_timestamp: ago(MINUTE),
      lastOperation: failure('PrepareFailed'),
    },
  },
);
const lost = aManagedNode('a', {}, { status: { crash_count: 1, lastOperation: failure('RolledBack') } });
// NOW is Friday 2027-01-15 08:00 UTC.
const window = (schedule: string): object => ({ maintenance: { windows: [{ schedule, duration: '4h' }] } });
const blackouts = [{ from: ago(MINUTE), to: ago(-60 * MINUTE), reason: 'sale' }];
const bad = { concurrency: { maxUpdating: '0%' } };

const conditions: Record<string, [string, string | RegExp]> = {
  'a good configuration is in use': [shown(report({}), 'Ready'), 'True InUse: The configuration is in use'],
  'a bad one is not, and says what to write': [
    shown(report(bad), 'Ready'),
    'False InvalidConfiguration: No update starts, and updating nodes follow the previous configuration: spec.concurrency.maxUpdating: expected a whole number from 1, such as 2, or a percentage from "1%" to "100%", found "0%"',
  ],
  'a bad one freezes the fleet': [shown(report(bad), 'Frozen'), /^True InvalidConfiguration: No update starts: spec/],
  'a stale watch freezes the fleet': [
    shown(report({}, { silentMs: 120_000 }), 'Frozen'),
    /^True WatchStale: .* nodes /,
  ],
  'else it is not frozen': [shown(report({}), 'Frozen'), /^False NotFrozen/],
  'a bad one shows in the line of kubectl get': [
    shown(report(bad, { managedNodes: [upToDate] }), 'Progressing'),
    /^False InvalidConfiguration: 1 of 1 nodes are up to date, 0 updating, and no other update starts/,
  ],
  'a pause says why': [shown(report({ paused: true, pauseReason: 'sale' }), 'Paused'), 'True Paused: sale'],
  'without a pause updates may start': [shown(report({}), 'Paused'), 'False NotPaused: Updates may start'],
  'without windows it is open': [
    shown(report({}), 'WindowOpen'),
    'True NoWindows: No windows are configured: updates may start at any time',
  ],
  'an open window says when it closes': [
    shown(report(window('0 7 * * *')), 'WindowOpen'),
    'True InWindow: A maintenance window is open, until 2027-01-15T11:00:00Z',
  ],
  'a closed one says when it opens': [
    shown(report(window('0 9 * * *')), 'WindowOpen'),
    'False OutsideWindows: No maintenance window is open; the next opens at 2027-01-15T09:00:00Z',
  ],
  'a blackout says why': [
    shown(report({ maintenance: { blackouts } }), 'WindowOpen'),
    'False Blackout: No update or drain starts during this blackout: sale; the next opens at 2027-01-15T09:00:00Z',
  ],
  'nodes that update are counted': [
    shown(report({}, { managedNodes: [updating, upToDate] }), 'Progressing'),
    'True Updating: 1 of 2 nodes are up to date, 1 updating; expected to be complete by 2027-01-15T08:30:00Z',
  ],
  'a fleet that is through says so': [
    shown(report({}, { managedNodes: [upToDate] }), 'Progressing'),
    'False UpToDate: All nodes are up to date',
  ],
  'a fleet that waits says for what': [
    shown(report({ paused: true }, { managedNodes: [aManagedNode('a'), upToDate] }), 'Progressing'),
    'False Paused: 1 of 2 nodes are up to date; 1 waiting: Paused',
  ],
  'a failed node does not count as one that waits': [
    shown(report({}, { managedNodes: [failed, aManagedNode('b', { ready: false }), upToDate] }), 'Progressing'),
    /^False NodeNotReady: 1 of 3 nodes are up to date; 1 waiting: NodeNotReady, 1 failed/u,
  ],
  'a fleet in which all others failed says why': [
    shown(report({}, { managedNodes: [failed, upToDate] }), 'Progressing'),
    /^False \w+: 1 of 2 nodes are up to date; 1 failed: \w+/u,
  ],
  'an empty fleet says so': [
    shown(report({}, { managedNodes: [] }), 'Progressing'),
    'False NoNodes: There is no node with the label of managed nodes',
  ],
  'a selector that selects nothing is named': [
    shown(report({ nodeSelector: { matchLabels: { pool: 'web' } } }), 'Progressing'),
    'False NoNodes: There is no node with the label of managed nodes and that spec.nodeSelector selects',
  ],
  'no node needs attention': [shown(report({}), 'Degraded'), 'False AsExpected: No node needs attention'],
  'a failure is reported': [
    shown(report({}, { managedNodes: [failed] }), 'Degraded'),
    /^True NodesFailed: .* on 1 node; retried/,
  ],
  'what no retry fixes needs attention': [
    shown(report({}, { managedNodes: [lost] }), 'Degraded'),
    /^True NodesNeedAttention: Nodes need attention: 1 ManualRetryRequired;/,
  ],
  'a pinned version that hosts do not offer needs attention': [
    shown(
      report(
        { versions: { pin: '1.22.0' } },
        { managedNodes: [aManagedNode('a', {}, { spec: { settings: pinned({ versionLock: '1.22.0' }) } })] },
      ),
      'Degraded',
    ),
    /^True NodesNeedAttention: .*1 VersionNotOffered/,
  ],
};
test.each(Object.entries(conditions))('%s', (_, [found, expected]) => {
  expect(found).toMatch(typeof expected === 'string' ? exactly(expected) : expected);
});

describe('confirmedGeneration', () => {
  it('is that of a configuration that is wholly in effect', () => {
    expect(report({}, { generation: 7 }).confirmedGeneration).toBe(7);
  });

  it('stays behind while something is still to be written', () => {
    const before = { confirmedGeneration: 6 };
    expect(report({}, { generation: 7, isWritten: false, before }).confirmedGeneration).toBe(6);
    expect(report({}, { generation: 7, isWritten: false })).not.toHaveProperty('confirmedGeneration');
  });

  it('stays behind while the configuration cannot be followed, and its conditions tell of the new one', () => {
    const status = report(bad, { generation: 7, before: { confirmedGeneration: 6 } });
    expect([status.observedGeneration, status.confirmedGeneration]).toEqual([7, 6]);
    expect(new Set(status.conditions?.map(({ observedGeneration }) => observedGeneration))).toEqual(new Set([7]));
  });
});

describe('what is in force', () => {
  it('is recorded with every default', () => {
    const { inForce } = report({ concurrency: { maxUpdating: 3 } }, { generation: 2 });
    const concurrency = { maxUpdating: 3, controlPlane: 'OneAtATime' };
    expect(inForce).toEqual({ generation: 2, spec: { ...DEFAULT_SPEC, concurrency } });
  });

  it('stays as it was recorded for the same generation, whatever the defaults are by now', () => {
    const inForce = { generation: 2, spec: { concurrency: { maxUpdating: 5 } } };
    const status = report({}, { generation: 2, before: { inForce } });
    expect(status.inForce?.spec).toEqual({ concurrency: { maxUpdating: 5 } });
  });

  it('is replaced by what the spec says, whichever actor has edited it', () => {
    const inForce = { generation: 2, spec: { paused: false, order: 'Name' } };
    const status = report({ paused: true }, { generation: 2, before: { inForce } });
    expect(status.inForce?.spec).toEqual({ paused: true, order: 'Name' });
    expect(shown(status, 'Paused')).toMatch(/^True/);
  });

  it('is recreated when it is what cannot be followed', () => {
    const inForce = { generation: 2, spec: { order: 'Zone' } };
    const status = report({}, { generation: 2, before: { inForce } });
    expect(shown(status, 'Ready')).toMatch(/^True/);
    expect(status.inForce?.spec).toEqual(DEFAULT_SPEC);
  });

  it('comes from the spec again when that is changed', () => {
    const inForce = { generation: 2, spec: { concurrency: { maxUpdating: 5 } } };
    expect(report({}, { generation: 3, before: { inForce } }).inForce).toEqual({ generation: 3, spec: DEFAULT_SPEC });
  });

  it('stays as it was while a new configuration cannot be followed', () => {
    const inForce = { generation: 2, spec: { concurrency: { maxUpdating: 5 } } };
    expect(report(bad, { generation: 3, before: { inForce } }).inForce).toEqual(inForce);
  });
});

describe('the versions', () => {
  const known = (version: string, firstOfferedTime: string): BrupopConfigStatus => ({
    versions: [{ version, running: 9, offered: 9, firstOfferedTime }],
  });

  it('are dated when they are first seen, and keep that date', () => {
    expect(report({}, { before: known(NEW, ago(60 * MINUTE)) }).versions).toEqual([
      { version: NEW, running: 0, offered: 1, firstOfferedTime: ago(60 * MINUTE) },
      { version: OLD, running: 1, offered: 0, firstOfferedTime: ago(0) },
    ]);
  });

  it('start no age by a clock that is wrong, and keep what they have', () => {
    const before = known(NEW, ago(60 * MINUTE));
    expect(report({}, { before, clockSkewMs: -360 * MINUTE }).versions).toEqual([
      { version: NEW, running: 0, offered: 1, firstOfferedTime: ago(60 * MINUTE) },
      { version: OLD, running: 1, offered: 0 },
    ]);
  });

  it('start a new age after no node had them', () => {
    const { versions } = report({}, { before: known('1.19.0', ago(60 * MINUTE)) });
    expect(versions?.map(({ version }) => version)).toEqual([NEW, OLD]);
  });

  it('have no age while only one of several agents reports them', () => {
    const managedNodes = [
      aManagedNode('a', {}, { status: { target_version: '9.9.9' } }),
      aManagedNode('b', {}, { status: { target_version: NEW } }),
      aManagedNode('c', {}, { status: { target_version: NEW } }),
    ];
    const before = known('9.9.9', ago(60 * MINUTE));
    const dates = (status: BrupopConfigStatus): unknown =>
      status.versions?.map(({ version, firstOfferedTime }) => [version, firstOfferedTime]);
    expect(dates(report({}, { managedNodes, before }))).toEqual([
      ['9.9.9', undefined],
      [NEW, ago(0)],
      [OLD, ago(0)],
    ]);
  });

  it('keep a date that lies ahead, since it may be the present clock that is wrong', () => {
    const [first] = report({}, { before: known(NEW, ago(-60 * MINUTE)) }).versions ?? [];
    expect(first?.firstOfferedTime).toBe(ago(-60 * MINUTE));
  });

  it('that have no date that can be read get one', () => {
    expect(report({}, { before: known(NEW, 'yesterday') }).versions?.[0]?.firstOfferedTime).toBe(ago(0));
  });

  it('are at most 50, sorted by their number of nodes', () => {
    const liars = Array.from({ length: 60 }, (_, i) =>
      aManagedNode(`x${i}`, {}, { status: { current_version: `1.0.${i}`, target_version: `2.0.${i}` } }),
    );
    const { versions = [] } = report({}, { managedNodes: [...liars, aManagedNode('b'), aManagedNode('c')] });
    expect(versions).toHaveLength(50);
    expect(versions.map(({ version }) => version)).toEqual(expect.arrayContaining([OLD, NEW]));
  });
});

test('the same plan gives the same status, so that nothing is written twice', () => {
  const managedNodes = [updating, aManagedNode('b'), failed, upToDate];
  const first = report({}, { managedNodes });
  expect(report({}, { managedNodes, before: first })).toEqual(first);
});

test('shadows that cannot be created are named with the error, and none is created for a name that is too long', () => {
  const without = (name: string): ManagedNode => ({ ...aManagedNode(name), shadow: undefined });
  const long = 'n'.repeat(250);
  const rejected = plan(aSnapshot([{ ...without('a'), writeRejection: '403 quota' }, without('b')]), NOW);
  expect(CONDITIONS.Degraded(rejected).message).toBe(
    'Nodes need attention: the shadows of a cannot be created: 403 quota',
  );
  expect(rejected.newNodes.map(({ metadata: { name } }) => name)).toEqual(['a', 'b']);
  const tooLong = plan(aSnapshot([without(long)]), NOW);
  expect(tooLong.newNodes).toEqual([]);
  expect(CONDITIONS.Degraded(tooLong).message).toContain('longer than 249 characters');
});

test('versions that differ only in build metadata have one age', () => {
  const offered = ['1.21.0+a', '1.21.0+b'].map((version, i) =>
    aManagedNode(`node-${i}`, {}, { status: { target_version: version } }),
  );
  expect(plan(aSnapshot(offered), NOW).forecast.versions).toContainEqual({
    version: '1.21.0+a',
    running: 0,
    offered: 2,
    hasAge: true,
  });
});

describe('the condition CertificateReady', () => {
  const valid = { status: 'True', reason: 'Valid', message: 'Issued by CN=a' } as const;

  it('says what the issuer reports, and the same until a new leader has looked', () => {
    const before = report({}, { certificate: valid });
    expect(shown(before, 'CertificateReady')).toBe('True Valid: Issued by CN=a');
    expect(report({}, { before, certificate: 'unknown' })).toEqual(before);
  });

  it('is absent before the first leader has looked, and when users provide the certificate', () => {
    const types = (status: BrupopConfigStatus): string[] => (status.conditions ?? []).map(({ type }) => type);
    expect(types(report({}, { certificate: 'unknown' }))).not.toContain('CertificateReady');
    expect(types(report({}, { before: report({}, { certificate: valid }) }))).not.toContain('CertificateReady');
  });
});

test('the status keeps when a loss of the cluster began, until a leader has looked', () => {
  const condition = { status: 'True', reason: 'NotScaled', message: 'none' } as const;
  const one = { kind: 'Deployment', namespace: 'kube-system', target: 'autoscaler', state: 'Up' };
  const reported = { condition, dependents: [one], clusterLostAt: NOW - MINUTE };
  const before = report({}, { dependents: reported });
  expect(before.clusterLostTime).toBe(ago(MINUTE));
  expect(report({}, { before, dependents: 'unknown' })).toEqual(before);
  const after = report({}, { before, dependents: { ...reported, clusterLostAt: undefined } });
  expect(after).not.toHaveProperty('clusterLostTime');
});

test('the status keeps since when a target is at 0, also while it cannot be read', () => {
  const condition = { status: 'False', reason: 'ScaledDown', message: 'one' } as const;
  const down = { kind: 'Deployment', namespace: 'kube-system', target: 'autoscaler', state: 'Down', replicas: 2 };
  const before = { dependents: [{ ...down, since: ago(MINUTE) }] };
  for (const state of ['Down', 'Failed', 'NotAllowed']) {
    const dependents = { condition, dependents: [{ ...down, state }], clusterLostAt: undefined };
    expect(report({}, { before, dependents }).dependents).toEqual([{ ...down, state, since: ago(MINUTE) }]);
  }
});

test('after the last blackout the status has no window, not an empty one, which the Kubernetes API rejects', () => {
  const past = [{ from: ago(60 * MINUTE), to: ago(MINUTE), reason: 'sale' }];
  expect(report({ maintenance: { blackouts } }).window).toEqual({ nextOpenTime: '2027-01-15T09:00:00Z' });
  expect(report({ maintenance: { blackouts: past } })).not.toHaveProperty('window');
});

test('while a configuration has a mistake, Paused says that the one in force pauses updates', () => {
  const snapshot = aSnapshot([aManagedNode('a')], { paused: true });
  const messageWith = (problem?: string): string =>
    CONDITIONS.Paused(plan(withPolicy(snapshot, { ...snapshot.policy, ...(problem && { problem }) }), NOW)).message;
  expect(messageWith()).not.toContain('in force');
  expect(messageWith('spec.order: no such order')).toContain('So says the configuration in force');
});
