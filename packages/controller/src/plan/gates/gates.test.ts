import { CORDONED_ANNOTATION, RETRY_ANNOTATION, UNSUCCESSFUL_ATTEMPTS_ANNOTATION } from '@brupop/shared/api/names';
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
  type NodeParts,
  NOW,
  OLD,
  type ShadowParts,
} from '../../testing/objects.ts';
import type { Drainable } from '../facts/drainability.ts';
import type { Blocked } from './reasons.ts';
import { whyNot } from './index.ts';

interface Case {
  readonly node?: NodeParts;
  readonly shadow?: ShadowParts;
  readonly config?: unknown;
  readonly capacity?: Blocked;
  readonly needMs?: number;
  readonly offeredSince?: number;
  readonly writeRejection?: string;
  readonly stale?: readonly string[];
  readonly drain?: Partial<Drainable>;
}

function blockedBy({
  node,
  shadow: parts,
  config,
  capacity,
  needMs = 0,
  offeredSince,
  writeRejection,
  stale = [],
  drain: found = {},
}: Case): Blocked | undefined {
  const shadow = aShadow(parts);
  const { status } = shadow;
  if (status === undefined) throw new Error('a candidate has a status');
  const { policy } = aSnapshot([], config);
  const drain = (): Drainable => ({ ...DRAINABLE, ...found });
  const version = wantedVersion(status.target_version, policy.versions);
  const rejection = writeRejection === undefined ? {} : { writeRejection };
  const pair = { name: 'node-a', missingSince: NOW, node: aNode(node), shadow, ...rejection };
  const fleet = { policy, stale, capacity, offeredSince: () => offeredSince, now: NOW };
  return whyNot({ ...pair, status, version, ...fleet, drain, needMs });
}

const FULL = { reason: 'WaitingForCapacity', message: 'full' } as const;
const HELD = 'shop/web is held';

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
/** A node whose attempts were cancelled, the latest a minute ago. */
const cancelled = (count: string, more: ShadowParts = {}): ShadowParts => ({
  spec: { state_transition_timestamp: ago(MINUTE) },
  ...more,
  annotations: { [UNSUCCESSFUL_ATTEMPTS_ANNOTATION]: count, ...more.annotations },
});

const cases: Record<string, [Case, string | undefined]> = {
  'a healthy node starts when there is capacity': [{}, undefined],
  'a stale watch blocks all nodes': [{ stale: ['brupopconfigs'] }, 'WatchStale'],
  'a stale watch is named before what it last showed': [{ stale: ['nodes'], config: { paused: true } }, 'WatchStale'],
  'a pause holds all': [{ config: { paused: true } }, 'Paused'],
  'a pause is named before a broken configuration': [
    { config: { paused: true, concurrency: { maxUpdating: '0%' } } },
    'Paused',
  ],
  'a configuration that cannot be followed holds all': [
    { config: { concurrency: { maxUpdating: '0%' } } },
    'InvalidConfiguration',
  ],
  'a version that is none holds the node': [{ shadow: { status: { target_version: 'latest' } } }, 'InvalidVersion'],
  'a node that is not Ready waits': [{ node: { ready: false } }, 'NodeNotReady'],
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
  'without capacity a node waits': [{ capacity: FULL }, 'WaitingForCapacity'],
  'a node that cannot be drained waits': [{ drain: { block: HELD, recheckAt: NOW + 1 } }, 'DrainBlocked'],
  'it says so with and without capacity': [{ drain: { block: HELD, recheckAt: NOW }, capacity: FULL }, 'DrainBlocked'],
  'after a while its pods are looked up again': [{ drain: { block: HELD, recheckAt: NOW } }, 'PodListFailed'],
  'no node starts on an old list of pods': [{ drain: { fresh: false } }, 'PodListFailed'],
  'pods are not listed without capacity': [{ drain: { fresh: false }, capacity: FULL }, 'WaitingForCapacity'],
  'a node whose spec is refused waits': [{ writeRejection: 'denied' }, 'SpecWriteRejected'],

  'a cause that passes soon is waited for a minute': [{ shadow: failed(1, failure('HostBusy')) }, undefined],
  'the second time it is waited longer': [{ shadow: failed(2, failure('HostBusy')) }, 'Backoff'],
  'other causes wait 5 minutes': [{ shadow: failed(1, failure('PrepareFailed')) }, 'Backoff'],
  'a failure of an older operator waits likewise': [{ shadow: failed(1) }, 'Backoff'],
  'a cancelled attempt is not retried at once': [{ shadow: cancelled('1') }, 'Backoff'],
  'an unreadable count counts as one': [{ shadow: cancelled('many') }, 'Backoff'],
  'a host problem on record does not make a cancelled attempt require a manual retry': [
    { shadow: cancelled('1', { status: { lastOperation: failure('HostUnsupported', { bootID: 'boot-0' }) } }) },
    'Backoff',
  ],
  'asking overrules that too': [{ shadow: cancelled('3', asksFor(NEW)) }, undefined],
  'an agent that counts none of its failures waits as any other': [
    { shadow: { ...cancelled('2'), status: { crash_count: 0, lastOperation: failure('HostBusy') } } },
    'Backoff',
  ],
  'an agent that names another version each time waits from the second time on': [
    { shadow: failed(0, failure('RolledBack', { version: '0.0.1' }), cancelled('2', asksFor('0.0.1'))) },
    'Backoff',
  ],
  'so does one that claims to have booted': [
    {
      shadow: failed(2, failure('HostUnsupported', { bootID: 'boot-0' }), {
        annotations: { [UNSUCCESSFUL_ATTEMPTS_ANNOTATION]: '2' },
      }),
    },
    'Backoff',
  ],
  'a version that is not offered any more is no failure of the newer one': [
    { shadow: failed(1, failure('VersionNotOffered', { version: '1.20.5' })) },
    undefined,
  ],
  'a version that is offered and was not found is one': [
    { shadow: failed(1, failure('VersionNotOffered')) },
    'Backoff',
  ],
  'a version that rolled back is not tried again': [
    { shadow: failed(1, failure('RolledBack')) },
    'ManualRetryRequired',
  ],
  'a newer version is tried after a rollback': [
    { shadow: failed(1, failure('RolledBack', { version: '1.20.5' })) },
    undefined,
  ],
  'a user may request a version that rolled back': [
    { shadow: failed(1, failure('RolledBack'), asksFor(NEW)) },
    undefined,
  ],
  'asking for another version changes nothing': [
    { shadow: failed(1, failure('RolledBack'), asksFor(OLD)) },
    'ManualRetryRequired',
  ],
  'asking overrules a backoff': [{ shadow: failed(9, failure('PrepareFailed'), asksFor(NEW)) }, undefined],
  'asking does not overrule a pause': [
    { shadow: failed(1, failure('RolledBack'), asksFor(NEW)), config: { paused: true } },
    'Paused',
  ],
  'what needs a user waits for one': [{ shadow: failed(1, failure('HostUnsupported')) }, 'ManualRetryRequired'],
  'a boot since then may have healed the host': [
    { shadow: failed(1, failure('HostUnsupported', { bootID: 'boot-0' })) },
    undefined,
  ],
  'the boot of the failed reboot itself proves nothing': [
    { shadow: failed(1, failure('WrongVersionBooted', { operation: 'Reboot', bootID: 'boot-0' })) },
    'ManualRetryRequired',
  ],
  'a code of a newer release needs a user': [
    { shadow: failed(1, failure('FromTheFuture' as 'RolledBack')) },
    'ManualRetryRequired',
  ],
  'without any time of the failure nothing is retried': [
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
  const shadow = failed(2, failure('PrepareFailed'), { annotations: { [UNSUCCESSFUL_ATTEMPTS_ANNOTATION]: '3' } });
  expect(blockedBy({ shadow })?.retryAt).toBe(NOW - MINUTE + 20 * MINUTE);
  expect(blockedBy({ shadow: cancelled('2') })).toMatchObject({
    retryAt: NOW - MINUTE + 10 * MINUTE,
    message: `2 attempts in a row ended without a success; retried after ${ago(-9 * MINUTE)}`,
  });
});

test('a stale watch is named', () => {
  expect(blockedBy({ stale: ['nodes', 'brupopconfigs'] })?.message).toContain('nothing about nodes, brupopconfigs for');
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
