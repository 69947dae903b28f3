import type { LastOperation } from '@brupop/shared/api/shadow';
import type { TrackerView } from '../state/tracker.ts';
import {
  BOOT,
  type Cases,
  decided,
  failed,
  KEY,
  MINUTE,
  NEW,
  NOW,
  READY,
  refused,
  unreachable,
  staging,
  step,
  UNINITIALIZED,
  summary,
} from '../testing/objects.ts';

const rebootSpec = { spec: 'RebootedIntoUpdate' } as const;
const rebooted = (agoMs: number): LastOperation => step('Reboot', { boot: 'boot-1', agoMs });

const cases: Cases = {
  'monitoring: is reached at once': [
    { spec: 'MonitoringUpdate', running: NEW, update: UNINITIALIZED },
    'report MonitoringUpdate',
  ],
  'monitoring: is reported once': [
    {
      spec: 'MonitoringUpdate',
      running: NEW,
      update: UNINITIALIZED,
      status: { current_state: 'MonitoringUpdate', current_version: NEW },
    },
    'wait',
  ],

  'without a shadow it waits': [{ noShadow: true }, 'wait'],
  'a socket that refuses connections for long is a stale mount': [
    {
      host: refused,
      tracker: { hostUnreachableSince: NOW - 3 * MINUTE, hostRefusedSince: NOW - 3 * MINUTE },
      attempt: { restored: true },
    },
    'exit',
  ],
  'an action of the apiserver runs before the process exits for its mount': [
    { host: refused, tracker: { hostUnreachableSince: NOW - 3 * MINUTE, hostRefusedSince: NOW - 3 * MINUTE } },
    'restore',
  ],
  'a socket that never answered this process is not stale: the step fails first': [
    {
      ...rebootSpec,
      host: refused,
      last: step('Drain'),
      tracker: {
        hostUnreachableSince: NOW - 5.5 * MINUTE,
        hostRefusedSince: NOW - 5.5 * MINUTE,
        hostHasAnswered: false,
      },
    },
    'report ErrorReset, Drain Failed HostUnreachable',
  ],
  'a socket that refuses for longer may be a stale mount all the same': [
    {
      host: refused,
      tracker: { hostUnreachableSince: NOW - 7 * MINUTE, hostRefusedSince: NOW - 7 * MINUTE, hostHasAnswered: false },
      attempt: { restored: true },
      last: failed('UpdateCheckFailed'),
    },
    'exit',
  ],
  'a host that is slow for long is no stale mount': [
    {
      host: unreachable,
      tracker: { hostUnreachableSince: NOW - 30 * MINUTE, hostHasAnswered: true },
      attempt: { restored: true },
    },
    'wait',
  ],
  'the Node is restored although the host does not answer': [{ host: refused }, 'restore'],
  'also after a failure': [
    { ...rebootSpec, host: unreachable, last: failed('HostUnreachable'), status: { current_state: 'ErrorReset' } },
    'restore',
  ],
  'time limits apply although the host does not answer': [
    { ...rebootSpec, host: refused, last: step('Drain', { agoMs: 29 * 60 * MINUTE }) },
    'report ErrorReset, Drain Failed DrainTimedOut',
  ],
  'also when the clock was set back': [
    { ...rebootSpec, host: refused, last: step('Drain', { agoMs: -31 * MINUTE }) },
    'report Idle, Drain Processing',
  ],
  'a host that is unreachable after its reboot fails the attempt; the step remains in progress': [
    { ...rebootSpec, host: refused, last: rebooted(16 * MINUTE) },
    'report ErrorReset, Reboot Processing HostUnreachable',
  ],
  'a rollback is detected although the attempt has failed before': [
    { ...rebootSpec, update: UNINITIALIZED, last: rebooted(16 * MINUTE), status: { current_state: 'ErrorReset' } },
    'report ErrorReset, Reboot Failed RolledBack',
  ],

  'nothing is restored while a reboot may come that an earlier process requested': [
    { update: READY, last: step('Reboot'), tracker: pendingFor(6.9 * MINUTE) },
    'wait',
  ],
  'the wall clock does not change that': [
    { update: READY, last: step('Reboot', { agoMs: 600 * MINUTE }), tracker: pendingFor(MINUTE) },
    'wait',
  ],
  'whether the host answers or not': [{ host: refused, last: step('Reboot'), tracker: pendingFor(MINUTE) }, 'wait'],
  'when it cannot come any more, that is recorded without the host, so that no other process waits again': [
    { host: refused, last: step('Reboot'), tracker: pendingFor(7 * MINUTE) },
    'report Idle, Activate Processing',
  ],
  'a step that delays nothing remains in progress until the host answers': [
    { host: refused, last: step('Activate'), attempt: { restored: true } },
    'wait',
  ],
  'a boot that came all the same is detected': [
    { update: UNINITIALIZED, last: step('Activate', { boot: 'boot-1' }) },
    'report ErrorReset, Activate Failed RolledBack',
  ],
  'the result of a boot is still detected when the host answers': [
    { host: refused, last: rebooted(16 * MINUTE) },
    'restore',
  ],
  'the agent does not exit for the refusing socket of a host that goes down': [
    {
      host: refused,
      last: step('Reboot'),
      tracker: { ...pendingFor(6.5 * MINUTE), hostRefusedSince: NOW - 6.5 * MINUTE },
    },
    'wait',
  ],
  'nothing else is started then': [
    { spec: 'StagedAndPerformedUpdate', version: '1.28.0', last: step('Reboot'), tracker: pendingFor(MINUTE) },
    'wait',
  ],
  'it is started when the reboot can no longer come': [
    { update: READY, last: step('Reboot'), tracker: pendingFor(7 * MINUTE) },
    'report Idle, Restore Processing',
  ],
  'it is when the reboot has happened': [
    { running: NEW, update: UNINITIALIZED, last: step('Reboot', { boot: 'boot-1' }) },
    'report Idle, Restore Processing',
  ],
  'an activated host without a record is recorded': [
    { bare: true, update: READY, tracker: pendingFor(MINUTE) },
    'report Idle, Reboot Processing',
  ],
  'an update that is requested meanwhile waits': [
    { bare: true, spec: 'RebootedIntoUpdate', update: READY, tracker: pendingFor(MINUTE) },
    'wait',
  ],
  'an activated host without a record is undone when no reboot can come any more': [
    { bare: true, update: READY, tracker: pendingFor(7 * MINUTE) },
    'deactivate',
  ],
  'waits for a host whose activation is unknown': [{ bare: true, host: refused, tracker: pendingFor(MINUTE) }, 'wait'],
  'it is started when this process started the step and has not requested the reboot': [
    { update: READY, last: step('Reboot') },
    'report Idle, Restore Processing',
  ],
  'an apiserver that is unreachable for long makes the agent exit': [{ apiUnreachableMs: 11 * MINUTE }, 'exit'],
  'the agent does not exit while the host is about to reboot': [
    {
      apiUnreachableMs: 11 * MINUTE,
      tracker: { reboots: { asked: { atMs: NOW - MINUTE, bootID: BOOT }, pending: undefined } },
    },
    'wait',
  ],
  'does not wait for a reboot that has happened': [
    { tracker: { reboots: { asked: { atMs: NOW - 1, bootID: 'boot-1' }, pending: undefined } } },
    'restore',
  ],
  'calls are paced while calls of the apiserver fail': [{ tracker: { api: { notBefore: NOW + 1 } } }, 'wait'],
  'commands are paced while calls of the host fail': [
    { ...staging, tracker: { host: { notBefore: NOW + 1 } } },
    'wait',
  ],
  'errors of the apiserver do not delay host commands': [
    { ...staging, tracker: { api: { notBefore: NOW + 1 } } },
    'refresh',
  ],
  'a spec that the apiserver rejects as outdated is not used again at once': [
    { tracker: { rejected: { key: KEY, notBefore: NOW + 1, times: 1 } } },
    'wait',
  ],
  'a newer spec than the rejected one is used at once': [
    { tracker: { rejected: { key: 'uid/6', notBefore: NOW + 1, times: 1 } } },
    'restore',
  ],
};

/** A reboot that may come, which this process has known for this time. */
function pendingFor(ms: number): Partial<TrackerView> {
  return { reboots: { asked: undefined, pending: { name: 'asked', sinceMs: NOW - ms } } };
}

it.each(Object.entries(cases))('%s', (_name, [given, expected]) => {
  expect(summary(decided(given))).toBe(expected);
});
