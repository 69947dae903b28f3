import { pinned } from '@brupop/shared/testing/settings';
import { CORDONED_ANNOTATION, RETRY_ANNOTATION, SKIP_ANNOTATION } from '@brupop/shared/api/names';
import { NO_PODS_LISTED } from '../../cluster/all-pods.ts';
import { CONNECTED } from '../../cluster/connectivity.ts';
import { wantedVersion } from '../../policy/policy.ts';
import {
  ago,
  aNode,
  aShadow,
  aSnapshot,
  DRAINABLE,
  failure,
  MINUTE,
  NEW,
  NO_CHECKS_KNOWN,
  type NodeParts,
  NOW,
  OLD,
  type ShadowParts,
} from '../../testing/objects.ts';
import { Checks } from '../facts/query-checks.ts';
import type { Drainable } from '../facts/drainability.ts';
import { Quorums } from '../facts/quorums.ts';
import { Workloads } from '../facts/workloads.ts';
import type { Blocked } from '../facts/reasons.ts';
import type { GateInput } from './gate.ts';
import { whyNot } from './admission.ts';
import { Moment } from '../../kept/moment.ts';

interface Case {
  readonly node?: NodeParts;
  readonly shadow?: ShadowParts;
  readonly config?: unknown;
  readonly capacity?: Blocked;
  readonly othersFirst?: Blocked;
  readonly needMs?: number;
  readonly offeredSince?: number;
  readonly writeRejection?: string;
  readonly stale?: readonly string[];
  readonly lost?: boolean;
  readonly clockSkewMs?: number;
  readonly frozen?: GateInput['frozen'];
  readonly drain?: Partial<Drainable>;
}

function blockedBy({
  node,
  shadow: parts,
  config,
  capacity,
  othersFirst,
  needMs = 0,
  offeredSince,
  writeRejection,
  stale = [],
  lost = false,
  clockSkewMs = 0,
  frozen = [],
  drain: found = {},
}: Case): Blocked | undefined {
  const shadow = aShadow(parts);
  const { status } = shadow;
  if (status === undefined) throw new Error('a candidate has a status');
  const { policy } = aSnapshot([], config);
  const drain = (): Drainable => ({ ...DRAINABLE, ...found });
  const version = wantedVersion(status.target_version, policy.versions);
  const rejection = writeRejection === undefined ? {} : { writeRejection };
  const kind = { isRollback: false, isReboot: false };
  const pair = { ...kind, name: 'node-a', missingSince: NOW, node: aNode(node), shadow, ...rejection };
  const fleet = {
    policy,
    stale,
    connectivity: { ...CONNECTED, lost },
    clockSkewMs,
    frozen,
    capacity,
    othersFirst,
    controlPlane: undefined,
    offeredSince: () => offeredSince,
    checks: new Checks(NO_CHECKS_KNOWN, NOW),
    workloads: new Workloads(NO_PODS_LISTED, [], NOW),
    quorums: new Quorums(aSnapshot([]), [], NOW),
    held: undefined,
    unobserved: () => undefined,
    ownNamespace: 'brupop',
    fleet: policy,
    now: NOW,
    moment: new Moment(NOW),
  };
  return whyNot({ ...pair, group: undefined, status, version, ...fleet, drain, needMs });
}

const FULL = { reason: 'WaitingForCapacity', message: 'full' } as const;
const FIRST = { reason: 'WaitingForCanary', message: 'others go first' } as const;
const HELD = 'shop/web is held';

const tainted = (key: string): Case => ({ node: { taints: [{ key, effect: 'NoSchedule' }] } });

/** A node whose attempts failed, the latest a minute ago. */
const failed = (count: number, operation?: ReturnType<typeof failure>, more: ShadowParts = {}): ShadowParts => ({
  ...more,
  spec: { state_transition_timestamp: ago(MINUTE), ...more.spec },
  status: {
    crash_count: count,
    state_transition_failure_timestamp: ago(MINUTE),
    ...(operation !== undefined && { lastOperation: operation }),
    ...more.status,
  },
});
const asksFor = (version: string): ShadowParts => ({ annotations: { [RETRY_ANNOTATION]: version } });
const unreadable: ShadowParts = { record: { isUnreadable: true } };
/** A node whose attempts were cancelled, the latest a minute ago. */
const cancelled = (count: number, more: ShadowParts = {}): ShadowParts => ({
  spec: { state_transition_timestamp: ago(MINUTE) },
  ...more,
  record: { unsuccessful: count, ...more.record },
});

const cases: Record<string, [Case, string | undefined]> = {
  'a healthy node starts when there is capacity': [{}, undefined],
  'a stale watch blocks all nodes': [{ stale: ['brupopconfigs'] }, 'WatchStale'],
  'WatchStale takes precedence over a pause': [{ stale: ['nodes'], config: { paused: true } }, 'WatchStale'],
  'a loss of connectivity blocks all nodes': [{ lost: true }, 'ConnectivityLost'],
  'a clock that is an hour ahead blocks all nodes': [{ clockSkewMs: 3_600_000 }, 'ClockSkew'],
  'a clock that is an hour behind blocks all nodes': [{ clockSkewMs: -3_600_000 }, 'ClockSkew'],
  'a clock that differs by five minutes does not matter': [{ clockSkewMs: 300_000 }, undefined],
  'a pause blocks all nodes': [{ config: { paused: true } }, 'Paused'],
  'Paused takes precedence over an invalid configuration': [
    { config: { paused: true, concurrency: { maxUpdating: '0%' } } },
    'Paused',
  ],
  'an invalid configuration blocks all nodes': [
    { config: { concurrency: { maxUpdating: '0%' } } },
    'InvalidConfiguration',
  ],
  'a frozen version blocks all nodes': [{ frozen: [{ version: NEW, since: NOW, holdsOlder: true }] }, 'Frozen'],
  'an older version than a frozen one is blocked as well': [
    { frozen: [{ version: '1.22.0', since: NOW, holdsOlder: true }] },
    'Frozen',
  ],
  'a frozen version that is pinned is blocked': [
    { frozen: [{ version: NEW, since: NOW, holdsOlder: true }], config: { versions: { pin: NEW } } },
    'Frozen',
  ],
  'an older version than a frozen one starts if it is pinned': [
    {
      frozen: [{ version: NEW, since: NOW, holdsOlder: true }],
      config: { versions: { pin: '1.20.5' } },
      shadow: { status: { target_version: '1.20.5' }, spec: { settings: pinned({ versionLock: '1.20.5' }) } },
    },
    undefined,
  ],
  'an older version starts when only nodes that failed know of the frozen one': [
    { frozen: [{ version: '999.0.0', since: NOW, holdsOlder: false }] },
    undefined,
  ],
  'a later version than a frozen one starts': [{ frozen: [{ version: OLD, since: NOW, holdsOlder: true }] }, undefined],
  'an invalid version blocks the node': [{ shadow: { status: { target_version: 'latest' } } }, 'InvalidVersion'],
  'a node that is not Ready waits': [{ node: { ready: false } }, 'NodeNotReady'],
  'a node that cluster-autoscaler removes waits': [tainted('ToBeDeletedByClusterAutoscaler'), 'NodeNotReady'],
  'a node that Karpenter removes waits': [tainted('karpenter.sh/disrupted'), 'NodeNotReady'],
  'a node whose spot instance is interrupted waits': [tainted('aws-node-termination-handler/spot-itn'), 'NodeNotReady'],
  'a node whose Auto Scaling group terminates it waits': [
    tainted('aws-node-termination-handler/asg-lifecycle-termination'),
    'NodeNotReady',
  ],
  'a node that Google Cloud is about to stop waits': [
    tainted('cloud.google.com/impending-node-termination'),
    'NodeNotReady',
  ],
  'a node whose machine is off waits': [tainted('node.cloudprovider.kubernetes.io/shutdown'), 'NodeNotReady'],
  'a node with another taint of Karpenter starts': [tainted('karpenter.sh/other'), undefined],
  'a node that cluster-autoscaler may come to remove starts': [
    tainted('DeletionCandidateOfClusterAutoscaler'),
    undefined,
  ],
  'a node whose spot instance may be interrupted starts': [
    tainted('aws-node-termination-handler/rebalance-recommendation'),
    undefined,
  ],
  'a node whose machine has a scheduled maintenance starts': [
    tainted('aws-node-termination-handler/scheduled-maintenance'),
    undefined,
  ],
  'a node that is being deleted waits': [{ node: { deletionTimestamp: ago(0) } }, 'NodeNotReady'],
  'a node whose agent has not reported since the boot waits': [{ node: { bootID: 'boot-2' } }, 'NodeNotReady'],
  'a node whose agent reports no boot ID, as older ones do, starts': [
    { shadow: { status: { bootID: '' } } },
    undefined,
  ],
  'a node that a user cordoned waits': [{ node: { unschedulable: true } }, 'CordonedExternally'],
  'a node with our cordon of an earlier attempt waits': [
    { node: { unschedulable: true, annotations: { [CORDONED_ANNOTATION]: ago(0) } } },
    'CleanupPending',
  ],
  'a node waits while others go first': [{ othersFirst: FIRST, capacity: FULL }, 'WaitingForCanary'],
  'a frozen version is shown also while others go first': [
    { othersFirst: FIRST, frozen: [{ version: NEW, since: NOW, holdsOlder: true }] },
    'Frozen',
  ],
  'a node waits without capacity': [{ capacity: FULL }, 'WaitingForCapacity'],
  'a node that cannot be drained waits': [{ drain: { block: HELD, recheckAt: NOW + 1 } }, 'DrainBlocked'],
  'a node that cannot be drained shows DrainBlocked also without capacity': [
    { drain: { block: HELD, recheckAt: NOW }, capacity: FULL },
    'DrainBlocked',
  ],
  'the pods of a node that cannot be drained are listed again after a while': [
    { drain: { block: HELD, recheckAt: NOW } },
    'PodListFailed',
  ],
  'no node starts on an old list of pods': [{ drain: { fresh: false } }, 'PodListFailed'],
  'pods are not listed without capacity': [{ drain: { fresh: false }, capacity: FULL }, 'WaitingForCapacity'],
  'a node whose spec is rejected waits': [{ writeRejection: 'denied' }, 'SpecWriteRejected'],

  'the first transient failure is retried after a minute': [{ shadow: failed(1, failure('HostBusy')) }, undefined],
  'the second transient failure is retried later': [{ shadow: failed(2, failure('HostBusy')) }, 'Backoff'],
  'other failures are retried after 5 minutes': [{ shadow: failed(1, failure('PrepareFailed')) }, 'Backoff'],
  'a failure reported by an older operator is retried after 5 minutes': [{ shadow: failed(1) }, 'Backoff'],
  'a cancelled attempt is not retried at once': [{ shadow: cancelled(1) }, 'Backoff'],
  'a node whose record cannot be read waits for a user': [{ shadow: unreadable }, 'ManualRetryRequired'],
  'and starts when the user asks for it': [{ shadow: { ...unreadable, ...asksFor(NEW) } }, undefined],
  'a host problem on record does not make a cancelled attempt require a manual retry': [
    { shadow: cancelled(1, { status: { lastOperation: failure('HostUnsupported', { bootID: 'boot-0' }) } }) },
    'Backoff',
  ],
  'a requested retry overrides the backoff of cancelled attempts': [{ shadow: cancelled(3, asksFor(NEW)) }, undefined],
  'a node whose agent does not count its failures waits as any other': [
    { shadow: { ...cancelled(2), status: { crash_count: 0, lastOperation: failure('HostBusy') } } },
    'Backoff',
  ],
  'a node whose agent names another version each time waits after the second failure': [
    { shadow: failed(0, failure('RolledBack', { version: '0.0.1' }), cancelled(2, asksFor('0.0.1'))) },
    'Backoff',
  ],
  'a node whose agent reports a boot after each failure waits after the second failure': [
    {
      shadow: failed(2, failure('HostUnsupported', { bootID: 'boot-0' }), {
        record: { unsuccessful: 2 },
      }),
    },
    'Backoff',
  ],
  'an attempt with a version that is no longer offered is not a failure of the newer version': [
    { shadow: failed(1, failure('VersionNotOffered', { version: '1.20.5' })) },
    undefined,
  ],
  'an attempt with a version that is offered but was not found is a failure': [
    { shadow: failed(1, failure('VersionNotOffered')) },
    'Backoff',
  ],
  'a version that rolled back is not retried': [{ shadow: failed(1, failure('RolledBack')) }, 'ManualRetryRequired'],
  'a newer version is tried after a rollback': [
    { shadow: failed(1, failure('RolledBack', { version: '1.20.5' })) },
    undefined,
  ],
  'a user may request a version that rolled back': [
    { shadow: failed(1, failure('RolledBack'), asksFor(NEW)) },
    undefined,
  ],
  'a requested retry of another version has no effect': [
    { shadow: failed(1, failure('RolledBack'), asksFor(OLD)) },
    'ManualRetryRequired',
  ],
  'a requested retry overrides a backoff': [{ shadow: failed(9, failure('PrepareFailed'), asksFor(NEW)) }, undefined],
  'a requested retry does not override a pause': [
    { shadow: failed(1, failure('RolledBack'), asksFor(NEW)), config: { paused: true } },
    'Paused',
  ],
  'a failure that needs a user requires a manual retry': [
    { shadow: failed(1, failure('HostUnsupported')) },
    'ManualRetryRequired',
  ],
  'a boot after the failure allows a retry': [
    { shadow: failed(1, failure('HostUnsupported', { bootID: 'boot-0' })) },
    undefined,
  ],
  'the boot of a failed reboot does not allow a retry': [
    { shadow: failed(1, failure('WrongVersionBooted', { operation: 'Reboot', bootID: 'boot-0' })) },
    'ManualRetryRequired',
  ],
  'an unknown error code requires a manual retry': [
    { shadow: failed(1, failure('FromTheFuture' as 'RolledBack')) },
    'ManualRetryRequired',
  ],
  'a failure at an unknown time is not retried': [
    {
      shadow: failed(1, failure('PrepareFailed'), {
        spec: { state_transition_timestamp: null },
        status: { state_transition_failure_timestamp: 'yesterday' },
      }),
    },
    'ManualRetryRequired',
  ],
  'a node whose clock is far behind does not retry at once': [
    {
      shadow: failed(1, failure('PrepareFailed'), {
        status: { state_transition_failure_timestamp: '1970-01-01T00:00:10Z' },
      }),
    },
    'Backoff',
  ],
  'a node whose clock is far ahead does not wait indefinitely': [
    {
      shadow: failed(1, failure('HostBusy'), {
        status: { state_transition_failure_timestamp: '2099-01-01T00:00:10Z' },
      }),
    },
    undefined,
  ],
};
test.each(Object.entries(cases))('%s', (_, [given, reason]) => expect(blockedBy(given)?.reason).toBe(reason));

const isBlocked: Record<string, [number, Parameters<typeof failure>[0], number]> = {
  'a passing cause: 2 minutes after the second failure': [2, 'HostBusy', 2],
  'a passing cause: never more than 30 minutes': [40, 'HostBusy', 30],
  'any other cause: 5 minutes after the first failure': [1, 'DrainTimedOut', 5],
  'any other cause: 40 minutes after the fourth': [4, 'DrainTimedOut', 40],
  'any other cause: never more than a day': [400, 'DrainTimedOut', 24 * 60],
};
test.each(Object.entries(isBlocked))('%s', (_, [count, code, minutes]) => {
  expect(blockedBy({ shadow: failed(count, failure(code)) })?.retryAt).toBe(NOW - MINUTE + minutes * MINUTE);
});

test('failed and cancelled attempts in a row wait longer together', () => {
  const shadow = failed(2, failure('PrepareFailed'), { record: { unsuccessful: 3 } });
  expect(blockedBy({ shadow })?.retryAt).toBe(NOW - MINUTE + 20 * MINUTE);
  expect(blockedBy({ shadow: cancelled(2) })).toMatchObject({
    retryAt: NOW - MINUTE + 10 * MINUTE,
    message: `2 attempts in a row did not succeed; retried after ${ago(-9 * MINUTE)}`,
  });
});

test('the message names the failure also when the agent does not count it', () => {
  const { record = {} } = cancelled(3);
  const shadow = failed(0, failure('VersionNotOffered', { message: 'not there' }), { record });
  expect(blockedBy({ shadow })?.message).toContain(
    '3 attempts in a row failed, at Stage of 1.21.0: VersionNotOffered (not there)',
  );
});

test('a node waits if its agent reports another version after a success', () => {
  const success = (version: string, minutes: number): ShadowParts => ({
    record: { succeeded: { version, at: ago(minutes * MINUTE) } },
  });
  expect(blockedBy({ shadow: success(NEW, 4) })).toMatchObject({ reason: 'Backoff', retryAt: NOW + MINUTE });
  expect(blockedBy({ shadow: success(NEW, 5) })).toBeUndefined();
  expect(blockedBy({ shadow: success('1.20.0', 1) })).toBeUndefined();
});

test('a long value of the skip annotation is shortened', () => {
  const node = { annotations: { [SKIP_ANNOTATION]: 'x'.repeat(250_000) } };
  expect(blockedBy({ node })?.message.length).toBeLessThan(300);
});

test('a stale watch is named', () => {
  expect(blockedBy({ stale: ['nodes', 'brupopconfigs'] })?.message).toContain('The watch of nodes, brupopconfigs has');
});

test('the explanation names the failure and how to ask for another attempt', () => {
  const blocked = blockedBy({
    shadow: failed(2, failure('RolledBack', { operation: 'Reboot', message: 'runs 1.20.0' })),
  });
  expect(blocked?.message).toBe(
    '2 attempts in a row failed, at Reboot of 1.21.0: RolledBack (runs 1.20.0); it is not retried automatically. ' +
      'To retry: kubectl annotate brs brs-node-a -n brupop --overwrite brupop.bottlerocket.aws/retry=1.21.0',
  );
});

test('the reason of a pause is shown', () => {
  expect(blockedBy({ config: { paused: true, pauseReason: 'sale' } })?.message).toContain('sale');
});
