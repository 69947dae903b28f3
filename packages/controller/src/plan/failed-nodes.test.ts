/** Nodes that fail with a version, and the freeze that follows when too many do. */
import type { BrupopConfig, BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { LastOperation } from '@brupop/shared/api/shadow';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { shadowView } from '../cluster/shadow.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import {
  ago,
  aManagedNode,
  aSnapshot,
  failure,
  MINUTE,
  NEW,
  NOW,
  OLD,
  podsOf,
  type ShadowParts,
  underWay,
} from '../testing/objects.ts';
import { statusOf } from '../report/config-status.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const HOUR = 60 * MINUTE;
const waiting = (name: string): ManagedNode => aManagedNode(name);
/** It is retried later. */
const failedWith = (name: string, code: string, ms = MINUTE, version = NEW): ManagedNode => {
  const record = { failed: { version, code, at: ago(ms) } };
  return aManagedNode(name, { ready: false }, { record });
};
const rebooting = (name: string, sinceMs: number, parts: ShadowParts = {}): ManagedNode =>
  aManagedNode(
    name,
    {},
    {
      spec: underWay('RebootedIntoUpdate', sinceMs),
      record: { rebootRequestedAt: ago(sinceMs) },
      status: {
        current_state: 'StagedAndPerformedUpdate',
        lastOperation: failure(undefined, { operation: 'Reboot', state: 'Processing' }),
      },
      ...parts,
    },
  );
const reporting = (
  name: string,
  errorCode: LastOperation['errorCode'],
  parts: Partial<LastOperation> = {},
  creationTimestamp = ago(24 * HOUR),
): ManagedNode =>
  rebooting(name, MINUTE, {
    creationTimestamp,
    status: {
      current_state: 'ErrorReset',
      crash_count: 1,
      lastOperation: failure(errorCode, { operation: 'Reboot', ...parts }),
    },
  });

/** With what the API server and the kubelet have recorded. */
const seen = (
  managedNode: ManagedNode,
  { drain, bootID = 'boot-2' }: { drain?: unknown; bootID?: string },
): ManagedNode => {
  const { node, shadow } = managedNode;
  if (node === undefined || shadow?.status === undefined) throw new Error('there are a Node and a report');
  const record = { ...shadow.record, bootBefore: 'boot-1' };
  const status = { ...shadow.status, ...(drain !== undefined && { drain: drain as typeof shadow.status.drain }) };
  return { ...managedNode, node: { ...node, bootID }, shadow: shadowView({ ...shadow, record, status }) };
};

const MADE_UP = '999.0.0';

describe('a failure that only an agent claims', () => {
  const outcomes = ({ specs }: Plan): string[] => specs.map(({ outcome }) => outcome);
  const claims = (what: Parameters<typeof seen>[1]): Plan => planOf([seen(reporting('a', 'RolledBack'), what)]);

  it('counts with a drain that the API server has recorded, and another boot', () => {
    const made = claims({});
    expect(made.failed).toMatchObject([{ name: 'a', code: 'RolledBack' }]);
    expect(made.specs[0]?.record.failed).toMatchObject({ code: 'RolledBack' });
  });

  it.each([
    ['no drain', { drain: null }],
    ['a drain that is not over', { drain: { observedGeneration: 3, startTime: ago(MINUTE) } }],
    ['a drain that has failed', { drain: { observedGeneration: 3, startTime: ago(MINUTE), result: 'TimedOut' } }],
    [
      'the drain of an earlier attempt',
      { drain: { observedGeneration: 0, startTime: ago(MINUTE), result: 'Drained' } },
    ],
  ])('is none of the version with %s', (_, what) => {
    const made = claims(what);
    expect(made.failed).toEqual([]);
    expect(outcomes(made)).toEqual(['Failed']);
    expect(made.specs[0]?.record.failed).toBeUndefined();
  });

  it('waits until the Node shows the boot, until the deadline', () => {
    const unconfirmed = claims({ bootID: 'boot-1' });
    expect([outcomes(unconfirmed), unconfirmed.failed]).toEqual([[], []]);
    const late = planOf([seen(reporting('a', 'RolledBack'), { bootID: 'boot-1' })], { now: NOW + 3 * HOUR });
    expect(outcomes(late)).toEqual(['Failed']);
    expect(late.failed).toEqual([]);
  });

  it('needs no boot where the host has not rebooted', () => {
    const made = planOf([seen(reporting('a', 'ActivateFailed'), { bootID: 'boot-1' })]);
    expect(made.failed).toMatchObject([{ name: 'a', code: 'ActivateFailed' }]);
  });

  it('is none either after a step to MonitoringUpdate without a drain', () => {
    const monitored = aManagedNode('a', { ready: false }, { spec: underWay('MonitoringUpdate', 3 * HOUR) });
    expect(planOf([monitored]).failed).toMatchObject([{ name: 'a', code: 'NotHealthy' }]);
    expect(planOf([seen(monitored, { drain: null })]).failed).toEqual([]);
  });

  it('freezes no other version when only nodes that failed know of it', () => {
    const liar = (name: string): ManagedNode => failedWith(name, 'RolledBack', MINUTE, MADE_UP);
    const made = planOf([liar('a'), liar('b'), waiting('c')]);
    expect(made.frozen).toEqual([{ version: MADE_UP, since: NOW, holdsOlder: false }]);
    expect(started(made)).toEqual(['c']);
    const condition = statusAfter(made).conditions?.find(({ type }) => type === 'Frozen');
    expect(condition?.message).toMatch(`No update to ${MADE_UP} starts: it failed on more nodes`);
  });

  it.each(['', MADE_UP])(
    'freezes no other version when those that failed then claim to run it (offered: %p)',
    (offered) => {
      const status = { frozenVersions: [{ version: MADE_UP, since: ago(HOUR) }] };
      const recovered = ['a', 'b'].map((name) =>
        aManagedNode(name, {}, { status: { current_version: MADE_UP, target_version: offered } }),
      );
      expect(started(planOf([...recovered, waiting('c')], { status }))).toEqual(['c']);
    },
  );

  it('freezes no other version when one fails and another claims to be offered it, without a budget', () => {
    const claims = aManagedNode('b', {}, { status: { target_version: MADE_UP } });
    const spec = { rollout: { failureBudget: 0 } };
    const made = planOf([failedWith('a', 'RolledBack', MINUTE, MADE_UP), claims, waiting('c')], { spec });
    expect(made.frozen).toMatchObject([{ version: MADE_UP }]);
    expect(started(made)).toEqual(['c']);
  });
});

interface World {
  readonly spec?: object;
  readonly status?: BrupopConfigStatus;
  readonly now?: number;
}

function planOf(managedNodes: readonly ManagedNode[], { spec = {}, status, now = NOW }: World = {}): Plan {
  const snapshot = aSnapshot(managedNodes, spec, now);
  const config = { ...snapshot.config, ...(status !== undefined && { status }) } as BrupopConfig;
  return plan({ ...snapshot, config }, now);
}

const started = ({ specs }: Plan): string[] =>
  specs.filter(({ outcome }) => outcome === 'Started').map(({ node }) => node.metadata.name);
const statusAfter = (made: Plan, spec = {}): BrupopConfigStatus => {
  const { config } = aSnapshot([], spec);
  return statusOf({ config: config as BrupopConfig, plan: made, before: undefined, isWritten: true, now: NOW });
};
const AT_ONCE = { concurrency: { maxUpdating: 10 } };

describe('a failure that counts against its version', () => {
  it.each(['RolledBack', 'WrongVersionBooted', 'RebootTimedOut'] as const)('is %s', (code) => {
    const made = planOf([reporting('a', code)]);
    expect(made.failed).toEqual([{ name: 'a', version: NEW, code, since: NOW }]);
    expect(made.specs[0]?.record).toMatchObject({ failed: { version: NEW, code: code, at: rfc3339(NOW) } });
  });

  it('is a step after the drain that timed out', () => {
    expect(planOf([reporting('a', 'StepTimedOut')]).failed).toHaveLength(1);
    expect(planOf([reporting('a', 'StepTimedOut', { operation: 'Drain' })]).failed).toEqual([]);
  });

  it.each(['PrepareFailed', 'DrainTimedOut', 'HostUnreachable', 'CordonRemoved'] as const)('is not %s', (code) => {
    const made = planOf([reporting('a', code, { operation: 'Drain' })]);
    expect(made.failed).toEqual([]);
    expect(made.specs[0]?.record.failed).toBeUndefined();
  });

  it('is a reboot without a result within its limit', () => {
    expect(planOf([rebooting('a', 3 * HOUR)]).failed).toMatchObject([{ name: 'a', code: 'NotReturned' }]);
  });

  it('is no drain without a result within its limit', () => {
    const draining = rebooting('a', 3 * HOUR, {
      status: {
        current_state: 'StagedAndPerformedUpdate',
        lastOperation: failure(undefined, { operation: 'Drain', state: 'Processing' }),
      },
    });
    expect(planOf([draining]).failed).toEqual([]);
  });

  it('is no activation without a result within its limit', () => {
    const activating = rebooting('a', 3 * HOUR, {
      status: {
        current_state: 'StagedAndPerformedUpdate',
        lastOperation: failure(undefined, { operation: 'Activate', state: 'Processing' }),
      },
    });
    expect(planOf([activating]).failed).toEqual([]);
  });

  it('is counted since its first report', () => {
    const status = { failedNodes: [{ name: 'a', version: NEW, code: 'RolledBack', since: ago(HOUR) }] };
    expect(planOf([reporting('a', 'RolledBack')], { status }).failed).toMatchObject([{ since: NOW - HOUR }]);
  });

  it('is a node that does not become healthy after its update', () => {
    const spec = underWay('MonitoringUpdate', 3 * HOUR);
    const notReady = aManagedNode('a', { ready: false }, { spec, status: { current_version: NEW } });
    expect(planOf([notReady]).failed).toMatchObject([{ name: 'a', code: 'NotHealthy' }]);
    const oldVersion = aManagedNode('a', {}, { spec });
    const made = planOf([oldVersion]);
    expect(made.failed).toMatchObject([{ name: 'a', code: 'NotHealthy' }]);
    expect(made.specs).toMatchObject([{ outcome: 'Cancelled' }]);
    expect(made.specs[0]?.record.failed).toMatchObject({ version: NEW, code: 'NotHealthy' });
  });

  it('is no node whose pods cannot be listed: two of them freeze no version', () => {
    const proving = (name: string): ManagedNode =>
      aManagedNode(name, {}, { spec: underWay('MonitoringUpdate', 3 * HOUR), status: { current_version: NEW } });
    const snapshot = aSnapshot([proving('a'), proving('b'), waiting('c')], { rollout: { failureBudget: 1 } });
    const unlisted = snapshot.managedNodes.flatMap(({ name, node }) =>
      node === undefined ? [] : [[name, { ...podsOf(node), seenAt: undefined, problem: 'timed out' }] as const],
    );
    const made = plan({ ...snapshot, pods: new Map(unlisted) }, NOW);
    expect([made.failed, made.frozen, made.specs]).toEqual([[], [], []]);
  });

  it('is no longer counted after a success', () => {
    const record = { failed: { version: NEW, code: 'RolledBack', at: ago(HOUR) } };
    const healthy = aManagedNode(
      'a',
      {},
      { spec: underWay('MonitoringUpdate'), record, status: { current_version: NEW } },
    );
    const made = planOf([healthy]);
    expect(made.specs).toMatchObject([{ outcome: 'Succeeded' }]);
    expect(made.specs[0]?.record.failed).toBeUndefined();
  });

  it('counts after its Node was deleted', () => {
    const status = { failedNodes: [{ name: 'gone', version: NEW, code: 'NotReturned', since: ago(HOUR) }] };
    expect(planOf([waiting('a')], { status }).failed).toMatchObject([{ name: 'gone' }]);
    const other = { failedNodes: [{ name: 'gone', version: '1.19.0', code: 'NotReturned', since: ago(HOUR) }] };
    expect(planOf([waiting('a')], { status: other }).failed).toEqual([]);
  });

  it('counts no longer when it was deleted and all other nodes run the version, and is shown as deleted until then', () => {
    const status = { failedNodes: [{ name: 'gone', version: NEW, code: 'NotReturned', since: ago(HOUR) }] };
    const running = (name: string): ManagedNode => aManagedNode(name, {}, { status: { current_version: NEW } });
    const made = planOf([running('a'), waiting('b')], { status });
    expect(statusAfter(made).failedNodes).toMatchObject([{ name: 'gone', deleted: true }]);
    expect(planOf([running('a'), running('b')], { status }).failed).toEqual([]);
    const present = { failedNodes: [{ name: 'a', version: NEW, code: 'NotReturned', since: ago(HOUR) }] };
    expect(planOf([running('a')], { status: present }).failed).toMatchObject([{ name: 'a' }]);
  });

  it('is no other Node that has got its name since', () => {
    const status = { failedNodes: [{ name: 'a', version: NEW, code: 'NotReturned', since: ago(HOUR) }] };
    const named = (version: string, age: number): ManagedNode =>
      aManagedNode('a', { creationTimestamp: ago(age) }, { status: { current_version: version } });
    expect(planOf([named('1.20.0', MINUTE)], { status }).failed).toMatchObject([{ name: 'a', deleted: true }]);
    expect(planOf([named(NEW, MINUTE)], { status }).failed).toEqual([]);
    expect(planOf([named(NEW, HOUR - MINUTE)], { status }).failed).toMatchObject([{ name: 'a' }]);
  });
});

describe('a node whose shadow was deleted after its failure', () => {
  const status = { failedNodes: [{ name: 'a', version: NEW, code: 'RolledBack', since: ago(HOUR) }] };
  const recreated = (parts: ShadowParts = {}): ManagedNode =>
    aManagedNode('a', { ready: false }, { creationTimestamp: ago(MINUTE), ...parts });

  it('still counts', () => {
    expect(planOf([recreated()], { status }).failed).toMatchObject([{ name: 'a', since: NOW - HOUR }]);
  });

  it('counts once when it fails again', () => {
    const again = reporting('a', 'RolledBack', {}, ago(MINUTE));
    const made = planOf([again, waiting('c')], { status });
    expect(made.failed).toMatchObject([{ name: 'a' }]);
    expect(made.frozen).toEqual([]);
  });

  it('still counts when a user has removed the label of managed nodes', () => {
    const made = planOf([aManagedNode('a', { managed: false }), waiting('c')], { status });
    expect(made.failed).toMatchObject([{ name: 'a' }]);
  });

  it('still counts while its Node is deleted and its shadow is not yet', () => {
    const orphan = { ...aManagedNode('a', {}, { annotations: {} }), node: undefined };
    expect(planOf([orphan, waiting('c')], { status }).failed).toMatchObject([{ name: 'a' }]);
    const { shadow } = failedWith('a', 'RolledBack');
    expect(planOf([{ ...orphan, shadow }, waiting('c')]).failed).toMatchObject([{ name: 'a' }]);
  });

  it('still counts when it has failed with another version since', () => {
    const made = planOf([failedWith('a', 'RolledBack', MINUTE, '1.22.0'), failedWith('b', 'RolledBack')], { status });
    expect(made.failed.map(({ name, version }) => `${name} ${version}`)).toEqual(['a 1.22.0', 'b 1.21.0', 'a 1.21.0']);
    expect(made.frozen).toMatchObject([{ version: NEW }]);
  });

  it('no longer counts after a success', () => {
    const record = { succeeded: { version: NEW, at: ago(0) } };
    expect(planOf([recreated({ record })], { status }).failed).toEqual([]);
  });
});

describe('a failure that was recorded by a clock that was ahead', () => {
  const status = { failedNodes: [{ name: 'a', version: NEW, code: 'RolledBack', since: ago(-HOUR) }] };
  const after = (version: string): Plan =>
    planOf([aManagedNode('a', {}, { record: { succeeded: { version, at: ago(MINUTE) } } })], { status });

  it('ends when the node succeeds with the version, and not with another one', () => {
    expect(after(NEW).failed).toEqual([]);
    expect(after(OLD).failed).toMatchObject([{ name: 'a', version: NEW }]);
  });
});

describe('a version that too many nodes failed with', () => {
  const two = [failedWith('a', 'RolledBack'), failedWith('b', 'NotHealthy', HOUR)];

  it('is frozen beyond the default budget of one node', () => {
    expect(started(planOf([failedWith('a', 'RolledBack'), waiting('c')]))).toEqual(['c']);
    const made = planOf([...two, waiting('c')]);
    expect(started(made)).toEqual([]);
    expect(made.frozen).toEqual([{ version: NEW, since: NOW, holdsOlder: true }]);
    const condition = statusAfter(made).conditions?.find(({ type }) => type === 'Frozen');
    expect(condition).toMatchObject({ status: 'True', reason: 'FailureBudgetExceeded' });
    expect(condition?.message).toContain(
      '1.21.0 or an older version starts: it failed on more nodes than spec.rollout.failureBudget allows (still failed: a (RolledBack), b (NotHealthy))',
    );
    expect(statusAfter(made)).toMatchObject({
      frozenVersions: [{ version: NEW, since: rfc3339(NOW) }],
      failedNodes: [{ name: 'a', version: NEW, code: 'RolledBack', since: ago(MINUTE) }, { name: 'b' }],
    });
  });

  it('is frozen in the plan that sees the last failure', () => {
    const made = planOf([failedWith('a', 'RolledBack'), reporting('b', 'RolledBack'), waiting('c')], { spec: AT_ONCE });
    expect(made.specs.map(({ outcome }) => outcome)).toEqual(['Failed']);
  });

  it('is not drained for on nodes that have only staged it', () => {
    const staged = aManagedNode('c', {}, { spec: underWay('StagedAndPerformedUpdate') });
    expect(planOf([failedWith('a', 'RolledBack'), staged]).specs).toMatchObject([{ outcome: 'Advanced' }]);
    const made = planOf([...two, staged]);
    expect(made.specs).toMatchObject([{ outcome: 'Deferred', because: { reason: 'Frozen' } }]);
  });

  it('lets nodes finish that were asked to reboot', () => {
    const booted = rebooting('c', MINUTE, { status: { current_state: 'RebootedIntoUpdate', current_version: NEW } });
    expect(planOf([...two, booted]).specs).toMatchObject([{ outcome: 'Advanced' }]);
  });

  it('remains frozen after its nodes have recovered', () => {
    const status = { frozenVersions: [{ version: NEW, since: ago(HOUR) }] };
    const made = planOf([waiting('c')], { status });
    expect(started(made)).toEqual([]);
    expect(made.frozen).toEqual([{ version: NEW, since: NOW - HOUR, holdsOlder: true }]);
  });

  it('is forgotten when all nodes run and are offered later versions', () => {
    const status = { frozenVersions: [{ version: '1.19.9', since: ago(HOUR) }] };
    expect(planOf([waiting('c')], { status }).frozen).toEqual([]);
  });

  it('remains frozen while all nodes are pinned to an older version, or none is selected', () => {
    const status = { frozenVersions: [{ version: NEW, since: ago(HOUR) }] };
    const pinned = aManagedNode('c', {}, { status: { target_version: '1.20.0' } });
    expect(planOf([pinned], { status, spec: { versions: { pin: '1.20.0' } } }).frozen).toHaveLength(1);
    const none = { nodeSelector: { matchLabels: { pool: 'none' } } };
    expect(planOf([waiting('c')], { status, spec: none }).frozen).toHaveLength(1);
  });

  it('needs a user only while nodes are to get it: not after a pin, a denial or a later version', () => {
    const status = { frozenVersions: [{ version: NEW, since: ago(HOUR) }] };
    const offered = (target_version: string): ManagedNode => aManagedNode('c', {}, { status: { target_version } });
    const isStalled = (node: ManagedNode, versions = {}): boolean => {
      const made = planOf([node], { status, spec: { versions } });
      expect(made.frozen).toHaveLength(1);
      return statusAfter(made).conditions?.some(({ type }) => type === 'Stalled') === true;
    };
    expect(isStalled(offered(NEW))).toBe(true);
    expect(isStalled(offered(NEW), { deny: [NEW] })).toBe(false);
    expect(isStalled(offered('1.20.0'), { pin: '1.20.0' })).toBe(false);
    expect(isStalled(offered('1.99.0'))).toBe(false);
  });

  it('is over for a denied version when a user accepts its failures, and no node starts with it', () => {
    const status = { frozenVersions: [{ version: NEW, since: ago(HOUR) }] };
    const spec = { versions: { deny: [NEW] }, rollout: { resume: ago(0) } };
    const made = planOf([failedWith('a', 'RolledBack'), waiting('c')], { status, spec });
    expect([made.frozen, made.failed, started(made)]).toEqual([[], [], []]);
  });

  it('needs a user also while a watch is stale', () => {
    const status = { frozenVersions: [{ version: NEW, since: ago(HOUR) }] };
    const snapshot = aSnapshot([waiting('c')], {});
    const config = { ...snapshot.config, status } as BrupopConfig;
    const made = plan({ ...snapshot, config, watchLags: [{ resource: 'pods', ms: HOUR }] }, NOW);
    const conditions = statusAfter(made).conditions ?? [];
    expect(conditions.find(({ type }) => type === 'Frozen')?.reason).toBe('WatchStale');
    expect(conditions.find(({ type }) => type === 'Stalled')?.reason).toBe('FailureBudgetExceeded');
  });

  it('can be resumed when a wrong clock recorded failures in the future', () => {
    const future = [failedWith('a', 'RolledBack', -24 * HOUR), failedWith('b', 'RolledBack', -24 * HOUR)];
    expect(planOf(future).frozen).toHaveLength(1);
    expect(planOf(future, { spec: { rollout: { resume: ago(0) } } }).frozen).toEqual([]);
  });

  it('does not keep nodes from a later version', () => {
    const later = aManagedNode('c', {}, { status: { target_version: '1.21.1' } });
    expect(started(planOf([...two, later]))).toEqual(['c']);
  });

  it('starts again when a user accepts the failures', () => {
    const status = { frozenVersions: [{ version: NEW, since: ago(MINUTE) }] };
    const accepted = planOf([...two, waiting('c')], { status, spec: { rollout: { resume: ago(0) } } });
    expect(accepted.failed).toEqual([]);
    expect(accepted.frozen).toEqual([]);
    expect(started(accepted)).toContain('c');
  });

  it.each([
    ['before the failures', 2 * HOUR],
    ['in the future', -2 * HOUR],
  ])('does not start again by a time %s', (_, ms) => {
    expect(started(planOf([...two, waiting('c')], { spec: { rollout: { resume: ago(ms) } } }))).toEqual([]);
  });

  it.each<[number | string, boolean]>([
    [0, true],
    [1, true],
    [2, false],
    ['1%', true],
    ['50%', false],
    ['100%', false],
  ])('depends on the failureBudget: with %s of 4 nodes, two failures freeze it: %s', (failureBudget, isFrozen) => {
    const made = planOf([...two, waiting('c'), waiting('d')], { spec: { rollout: { failureBudget } } });
    expect(made.frozen.length > 0).toBe(isFrozen);
  });

  it('counts each version for itself', () => {
    expect(planOf([failedWith('a', 'RolledBack'), failedWith('b', 'RolledBack', HOUR, '1.20.9')]).frozen).toEqual([]);
  });
});

describe('a node that missed a deadline', () => {
  const lost = rebooting('a', 3 * HOUR);

  it('holds its slot until a user accepts that', () => {
    expect(started(planOf([lost, waiting('b')]))).toEqual([]);
    expect(
      started(planOf([lost, waiting('b')], { spec: { rollout: { resume: ago(2 * HOUR + 59 * MINUTE) } } })),
    ).toEqual([]);
    const accepted = planOf([lost, waiting('b')], { spec: { rollout: { resume: ago(0) } } });
    expect(started(accepted)).toEqual(['b']);
    expect(accepted.orphanedNodes).toEqual([]);
  });
});
